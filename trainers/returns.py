"""Rewards to returns. Pure functions on arrays.

Shapes: (..., A, K) with A agents and K turns; leading axes are tasks and episodes.
"""

from __future__ import annotations

import numpy as np


def discounted_returns(rewards: np.ndarray, alive: np.ndarray, discount: float) -> np.ndarray:
    """R_k = sum over j >= k of discount^(j - k) * r_j, over the turns an agent took.

    Args:
        rewards: (..., A, K); entries where `alive` is False are ignored.
        alive: bool, (..., A, K), True where the agent acted.
        discount: gamma, in [0, 1].

    Returns:
        float64, (..., A, K); 0 where not alive. MAGRPO, arXiv 2508.04652, section on returns.
    """
    paid = np.where(alive, rewards, 0.0).astype(np.float64)
    returns = np.zeros_like(paid)
    following = np.zeros(paid.shape[:-1])
    for turn in reversed(range(paid.shape[-1])):
        following = paid[..., turn] + discount * following
        returns[..., turn] = following
    return np.where(alive, returns, 0.0)
