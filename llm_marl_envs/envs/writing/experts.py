"""Scripted experts of writing: texts under each plan, a row's own references."""

from __future__ import annotations

import random

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import Demonstration, Experts
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.writing import divisions
from llm_marl_envs.envs.writing.documents import document_of
from llm_marl_envs.envs.writing.source import texts_of

REFERENCE = "reference"
"""The one convention of a row that brings its own texts."""


class WritingExperts(Experts):
    """Write the text of one seat.

    Args:
        seats: the two agents, in the order of the rules.
    """

    def __init__(self, seats: tuple[str, ...]) -> None:
        self.seats = seats

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Plans that the outline allows; `("reference",)` for rows that bring a text of each."""
        document = document_of(task.data)
        if document is not None:
            return divisions.plans(document)
        return (REFERENCE,) if texts_of(task, len(self.seats)) else ()

    def first(self, task: Task, agent: str, convention: str) -> str:
        """A right text under one plan; a row's own reference.

        Raises:
            ValueError: no such agent, or the task does not have that convention.
        """
        seat = self._seat(agent)
        document = document_of(task.data)
        if document is not None:
            return divisions.write(document, seat, convention)
        if convention not in self.conventions(task):
            raise ValueError(
                f"task {task.id!r} has conventions {self.conventions(task)}, not {convention!r}"
            )
        return texts_of(task, len(self.seats))[seat]

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The plan whose sections a text treats; None for rows."""
        seat = self._seat(agent)
        document = document_of(task.data)
        return None if document is None else divisions.read_plan(document, seat, action)

    def demonstrations(self, env: TextEnv, n: int, seed: int) -> list[Demonstration] | None:
        """Of rows, those that bring references; of generated documents in the usual way.

        Raises:
            ValueError: no row brings all texts.
        """
        if document_of(env.source[0].data) is not None:
            return None
        tasks = [task for task in env.source if self.conventions(task)]
        if not tasks:
            raise ValueError("no demonstrations: none of these rows brings texts of all authors")
        rng = random.Random(f"demonstrations/{seed}")
        pairs: list[Demonstration] = []
        for _ in range(n):
            task, agent = rng.choice(tasks), rng.choice(env.possible_agents)
            pairs.append((env.first_words(task)[agent], self.first(task, agent, REFERENCE)))
        return pairs

    def _seat(self, agent: str) -> int:
        if agent not in self.seats:
            raise ValueError(f"agent {agent!r}: expected one of {self.seats}")
        return self.seats.index(agent)
