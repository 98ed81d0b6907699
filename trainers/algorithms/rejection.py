r"""Rejection sampling: imitate the team's best episodes (RAFT, arXiv 2304.06767).

Formula: A^g = 1 for the episodes with the highest return of their comparison group, else 0, at
every turn of every agent. The loss of agent i is then -sum of log pi_i over the tokens that it said
in the best episodes: supervised learning on what the team itself did when it did best.

Comparison group: the episodes of one task from one reset seed, per agent; whole episodes are
compared, by their return from the agent's first turn on.

Degenerate case: all G returns equal give 0 (deviation 1). With rewards 0 and 1 it keeps the solved
episodes of tasks that are neither always nor never solved: MAGRPO without what MAGRPO learns from
failures, and with the same weight whether success is rare or common.

Deviations from the paper:

1. Where all episodes of a group earned the same, none is imitated: nothing was rejected. Imitating
   one's own unfiltered samples has expected gradient 0 and costs variance.
2. All episodes that share the highest return are kept, where the paper keeps one.
3. New episodes are sampled for every update, where the paper fits several on each batch of samples;
   `num_iterations` does that, with the ratio and clipping of GRPO.
"""

from __future__ import annotations

import numpy as np

from trainers.algorithms.base import AdvantageInputs, Algorithm
from trainers.algorithms.relations import Kind, Relation


class Rejection(Algorithm):
    """Imitation of the best episodes of each group; see the module's docstring."""

    name = "rejection"
    declares = (
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="always",
            named="bias: imitates the luckiest of G episodes; what pays most at times beats what "
            "pays most on average",
        ),
    )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K): 1 at the turns of the best episodes."""
        present = inputs.alive.any(axis=-1)  # (P, G, A)
        earned = inputs.episode_returns
        high = np.where(present, earned, -np.inf).max(axis=1, keepdims=True)  # (P, 1, A)
        low = np.where(present, earned, np.inf).min(axis=1, keepdims=True)
        rounding = inputs.rounding[..., 0]
        best = present & (high - earned <= rounding) & (high - low > rounding)
        kept = best.any(axis=-1).sum()
        self.counters = {"imitated": float(kept)}
        return (best[..., None] & inputs.alive).astype(float)
