r"""GRPO with one group for all agents: what Dr. MAS is an answer to (arXiv 2602.08847).

Formula: A_i^g = (R_i^g - m) / (s + 1e-6), as in `dr_mas`, with m and s the mean and the sample
standard deviation over the turns of *all* agents in the group.

Comparison group: every turn of every trained agent in the episodes of one task from one reset seed.

Degenerate case: one trained agent is `dr_mas`. So is, up to a factor, a reward of the team where
all agents take the same number of turns. With rewards of their own agents become rivals: what is
paid to another agent raises the common mean, so it counts against one's own action.

Deviations from the paper:

1. Its global baseline is a mean over trajectories (Eq. 2) and that of Dr. MAS one over turns
   (Eq. 5), which changes two things at once. Here both weigh turns, and the two algorithms differ
   only in whose returns share a mean.
2. Those of `dr_mas`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainers.algorithms.dr_mas import DrMAS
from trainers.algorithms.relations import Kind, Relation


class GRPOGlobal(DrMAS):
    """One mean and deviation for the returns of all agents; see the module's docstring."""

    name = "grpo_global"
    declares = (
        Relation(kind=Kind.ALIAS, of="dr_mas", when="one trained agent"),
        Relation(
            kind=Kind.ALIAS,
            of="dr_mas, times a factor that depends on the number of agents and turns",
            when="credit='team' and every agent takes the same number of turns in every episode",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="dr_mas",
            when="agents that are paid differently",
            named="bias: a common mean makes agents rivals; what pays another agent counts against "
            "one's own action",
        ),
    )

    def pools(self, agents: Sequence[str]) -> Sequence[int]:
        """All agents share one."""
        return [0] * len(agents)
