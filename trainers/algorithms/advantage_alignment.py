r"""Advantage alignment: shape the others' learning in a dilemma (arXiv 2406.14662, 2511.19405).

Formula: with A_i,t the advantage of `magrpo` from agent i's own returns,

    B_i,t = A_i,t + weight * gamma * (sum over k < t of gamma^(t - k) * A_i,k) * sum over j of A_j,t

where j are the other trained agents and gamma is `discount`. Where the past went better than
expected for agent i, what helps the others now is made likelier; where it went worse, less likely:
a reward for kindness that was answered, and the other way round.

Comparison group: as in `magrpo`; the second paper compares the rollouts of one environment seed.

Degenerate case: with one turn (K = 1) or weight=0 it is independent learning, `magrpo` with
credit="own".

What it needs: rewards of their own (credit="own"), two trained agents at least, and turns that all
take at the same time, for turn t of one agent must be turn t of the others.

Deviations from the papers:

1. Any number of agents; the second paper's code has two. With more, the others' advantages are
   added up.
2. The sum over the past is carried from turn to turn. The released code divides by gamma^k, which
   overflows in long episodes and has no value at gamma = 0.
3. Clipping, signs, the division by t, the forced first turn, annealing and branches of alternative
   actions are left out, and so is the buffer of past opponents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper

from trainers.algorithms.base import AdvantageInputs
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.relations import Kind, Relation


@dataclass(frozen=True, slots=True)
class AlignmentSettings:
    """Settings of `advantage_alignment`.

    Attributes:
        weight: of the others' advantages, beta in the papers, at least 0. The second paper has 0.5
            (iterated prisoner's dilemma) and 2.0 (a negotiation).

    Raises:
        ValueError: out of range.
    """

    weight: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError(
                f"advantage_alignment, weight={self.weight!r}: expected a number of at least 0"
            )


class AdvantageAlignment(MAGRPO):
    """Own advantages and, by what was earned before, the others'; see the module's docstring."""

    name = "advantage_alignment"
    reads = ()
    Settings = AlignmentSettings
    settings: AlignmentSettings
    declares = (
        Relation(
            kind=Kind.ALIAS,
            of="magrpo with credit='own' (independent learning)",
            when="one turn (K = 1), or weight=0",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient of each agent's own return",
            when="several turns and weight > 0",
            named="objective: the own return after the others have learned (opponent shaping); "
            "helping others counts by what was earned before",
        ),
    )

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse a run that pays the team, one trained agent, a pool, or agents that act in turn.

        Raises:
            ValueError: says which, and the remedy.
        """
        if self.args.credit != "own":
            raise ValueError(
                f"{self.name} with credit={self.args.credit!r}: all agents would have the same "
                "advantage, and nothing is to be aligned; set credit: own"
            )
        if len(trained) < 2:
            raise ValueError(
                f"{self.name}: the only trained agent is {[*trained]}, and it needs the advantages "
                "of another; train two (no partners, not frozen), or choose algorithm: magrpo"
            )
        if "pool" in (self.args.schedules or {}):
            raise ValueError(
                f"{self.name} with schedules: pool: a past self or an opponent has no advantages "
                "to align with; leave the pool out, or choose algorithm: magrpo"
            )
        if isinstance(env, (AECEnv, turn_based_aec_to_parallel_wrapper)):
            raise ValueError(
                f"{self.name}: the agents of {env} act one after the other, so that the t-th turns "
                "of two are not at the same time; use an environment in which all act at once, or "
                "algorithm: magrpo"
            )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        own = super().advantages(inputs)
        others = own.sum(axis=2, keepdims=True) - own
        gamma, aligned = self.args.discount, own.copy()
        past = np.zeros(own.shape[:3])
        for turn in range(1, own.shape[-1]):
            past = gamma * (past + own[..., turn - 1])
            aligned[..., turn] += self.settings.weight * gamma * past * others[..., turn]
        return aligned
