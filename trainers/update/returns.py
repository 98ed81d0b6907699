"""Rewards, or the correctness of answers, to returns. Pure functions on arrays.

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


SHAPINGS = ("none", "potential", "maporl")
"""Where returns come from: rewards, or the correctness of each turn's answer (see below)."""
PAPER_BONUS = (0.5, 1.0, 0.5, 1.0)
"""a0 to a3 of MAPoRL's bonuses, in units of `bonus`; the paper's values are per data set."""


def shaped_returns(
    right: np.ndarray, alive: np.ndarray, *, shaping: str, discount: float, bonus: float
) -> np.ndarray:
    """Returns of a debate from who was right when: MAPoRL (arXiv 2502.18439), two forms of bonus.

    Both begin with the paper's influence-aware return: the own turn now, the team's later turns
    discounted, divided by the weights' sum,

        R_t,i = (v_t,i + sum over s > t of g^(s-t) mean_j v_s,j) / (sum over s >= t of g^(s-t)).

    It is a return, from turn t on; nothing discounts it again. "potential" adds differences of
    potentials up to the end, so that each cycle sums to zero:

        bonus * (v_K-1,i - v_t-1,i) + bonus * (mean of others' v_K-1 - mean of others' v_t)

    with v_-1 = 0. The own part depends on turn t only through the last answer, so neither
    right-wrong-right nor a wrong first answer earns anything. "maporl" adds the
    paper's bonuses of turn t, with the signs of its stated intent (its released code pays for
    misleading others). `_potential` and `_paper` have tables of every cell. An answer that cannot
    be read is wrong, no worse; the paper pays -10 for it.

    Args:
        right: bool or [0, 1], (..., A, K), all A agents of the debate.
        alive: bool, (..., A, K), True where the agent acted.
        shaping: "potential" or "maporl".
        discount: g, in [0, 1].
        bonus: scale of the bonuses; 0 leaves the influence-aware return.

    Returns:
        float64, (..., A, K); 0 where not alive.

    Raises:
        ValueError: another `shaping`.
    """
    if shaping not in SHAPINGS[1:]:
        raise ValueError(f"shaping={shaping!r}: expected one of {SHAPINGS[1:]}")
    values = np.where(alive, right, 0.0).astype(np.float64)
    agents, turns = values.shape[-2:]
    team = values.mean(axis=-2, keepdims=True)  # (..., 1, K)
    others = (team * agents - values) / max(agents - 1, 1)
    returns = np.zeros_like(values)
    for turn in range(turns):
        weights = discount ** np.arange(turns - turn)
        later = (team[..., turn + 1 :] * weights[1:]).sum(axis=-1)
        returns[..., turn] = (values[..., turn] + later) / weights.sum()
    added = _potential(values, others) if shaping == "potential" else _paper(values, others)
    return np.where(alive, returns + bonus * added, 0.0)


def _potential(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Bonus of agent i at turn t: one cell of each table, the second one summed over the others.

    | i before t (first turn: wrong) | i right at last | i wrong at last |
    |---|---|---|
    | wrong | +1 | 0 |
    | right | 0 | -1 |

    | each of the A - 1 others at t | right at last | wrong at last |
    |---|---|---|
    | wrong | +1 / (A - 1) | 0 |
    | right | 0 | -1 / (A - 1) |
    """
    before = np.concatenate([np.zeros_like(values[..., :1]), values[..., :-1]], axis=-1)
    return (values[..., -1:] - before) + (others[..., -1:] - others)


def _paper(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Bonus of agent i at turn t: one cell of each table, added.

    | from t-1 to t, i itself | others right at t-1 | others wrong at t-1 |
    |---|---|---|
    | wrong -> right | +a0 | +a1 |
    | right -> wrong | -a1 | -a0 |

    | from t to t+1, the others | i right at t | i wrong at t |
    |---|---|---|
    | wrong -> right | +a3 | +a2 |
    | right -> wrong | -a2 | -a3 |

    "The others are right" means more than half of them. No change earns nothing.
    """
    a0, a1, a2, a3 = PAPER_BONUS
    right, together = values > 0.5, others > 0.5  # (..., A, K)
    added = np.zeros_like(values)
    for turn in range(1, values.shape[-1]):
        was, now, helped = right[..., turn - 1], right[..., turn], together[..., turn - 1]
        added[..., turn] += (~was & now) * np.where(helped, a0, a1)
        added[..., turn] -= (was & ~now) * np.where(helped, a1, a0)
        followed = together[..., turn].astype(float) - together[..., turn - 1]
        strength = np.where(was, np.where(followed > 0, a3, a2), np.where(followed > 0, a2, a3))
        added[..., turn - 1] += followed * strength
    return added
