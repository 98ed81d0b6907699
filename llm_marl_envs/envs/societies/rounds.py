"""Rounds of a society: turns of talk, then those in which seats do something.

Owns which turn is what, and how talk reaches all others. What is done in the other turns is the
environment's own. Turns and rounds are counted from 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.society import society_of
from llm_marl_envs.core.society_drawing import society_svg
from llm_marl_envs.core.texts import quoted

TALK = "talk"
"""The phase in which anything may be said; it comes first in a round, perhaps several times."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which turn is what. The last turn is the end of a round; the first round may be shorter.

    Attributes:
        turns: of the longest episode.
        phases: of a round, in order, one turn each.
    """

    turns: int
    phases: tuple[str, ...]

    @property
    def rounds(self) -> int:
        """Of the longest episode."""
        return -(-self.turns // len(self.phases))

    @property
    def missing(self) -> int:
        """Phases that the first round lacks, from its beginning."""
        return -self.turns % len(self.phases)

    def round(self, turn: int) -> int:
        """The round of a turn."""
        return 1 + (turn - 1 + self.missing) // len(self.phases)

    def phase(self, turn: int) -> str:
        """The phase of a turn."""
        return self.phases[(turn - 1 + self.missing) % len(self.phases)]

    def talk(self, turn: int) -> tuple[int, int]:
        """Which turn of its round's talk a turn is, and of how many."""
        lacks = self.missing if self.round(turn) == 1 else 0
        at = (turn - 1 + self.missing) % len(self.phases)
        return 1 + at - lacks, self.phases.count(TALK) - lacks

    def turns_of(self, phase: str) -> int:
        """How many turns are of a phase."""
        return sum(self.phase(turn) == phase for turn in range(1, self.turns + 1))


class SocietyEnv(TextParallelEnv):
    """Seats that talk, all to all, and then do something at once, over many rounds.

    A subclass implements `brief`, `asks` and `act` instead of `play`; its `begin_episode` calls
    this one's.

    Args:
        phases: of a round; see `Schedule`.
        max_turns: of the longest episode.
        arguments: those of `TextParallelEnv`.
    """

    def __init__(self, *, phases: Sequence[str], max_turns: int, **arguments: Any) -> None:
        super().__init__(max_turns=max_turns, **arguments)
        self.schedule = Schedule(max_turns, tuple(phases))

    def begin_episode(self) -> None:
        """Nothing was done yet."""
        self._deeds: list[Mapping[str, Mapping[str, Any]]] = []

    @abstractmethod
    def asks(self, turn: int, agent: str) -> str:
        """What a seat is asked for in a turn."""

    @abstractmethod
    def act(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """What a joint action leads to in a turn that is not of talk."""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pass on what was said, or do what is done."""
        turn = self._taken[self.agents[0]]
        if self.schedule.phase(turn) != TALK:
            outcome = self.act(turn, joint_action)
            self._deeds.append(outcome.facts)
            return outcome
        heard = {
            agent: self.pass_on(agent, text, self.others(agent))
            for agent, text in joint_action.items()
        }
        news = {
            agent: "\n".join(
                [
                    *(quoted(other, heard[other][agent]) for other in self.others(agent)),
                    self.asks(turn + 1, agent),
                ]
            )
            for agent in self.agents
        }
        return Outcome(reward_terms={}, feedback=news)

    def picture(self) -> str:
        """The rounds so far: what there was, what each seat took or gave, and what is marked."""
        society = society_of({a: [deed[a] for deed in self._deeds] for a in self.possible_agents})
        return "" if society is None else society_svg(society)

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """In turns of talk all hear all."""
        turns = self.schedule.turns_of(TALK)
        if not turns:
            return {}
        return {seat: dict.fromkeys(self.others(seat), turns) for seat in self.possible_agents}
