r"""MAPPO: a central critic with GAE and clipped ratios (arXiv 2103.01955).

Formula: with V the `central_critic`'s and 0 after the last turn,

    d_k = r_k + gamma * V_(k+1) - V_k,    A_k = sum over l >= 0 of (gamma * lambda)^l * d_(k+l),

where k counts an agent's own turns, and V is fitted to A_k + V_k. Ratios and clipping are the
loss's: with `num_iterations` of 2 or more, at `epsilon`.

Comparison group: none, see `central_critic`. What V sees and what it is, stands there, too. With
`sees: own` it sees the own chat alone (independent PPO), and may be `critic: head`.

Degenerate case: lambda = 1 is `central_critic`, whatever V is. With lambda < 1 later rewards are
replaced by V in part: less variance, and the bias of V.

Deviations from the paper:

1. Value clipping, value normalisation by PopArt and the normalisation of advantages over the batch
   are left out; V counts in running means and deviations of returns.
2. Those of `central_critic`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Share
from trainers.algorithms.base import AdvantageInputs
from trainers.algorithms.central_critic import CentralCritic
from trainers.algorithms.relations import Kind, Relation
from trainers.critics.base import CriticSettings


class MAPPOSettings(CriticSettings):
    """Settings of `mappo`: those of a critic, and lambda."""

    within = "mappo"
    trace: Share = Field(default=0.95, description="lambda of GAE")
    sights: ClassVar[tuple[str, ...]] = ("joint", "state", "solution", "own")


class MAPPO(CentralCritic):
    """Generalised advantages from a central critic; see the module's docstring."""

    name = "mappo"
    Settings = MAPPOSettings
    declares = (
        Relation(kind=Kind.ALIAS, of="central_critic", when="trace=1"),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="trace < 1, several turns",
            named="bias: of the critic, which stands in for later rewards",
        ),
    )

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        if args.returns != "discounted":
            raise ValueError(
                f"mappo with returns={args.returns!r}: it is made of rewards and values; leave "
                "returns at 'discounted', or choose algorithm: central_critic"
            )

    def estimate(
        self, inputs: AdvantageInputs, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advantages by GAE, and those plus values."""
        gamma, advantages = self.args.discount, np.zeros_like(values)
        after, carried = np.zeros(values.shape[:-1]), np.zeros(values.shape[:-1])
        for turn in reversed(range(values.shape[-1])):
            error = inputs.rewards[..., turn] + gamma * after - values[..., turn]
            carried = np.where(
                inputs.alive[..., turn], error + gamma * self.settings.trace * carried, 0.0
            )
            after = values[..., turn]
            advantages[..., turn] = carried
        return advantages, advantages + values
