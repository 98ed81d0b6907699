r"""Hysteretic learning: bad news weighs less, or more (Matignon, Laurent, Le Fort-Piat, IROS 2007).

Formula: B_k^g = A_k^g where A_k^g is positive, else w * A_k^g, with 0 <= w <= 10 and the advantage
A_k^g of `magrpo`. With w < 1 a partner that still explores makes a good joint action look bad at
times; an agent that forgives most of that does not give it up. With w > 1 bad news weighs more:
risk-averse learning, which gives up what a partner or a coin spoils now and then. w is fixed.
Leniency (Panait et al. 2006) is another thing: its forgiveness decays.

Comparison group: as in `magrpo`.

Degenerate case: w = 1 is `magrpo`. w = 0 learns from what went better than the others alone.

What it follows instead of the expected return: with one turn and G = 2 exactly

    (1 + w) / 2 * E[R] - (w - 1) / 4 * E|R - R'|  =  E[max(R, R')] / 2 + w * E[min(R, R')] / 2,

with R' the return of an independent episode. So w says how much the worse of two episodes counts
beside the better. With w < 1 spread is paid for: of two choices with the same mean the one with
more luck in it is learned, whoever caused the luck, the partner or a coin. With w > 1 spread costs.
At no w does a choice win that another dominates (is at least as good in every quantile), for both
terms grow with the quantiles. With more turns or a larger G the formula is not exact any more.

Deviations from the paper:

1. It has two learning rates for the positive and negative errors of Q-learning; here their ratio
   is a weight of advantages. The learning rate itself is the optimiser's.
2. It has w < 1 alone. w > 1 has the aim of risk-averse equilibria (Slumbers et al., arXiv
   2205.15434), which subtract the variance of the return over the others' strategies. Here it is
   the mean difference of two returns, over all that chance does, the own choice included, and what
   learning ends at is a fixed point; that it is an equilibrium is not claimed.
3. w is at most 10. Beyond that the worse of two episodes is nearly all, and w a learning rate.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Options
from trainers.algorithms.base import AdvantageInputs
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.relations import Kind, Relation


class HystereticSettings(Options):
    """Settings of `hysteretic`."""

    within = "hysteretic"
    weight: float = Field(
        default=0.2,
        ge=0,
        le=10,
        description="of negative advantages; above 1 learning is risk-averse",
    )


class Hysteretic(MAGRPO):
    """MAGRPO whose negative advantages weigh less, or more; see the module's docstring."""

    name = "hysteretic"
    reads = ("scale_rewards",)
    Settings = HystereticSettings
    settings: HystereticSettings
    declares = (
        Relation(kind=Kind.ALIAS, of="magrpo", when="weight=1"),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="weight < 1",
            named="objective: (1 + w) / 2 * E[R] + (1 - w) / 4 * E|R - R'| with one turn and "
            "G = 2; spread is paid for",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="weight > 1",
            named="objective: (1 + w) / 2 * E[R] - (w - 1) / 4 * E|R - R'| with one turn and "
            "G = 2; spread costs (risk-averse)",
        ),
    )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        advantages = super().advantages(inputs)
        return np.where(advantages < 0, self.settings.weight * advantages, advantages)
