r"""Hysteretic learning: bad news weighs less (Matignon, Laurent and Le Fort-Piat, IROS 2007).

Formula: B_k^g = A_k^g where A_k^g is positive, else w * A_k^g, with 0 <= w <= 1 and the advantage
A_k^g of `magrpo`. A partner that still explores makes a good joint action look bad at times; an
agent that forgives most of that does not give it up. w is fixed. Leniency (Panait et al. 2006) is
another thing: its forgiveness decays.

Comparison group: as in `magrpo`.

Degenerate case: w = 1 is `magrpo`. w = 0 learns from what went better than the others alone.

What it follows instead of the expected return: with one turn and G = 2 exactly

    (1 + w) / 2 * E[R] + (1 - w) / 4 * E|R - R'|,

with R' the return of an independent episode. Spread is paid for: of two choices with the same mean
the one with more luck in it is learned, whoever caused the luck, the partner or a coin.

Deviations from the paper:

1. It has two learning rates for the positive and negative errors of Q-learning; here their ratio
   is a weight of advantages. The learning rate itself is the optimiser's.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Options, Share
from trainers.algorithms.base import AdvantageInputs
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.relations import Kind, Relation


class HystereticSettings(Options):
    """Settings of `hysteretic`."""

    within = "hysteretic"
    weight: Share = Field(default=0.2, description="of negative advantages")


class Hysteretic(MAGRPO):
    """MAGRPO whose negative advantages weigh less; see the module's docstring."""

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
    )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        advantages = super().advantages(inputs)
        return np.where(advantages < 0, self.settings.weight * advantages, advantages)
