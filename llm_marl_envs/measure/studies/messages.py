"""Do agents listen? Change what is heard of one agent, leave what it did, and count the loss.

The environment judges what the agent really wrote, but the others are shown what they would have
been shown had it written something else: nothing, what it wrote in another episode, or what a
member of another team wrote (`wrappers/overhear.py`). Owns which texts are heard, and the count.

An agent whose words nobody reads before the end loses nothing here, however much its own action is
worth: that is `contribution.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.core.outcome import BESIDE
from llm_marl_envs.core.records import Episode
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.paired import Schedule, Stage, returns_lost
from llm_marl_envs.play.rollout import Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Team, check_team
from llm_marl_envs.wrappers.overhear import Instead, overhear


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEffect:
    """What the team loses where others hear something else from one agent.

    Attributes:
        speaker: whose messages were changed.
        intervention: "silent", "shuffled" or "other_team".
        lost: actual minus intervened team return.
        heard: share of episodes in which some observation of another agent changed at all. Near 0
            the loss says nothing about listening: there was nothing to hear, or the texts were
            alike.
        parted: share of episodes that could not be changed to the end, because the environment
            would have ended there with the other text; from then on the real texts were heard.
        failed: pairs of episodes in one of which the environment raised; that one earned its floor.
    """

    speaker: str
    intervention: str
    lost: Estimate
    heard: float
    parted: float
    failed: int = 0


def message_effects(
    stage: Stage, team: Team, *, other: Team | None = None, silence: str = ""
) -> list[MessageEffect]:
    """Each agent silent, shuffled across episodes and, with `other`, replaced by its namesake.

    Args:
        stage: the environment and the episodes, of at least 2 tasks (messages are shuffled across
            tasks); its first seed is that of the shuffling, too.
        team: agent -> policy.
        other: a team whose messages, from its own episodes of the same tasks, are heard instead.
        silence: the text of a silent agent.

    Returns:
        For each agent its interventions: "silent", "shuffled" and, with `other`, "other_team".

    Raises:
        ValueError: a team does not fit, or a single task.
        Exception: what the environment raised first, where it raised in all episodes, or in one
            that cannot be counted.
    """
    schedule = stage.schedule
    seats = stage.env.possible_agents
    for members in (team, other):
        if members is not None:
            check_team(members, seats)
    if schedule.n_tasks < 2:
        raise ValueError("messages are shuffled across tasks: expected at least 2 tasks")
    rounds = 1 + (other is not None) + len(seats) * (2 + (other is not None))
    stage.expect(rounds * len(schedule.starts))
    actual = stage.play(team, schedule.starts)
    sources: dict[str, Sequence[Episode] | None] = {
        "silent": None,
        "shuffled": [actual[i] for i in other_tasks(schedule, stage.plan.seeds[0])],
    }
    if other is not None:
        sources["other_team"] = stage.play(other, schedule.starts)
    hearing = _Hearing(stage, team, actual)
    try:
        return [
            hearing.effect(speaker, name, _texts(speaker, source, len(actual), silence))
            for speaker in seats
            for name, source in sources.items()
        ]
    finally:
        hearing.vector.close()


def other_tasks(schedule: Schedule, seed: int) -> list[int]:
    """For each episode another one, of another task and each used once."""
    order = list(range(schedule.n_tasks))
    random.Random(f"shuffled messages/{seed}").shuffle(order)
    follows = dict(zip(order, [*order[1:], order[0]], strict=True))
    return [
        follows[task] * schedule.samples + sample
        for task in range(schedule.n_tasks)
        for sample in range(schedule.samples)
    ]


def _texts(
    speaker: str, source: Sequence[Episode] | None, n_episodes: int, silence: str
) -> list[Instead]:
    """Per episode what is heard turn by turn; after the last text there is silence."""
    utterances = [
        [turn.action for turn in episode.trajectory(speaker) if not turn.info.get(BESIDE)]
        for episode in source or ()
    ] or [[]] * n_episodes

    def reader(texts: list[str]) -> Instead:
        return lambda turn: texts[turn] if turn < len(texts) else silence

    return [reader(texts) for texts in utterances]


class _Hearing:
    """Plays the same episodes again and again with other messages."""

    def __init__(self, stage: Stage, team: Team, actual: Sequence[Episode]) -> None:
        self.team, self.schedule, self.actual = team, stage.schedule, actual
        self.progress = stage.progress
        # Nothing is repeated: a fresh copy does not know what is heard instead.
        self.failures = Failures(lambda: overhear(stage.make_env))
        envs = [overhear(stage.make_env) for _ in range(min(stage.plan.copies, len(actual)))]
        self.vector = VectorTextEnv(envs)

    def effect(self, speaker: str, name: str, texts: Sequence[Instead]) -> MessageEffect:
        """What the team loses where `texts` are heard of `speaker`."""
        again: list[Episode] = []
        twins: list[tuple[bool, bool]] = []  # of each episode: heard, parted
        for first in range(0, len(texts), len(self.vector)):
            wave = texts[first : first + len(self.vector)]
            used = self.vector.envs[: len(wave)]
            for env, instead in zip(used, wave, strict=True):
                env.twin.speaker, env.twin.instead = speaker, instead
            starts = self.schedule.starts[first : first + len(wave)]
            again += rollout(
                self.vector, self.team, starts, progress=self.progress, failures=self.failures
            )
            twins += [(env.twin.heard, env.twin.parted) for env in used]
        self.failures.refuse_if_all(again)
        self.failures.refuse_uncounted(again)
        pairs = zip(self.actual, again, strict=True)
        return MessageEffect(
            speaker=speaker,
            intervention=name,
            lost=self.schedule.estimate(returns_lost(self.actual, again), self.actual, reach=0.0),
            heard=sum(heard for heard, _ in twins) / len(twins),
            parted=sum(parted for _, parted in twins) / len(twins),
            failed=sum(episode.failed or other.failed for episode, other in pairs),
        )
