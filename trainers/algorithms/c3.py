r"""C3: alternatives of one message at one recorded history (EIT-EAST-Lab/C3), and its extension.

Formula: G episodes are played. At each message a_1 of a trained agent in them, J - 1 alternatives
a_2 ... a_J are sampled at the same recorded history, and each episode goes on from there with later
messages sampled anew. Q_j is the return from that message on. A_j = Q_j - mean of Q over the
*other* alternatives; the loss is -A_j * sum of log pi_i over the tokens of a_j, for all J.

Comparison group: the J versions of one message. All of them answer the same history.

Weight: 1 / J each, so that every message of a planned episode weighs 1. What is said after an
alternative has no siblings and weighs 0.

Cost: G (1 + (J - 1) M) episodes for each task, where M is the number of messages of trained agents
in an episode; a branch costs what comes after it.

`c3` is for agents that act in turn. `c3_sim` is our extension to agents that act at the same time:
the partners' messages of that step are held as recorded.

What it is: same expected gradient as `magrpo`, other variance; another rollout. Where the message
is the last one, its advantages are those of `magrpo_tree` at that node: the paper's mean times
J / (J - 1).

Degenerate case: all Q of a message equal give advantage 0. With one agent and one turn, the G
recorded messages are not compared with each other, only with their own alternatives.

Deviations from the paper's code:

1. Alternatives open no further alternatives below them (there: a nested tree over two agents). The
   whole tree is `magrpo_tree`. So the mean over a subtree is of one continuation.
2. No critic: its default adds one (`value_assisted`).
3. Every message of a trained agent is branched, not those of a first agent alone.
4. Where failures leave fewer than two versions of a message, its advantage is 0, counted in
   `algorithm/alone`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Options
from llm_marl_envs.core.records import Branch, EpisodeGroup
from trainers.algorithms.base import AdvantageInputs, Algorithm, Budget, Form
from trainers.algorithms.relations import Kind, Relation

Versions = tuple[int, int, list[int]]
"""Place of an agent, its turn, and the places of the episodes that hold a version of it."""


class C3Settings(Options):
    """Settings of `c3` and `c3_sim`."""

    within = "c3"
    alternatives: int = Field(
        default=4, ge=2, description="J, versions of one message, the recorded one included"
    )


class C3(Algorithm):
    """Alternatives of one message, for agents that act in turn; see the module's docstring."""

    name = "c3"
    Settings = C3Settings
    settings: C3Settings
    branching = True
    declares = (
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="agents in turn, any number of turns",
        ),
        Relation(
            kind=Kind.ALIAS,
            of="magrpo_tree with baseline='mean', times J / (J - 1)",
            when="the last message of an episode",
        ),
        Relation(
            kind=Kind.SCHEDULE,
            of="magrpo",
            when="always",
            named="alternatives of every message, which are sampled beside the episodes",
        ),
    )

    def branches(self, group: EpisodeGroup, agents: Sequence[str]) -> list[Branch]:
        """J - 1 alternatives of each message of the planned episodes."""
        more = range(self.settings.alternatives - 1)
        return [branch for branch in at_each_message(group, agents) for _ in more]

    def budget(self, form: Form) -> Budget:
        """G episodes and their branches; errors as `Algorithm.budget`."""
        if not form.in_turn and form.seats > 1 and type(self).name == C3.name:
            raise ValueError(
                "algorithm='c3': agents act at the same time here, and what an alternative is "
                "worth depends on what partners say beside it; use 'c3_sim', which holds their "
                "messages"
            )
        more, messages = self.settings.alternatives - 1, form.turns * len(form.agents)
        later = messages + after_messages(form)
        return Budget(
            episodes=form.size * (1 + more * messages),
            actions=form.size * (form.seats * form.turns + more * later),
            trajectories=form.size * (1 + more * form.turns),
        )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; 0 for what has no versions."""
        advantages, self.counters = judged(
            inputs, lambda returns: returns - (returns.sum() - returns) / (len(returns) - 1)
        )
        return advantages

    def weights(self, inputs: AdvantageInputs) -> np.ndarray:
        """1 over the versions of a message, 0 for all else."""
        weights = np.zeros(inputs.alive.shape)
        for p, group in enumerate(inputs.groups):
            for agent, turn, places in versions(group, inputs.agents):
                weights[p, places, agent, turn] = 1 / len(places)
        return weights


def at_each_message(
    group: EpisodeGroup, agents: Sequence[str], instead: str | None = None
) -> list[Branch]:
    """A branch at each message of the planned episodes, partners held; none in a second round."""
    if any(e.branch for e in group.episodes):
        return []
    return [
        Branch(parent=place, agent=turn.agent, turn=turn.index, held=True, instead=instead)
        for place, episode in group.living
        for turn in episode.turns
        if turn.agent in agents
    ]


def after_messages(form: Form) -> int:
    """The most actions that follow each message of the trained agents, summed over these."""
    own = form.seats - 1 if form.in_turn else 0  # of the same round; whoever acts first has most
    rounds = range(form.turns)
    return len(form.agents) * sum(own + form.seats * left for left in rounds)


class C3Sim(C3):
    """C3 for agents that act at the same time, their partners held."""

    name = "c3_sim"
    declares = (
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="agents at the same time, any number of turns",
        ),
        Relation(
            kind=Kind.SCHEDULE,
            of="magrpo",
            when="always",
            named="alternatives of every message beside the same messages of the partners",
        ),
    )


def versions(group: EpisodeGroup, agents: Sequence[str]) -> Iterator[Versions]:
    """Every message of the planned episodes that did not fail, and where its versions are."""
    branches: dict[tuple[int, str, int], list[int]] = {}
    for place, episode in group.living:
        if episode.branch is not None:
            left = episode.branch
            branches.setdefault((left.parent, left.agent, left.turn), []).append(place)
    for place, episode in group.living:
        for turn in episode.turns if episode.branch is None else ():
            if turn.agent in agents:
                others = branches.get((place, turn.agent, turn.index), [])
                yield agents.index(turn.agent), turn.index, [place, *others]


def judged(
    inputs: AdvantageInputs, judge: Callable[[np.ndarray], Any]
) -> tuple[np.ndarray, dict[str, float]]:
    """Advantages (P, G, A, K), 0 for what has no versions, and how many messages are "alone".

    `judge` makes advantages of the returns of a message's versions, the planned episode's first.
    """
    advantages, alone, rounding = np.zeros(inputs.alive.shape), 0, inputs.rounding
    for p, group in enumerate(inputs.groups):
        for agent, turn, places in versions(group, inputs.agents):
            returns = inputs.returns[p, places, agent, turn]
            alone += len(places) < 2
            if len(places) > 1 and np.ptp(returns) > rounding[p, 0, 0, 0]:
                advantages[p, places, agent, turn] = judge(returns)
    return advantages, {"alone": float(alone)}
