r"""Difference rewards: what the team loses where a message is blank (Wolpert and Tumer, 2001).

Formula: G episodes are played. For each message a of a trained agent in them the episode is played
again from there with an empty message in its place, later messages sampled anew.
A = R(a) - R(blank), R being the return from that message on; the loss is -A * sum of log pi_i over
the tokens of a.

Comparison group: none; each message has a baseline of its own.

Weight: 1 for every message of the planned episodes, 0 for what branches say.

Cost: G (1 + M) episodes for each task, where M is the number of messages of trained agents in an
episode; a branch costs what comes after the blank.

Where agents act at the same time, the partners' messages of that step are held as recorded.

What it is: same expected gradient as `magrpo` (what is subtracted does not depend on the message),
other variance; another rollout. It pays where others' parts of the return are the same with the
message and without it. Where a blank ruins all, it is a return without a baseline.

Degenerate case: a blank that earns the same gives advantage 0. An agent that never earns anything
by what it says learns nothing.

Deviations from the source:

1. The source subtracts what the team would earn without the agent's action all in all; here later
   messages, the agent's own too, answer the blank one and are sampled anew, so the difference holds
   their noise.
2. Where the branch failed, the advantage is 0, counted in `algorithm/alone`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llm_marl_envs.core.records import Branch, EpisodeGroup
from trainers.algorithms.base import AdvantageInputs, Algorithm, Budget, Form
from trainers.algorithms.c3 import after_messages, at_each_message, judged
from trainers.algorithms.relations import Kind, Relation


class Difference(Algorithm):
    """A message against none; see the module's docstring."""

    name = "difference"
    branching = True
    declares = (
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="any number of turns, agents in turn or at the same time",
        ),
        Relation(
            kind=Kind.SCHEDULE,
            of="magrpo",
            when="always",
            named="every message played again as an empty one",
        ),
    )

    def branches(self, group: EpisodeGroup, agents: Sequence[str]) -> list[Branch]:
        """Each message of the planned episodes blanked."""
        return at_each_message(group, agents, instead="")

    def budget(self, form: Form) -> Budget:
        """G episodes, and one more for each of their messages."""
        return Budget(
            episodes=form.size * (1 + form.turns * len(form.agents)),
            actions=form.size * (form.seats * form.turns + after_messages(form)),
            trajectories=form.size,
        )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; 0 in branches."""
        advantages, self.counters = judged(inputs, lambda returns: [returns[0] - returns[1], 0.0])
        return advantages

    def weights(self, inputs: AdvantageInputs) -> np.ndarray:
        """1 for what was said in a planned episode."""
        return np.ones(inputs.alive.shape) * inputs.planned
