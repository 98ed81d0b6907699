"""What a return is compared with beyond its own turn: means over turns or agents, and of the past.

Shapes: P tasks, G episodes per group, A agents, K turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Weight of the newest update in a running mean; its memory is about 20 updates.
RUNNING_WEIGHT = 0.05


class Past:
    """What returns were, by key: a running mean, and the mean square distance to it.

    It stands in for a turn that nobody else of its group took.
    """

    def __init__(self) -> None:
        self.running: dict[str, float] = {}
        self.spread: dict[str, float] = {}

    def compare(self, key: str, seen: np.ndarray) -> tuple[float, float]:
        """The running mean without `seen`, and the root mean square distance with it.

        The mean is 0 at first, and begins at what was seen first.
        """
        past = self.running.get(key, 0.0)
        _follow(self.running, key, float(seen.mean()))
        distance = _follow(self.spread, key, float(((seen - past) ** 2).mean())) ** 0.5
        return past, distance

    def state_dict(self) -> dict[str, Any]:
        """Both, as plain JSON values."""
        return {"running": dict(self.running), "spread": dict(self.spread)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.running = dict(state["running"])
        # Checkpoints from before every turn was scaled hold none; it begins anew.
        self.spread = dict(state.get("spread", {}))


def _follow(averages: dict[str, float], key: str, new: float) -> float:
    """Move a running average towards `new`, at which it begins; returns it."""
    before = averages.get(key, new)
    averages[key] = (1 - RUNNING_WEIGHT) * before + RUNNING_WEIGHT * new
    return averages[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Statistics of the pool that a turn belongs to, each (P, G, A, 1).

    Attributes:
        mean: over all turns of the pool.
        others: the mean over those of the other episodes; 0 where there are none.
        lonely: bool, there are none.
        deviation: the sample standard deviation of all; 0 for a single turn.
        equal: bool, all are equal up to rounding.
    """

    mean: np.ndarray
    others: np.ndarray
    lonely: np.ndarray
    deviation: np.ndarray
    equal: np.ndarray


def pooled(
    values: np.ndarray, alive: np.ndarray, pools: Sequence[int], rounding: np.ndarray
) -> Pooled:
    """Statistics over every turn that the agents of one pool took in the episodes of one task.

    Args:
        values: one for each turn, (P, G, A, K); those where not alive are ignored.
        alive: bool, (P, G, A, K).
        pools: the pool of each agent, a number, (A,).
        rounding: the largest difference that counts as none, (P, 1, 1, 1).
    """
    shape = (*values.shape[:3], 1)
    mean, others, deviation = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    lonely, equal = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for pool in set(pools):
        here = np.array([other == pool for other in pools])
        returns, taken = values[:, :, here], alive[:, :, here]
        everything, one_episode = (1, 2, 3), (2, 3)
        count = taken.sum(axis=everything, keepdims=True)
        total = np.where(taken, returns, 0.0).sum(axis=everything, keepdims=True)
        own = np.where(taken, returns, 0.0).sum(axis=one_episode, keepdims=True)
        left = count - taken.sum(axis=one_episode, keepdims=True)
        mean[:, :, here] = middle = total / np.maximum(count, 1)
        others[:, :, here] = np.where(left > 0, (total - own) / np.maximum(left, 1), 0.0)
        lonely[:, :, here] = left == 0
        squares = np.where(taken, (returns - middle) ** 2, 0.0).sum(axis=everything, keepdims=True)
        deviation[:, :, here] = np.sqrt(squares / np.maximum(count - 1, 1))
        high = np.where(taken, returns, -np.inf).max(axis=everything, keepdims=True)
        low = np.where(taken, returns, np.inf).min(axis=everything, keepdims=True)
        equal[:, :, here] = high - low <= rounding
    return Pooled(mean=mean, others=others, lonely=lonely, deviation=deviation, equal=equal)
