"""Which interface a recorded text follows, and what two seats' texts are worth together."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.pretrained.sets import ENV, HELPER, MAIN, SEATS, TaskSet
from llm_marl_envs import make

Place = tuple[str, int]
"""A task's id and the sample's number."""


@dataclass(frozen=True)
class Seat:
    """What a seat wrote for a set of tasks.

    Attributes:
        agent: the seat.
        texts: place -> text.
        follows: place -> the interface that the text follows, None where it follows none.
    """

    agent: str
    texts: Mapping[Place, str]
    follows: Mapping[Place, str | None]

    def among(self, tasks: Container[str]) -> Seat:
        """The same for some of the tasks."""
        texts = {place: text for place, text in self.texts.items() if place[0] in tasks}
        return Seat(self.agent, texts, {place: self.follows[place] for place in texts})


class Judge:
    """Reads interfaces and runs tests for one set of tasks; the same texts are run once."""

    def __init__(self, task_set: TaskSet) -> None:
        self.tasks = {task.id: task for task in task_set.tasks()}
        self._env = make(ENV, split=task_set.split)
        self.experts = self._env.experts()
        self._solved: dict[tuple[str, str, str], bool] = {}

    def seats(self, texts: Iterable[Mapping[str, Any]]) -> dict[str, Seat]:
        """Agent -> what it wrote for these tasks, of what `read_texts` read."""
        found: dict[str, dict[Place, str]] = {agent: {} for agent in SEATS}
        for one in texts:
            if one["task"] in self.tasks:
                found[one["agent"]][one["task"], one["sample"]] = one["text"]
        return {agent: self._seat(agent, of) for agent, of in found.items()}

    def _seat(self, agent: str, texts: Mapping[Place, str]) -> Seat:
        follows = {
            place: self.experts.read(self.tasks[place[0]], agent, text)
            for place, text in texts.items()
        }
        return Seat(agent, texts, follows)

    def success(self, helper: Seat, main: Seat) -> float:
        """The share of places whose tests pass."""
        solved = [
            self.solves(place[0], {HELPER: text, MAIN: main.texts[place]})
            for place, text in helper.texts.items()
        ]
        return sum(solved) / len(solved)

    def competence(self, seat: Seat) -> float:
        """The same beside a scripted partner of the interface that the text follows."""
        partner = MAIN if seat.agent == HELPER else HELPER
        solved = []
        for place, text in seat.texts.items():
            followed, task = seat.follows[place], self.tasks[place[0]]
            right = followed in self.experts.conventions(task) and self.solves(
                task.id, {seat.agent: text, partner: self.experts.first(task, partner, followed)}
            )
            solved.append(right)
        return sum(solved) / len(solved)

    def solves(self, task: str, texts: Mapping[str, str]) -> bool:
        """Whether the tests of a task pass."""
        key = task, texts[HELPER], texts[MAIN]
        if key not in self._solved:
            self._env.reset(options={"task": self.tasks[task]})
            infos = self._env.step(dict(texts))[-1]
            self._solved[key] = bool(infos[MAIN]["success"])
        return self._solved[key]


def agreement(helper: Seat, main: Seat) -> float:
    """The share of places in which both texts follow the same interface."""
    same = [one is not None and one == main.follows[place] for place, one in helper.follows.items()]
    return sum(same) / len(same)


def agreement_of_readable(helper: Seat, main: Seat) -> float:
    """The same among places where both texts follow some interface; 0 where there is none."""
    pairs = [(one, main.follows[place]) for place, one in helper.follows.items()]
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    return sum(one == other for one, other in both) / max(1, len(both))
