"""MAPoRL's returns of a debate: taken from who was right when, not from what was paid.

Owns the formula, its two bonuses and what it reads of episodes. Shapes: (..., A, K) with A agents
and K turns; leading axes are tasks and episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Options, Share
from llm_marl_envs.core.records import EpisodeGroup
from trainers.batch.packing import turns_taken

if TYPE_CHECKING:
    from trainers.batch.returns import Paid

PAPER_BONUS = (0.5, 1.0, 0.5, 1.0)
"""a0 to a3 of the paper's bonuses, in units of `scale`; the paper's values are per data set."""


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


BONUSES: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "potential": _potential,
    "paper": _paper,
}


class Maporl(Options):
    """Returns of a debate from who was right when: MAPoRL (arXiv 2502.18439), two forms of bonus.

    Both begin with the paper's influence-aware return: the own turn now, the team's later turns
    discounted, divided by the weights' sum,

        R_t,i = (v_t,i + sum over s > t of g^(s-t) mean_j v_s,j) / (sum over s >= t of g^(s-t)).

    It is a return, from turn t on; nothing discounts it again. "potential" adds differences of
    potentials up to the end, so that each cycle sums to zero:

        scale * (v_K-1,i - v_t-1,i) + scale * (mean of others' v_K-1 - mean of others' v_t)

    with v_-1 = 0. The own part depends on turn t only through the last answer, so neither
    right-wrong-right nor a wrong first answer earns anything. "paper" adds the paper's bonuses of
    turn t, with the signs of its stated intent (its released code pays for misleading others).
    `_potential` and `_paper` have tables of every cell. An answer that cannot be read is wrong, no
    worse; the paper pays -10 for it.
    """

    name: ClassVar[str] = "maporl"
    reads_rewards: ClassVar[bool] = False
    within = "returns"
    bonus: Literal["potential", "paper"] = Field(
        default="potential", description="which form, see above"
    )
    discount: Share = Field(default=0.3, description="g, the weight of the team's next turn")
    scale: float = Field(
        default=0.5,
        ge=0,
        allow_inf_nan=False,
        description="of the bonuses; 0 leaves the influence-aware return",
    )

    def __call__(self, paid: Paid) -> np.ndarray:
        """As `trainers.batch.returns.Returns`; rewards and the run's discount are not read."""
        seats = paid.groups[0].episodes[0].agents
        returns = self.returns(*correctness(paid.groups, paid.alive.shape[-1]))
        return returns[:, :, [seats.index(agent) for agent in paid.agents]]

    def returns(self, right: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """The formula.

        Args:
            right: bool or [0, 1], (..., A, K), all A agents of the debate.
            alive: bool, (..., A, K), True where the agent acted.

        Returns:
            float64, (..., A, K); 0 where not alive.
        """
        values = np.where(alive, right, 0.0).astype(np.float64)
        agents, turns = values.shape[-2:]
        team = values.mean(axis=-2, keepdims=True)  # (..., 1, K)
        others = (team * agents - values) / max(agents - 1, 1)
        returns = np.zeros_like(values)
        for turn in range(turns):
            weights = self.discount ** np.arange(turns - turn)
            later = (team[..., turn + 1 :] * weights[1:]).sum(axis=-1)
            returns[..., turn] = (values[..., turn] + later) / weights.sum()
        return np.where(alive, returns + self.scale * BONUSES[self.bonus](values, others), 0.0)


def correctness(groups: Sequence[EpisodeGroup], turns: int) -> tuple[np.ndarray, np.ndarray]:
    """Who was right when, and who acted, all agents: two of bool, (P, G, A, K).

    In an episode that failed nobody acted.

    Raises:
        ValueError: an environment whose infos do not say `right`.
    """
    agents = groups[0].episodes[0].agents
    right = np.zeros((len(groups), len(groups[0].episodes), len(agents), turns), dtype=bool)
    acted = np.zeros_like(right)
    for where, turn in turns_taken(groups, agents):
        if "right" not in turn.info:
            raise ValueError(
                "returns 'maporl' need info['right'] of every turn; "
                f"{groups[0].episodes[0].env_id} has none: use 'discounted'"
            )
        right[where], acted[where] = turn.info["right"], True
    return right, acted
