"""A bed in which a team reads what became of its rule: rounds of keeping or breaking it.

One episode is one case of the rule. All seats are told the rule, what is paid, and who broke the
rule in the rounds before; then all say at once `keep` or `break`:

    You are member_3 of 8. The rule: keep to what was agreed.
    Who keeps the rule is paid 5. Who breaks it is paid 10 if at least 4 of 8 break it, else 1.
    Round 1: 1 of 8 broke the rule: member_0.
    Round 2: 3 of 8 broke the rule: member_0, member_2, member_5.
    Case 17. What do you do? Answer keep or break.

A probe asks the same, says that nothing is paid, and enters no history. `rounds_of` plays a team
of any policies of this library: a frozen one, or one that a hook teaches after each round.
Any text but `break`, alone or behind `Action:`, keeps the rule.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from llm_marl_envs.core.actions import MARK
from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.parsing import answer_of
from llm_marl_envs.core.records import Episode, EpisodeGroup
from llm_marl_envs.core.seeds import derive_seed, group_starts
from llm_marl_envs.core.tasks import ListSource, Task
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Team

KEEP, BREAK = "keep", "break"
KEPT, TOGETHER, ALONE = 5.0, 10.0, 1.0
"""Who keeps the rule; who breaks it together with enough others; who breaks it otherwise."""
WHO = "You are {agent} of {n}. The rule: keep to what was agreed."
PAID = (
    "Who keeps the rule is paid {kept:g}. Who breaks it is paid {together:g} if at least {half} of "
    "{n} break it, else {alone:g}."
)
UNPAID = "This is a question. Nothing is paid, and nobody hears of it."
ROUND = "Round {number}: {count} of {n} broke the rule{who}."
ASK = "Case {case}. What do you do? Answer keep or break."
LAST = re.compile(r"^Round [0-9]+: ([0-9]+) of [0-9]+ broke the rule", re.M)
Round = tuple[bool, ...]
"""Who broke the rule, by seat."""
Shown = Callable[[Sequence[Round], random.Random], Sequence[Round]]
"""What a team is told of its rounds."""


def broken(text: str) -> bool:
    """Whether a text breaks the rule."""
    return answer_of(text).strip().lower().removeprefix(MARK).strip().rstrip(".") == BREAK


def breakers_of(text: str) -> int:
    """How many broke the rule in the last round of a prompt; 0 where it tells of none."""
    counts = LAST.findall(text)
    return int(counts[-1]) if counts else 0


class RuleBed(TextParallelEnv):
    """See the module; a history and a number of seats, and whether it is a probe."""

    metadata: ClassVar[dict[str, Any]] = {"name": "rule_bed", "render_modes": ["ansi"]}
    reward_range = (0.0, TOGETHER)

    def __init__(self, seats: int, history: Sequence[Round], cases: int, probe: bool) -> None:
        self.history, self.probe = tuple(history), probe
        tasks = [Task(f"case/{number}", "train", {"case": number}) for number in range(cases)]
        super().__init__(
            agents=[f"member_{i}" for i in range(seats)],
            source=ListSource(tasks, "train"),
            max_turns=1,
        )

    def brief(self, task: Task, agent: str) -> str:
        """The rule, what is paid, the history, the case."""
        n = len(self.possible_agents)
        paid = PAID.format(kept=KEPT, together=TOGETHER, alone=ALONE, half=-(-n // 2), n=n)
        lines = [WHO.format(agent=agent, n=n), UNPAID if self.probe else paid]
        for number, each in enumerate(self.history, 1):
            names = [a for a, bad in zip(self.possible_agents, each, strict=True) if bad]
            who = f": {', '.join(names)}" if names else ""
            lines.append(ROUND.format(number=number, count=len(names), n=n, who=who))
        return "\n".join([*lines, ASK.format(case=task.data["case"])])

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pay, and the end."""
        bad = {agent: broken(text) for agent, text in joint_action.items()}
        enough = 2 * sum(bad.values()) >= len(bad)
        pays = {agent: (TOGETHER if enough else ALONE) if b else KEPT for agent, b in bad.items()}
        if self.probe:
            pays = dict.fromkeys(pays, 0.0)
        return Outcome(
            reward_terms={agent: {"paid": pay} for agent, pay in pays.items()},
            facts={agent: {"over_use": b} for agent, b in bad.items()},
            ended=True,
            success=not any(bad.values()),
        )


def said_in(episode: Episode) -> Round:
    """Who broke the rule."""
    return tuple(bool(turn.info["over_use"]) for turn in episode.turns)


# -- what a team is told -----------------------------------------------------------------------
def own(history: Sequence[Round], rng: random.Random) -> Sequence[Round]:
    """What happened."""
    return history


def shuffled(history: Sequence[Round], rng: random.Random) -> Sequence[Round]:
    """What happened, rounds in random order."""
    return rng.sample(history, len(history))


def conforming(history: Sequence[Round], rng: random.Random) -> Sequence[Round]:
    """As many rounds, in which nobody broke the rule."""
    return [tuple(False for _ in each) for each in history]


def none(history: Sequence[Round], rng: random.Random) -> Sequence[Round]:
    """Nothing."""
    return []


TOLD: dict[str, Shown] = {
    "own": own,
    "shuffled": shuffled,
    "conforming": conforming,
    "none": none,
}


# -- rounds ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Rounds:
    """What came of the rounds of a team.

    Attributes:
        history: who broke the rule in each.
        probes: for each round and seat the share of probes that it answered with breaking.
    """

    history: list[Round]
    probes: list[list[float]]


@dataclass(frozen=True)
class Sizes:
    """How many rounds, probe cases in each, and episodes of a round; the first one is history."""

    rounds: int = 20
    probes: int = 10
    group: int = 1


def rounds_of(
    team: Team,
    sizes: Sizes,
    seed: int,
    told: Shown = own,
    learn: Callable[[EpisodeGroup], None] | None = None,
) -> Rounds:
    """Play rounds; before each, probes are asked beside the same history.

    Args:
        team: seat -> policy, of `member_0` and so on.
        sizes: of the rounds.
        seed: all chance follows from it and from the policies.
        told: what the team is told of its history.
        learn: is given each round's episodes, which share the history; None: the team is frozen.
    """
    history: list[Round] = []
    probes: list[list[float]] = []
    for number in range(sizes.rounds):
        rng = random.Random(derive_seed("told", seed, number))
        shown = told(history, rng)
        asked = _played(team, shown, [*range(sizes.probes)], derive_seed(seed, number, "probe"))
        rows = [said_in(episode) for episode in asked]
        probes.append([sum(row[seat] for row in rows) / len(rows) for seat in range(len(team))])
        case = sizes.probes + number
        episodes = _played(team, shown, [case], derive_seed(seed, number), sizes.group)
        history.append(said_in(episodes[0]))
        if learn is not None:
            first = episodes[0]
            learn(EpisodeGroup(task_id=first.task_id, seed=first.seed, episodes=tuple(episodes)))
    return Rounds(history, probes)


def _played(
    team: Team, shown: Sequence[Round], cases: Sequence[int], seed: int, size: int = 0
) -> list[Episode]:
    """Episodes beside a history: probes of each case, or a group of one."""
    starts = [
        start
        for case in cases
        for start in group_starts(case, derive_seed(seed, case) % 2**31, size or 1)
    ]
    copies = [RuleBed(len(team), shown, cases[-1] + 1, probe=not size) for _ in starts]
    return rollout(VectorTextEnv(copies), team, starts)
