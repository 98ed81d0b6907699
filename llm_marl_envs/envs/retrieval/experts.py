"""Scripted experts: one searches for two houses, one finds their keepers, one reads the names out.

Nothing that is passed on says which of two houses the question names first. The order does: the
first house first (`forward`), or last (`backward`), in sub-questions as in numbers of documents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.retrieval.bounds import GENERATOR, REWRITER, SELECTOR
from llm_marl_envs.envs.retrieval.dealing import searches_in
from llm_marl_envs.envs.retrieval.world_tasks import case_of, of_world, world_of
from llm_marl_envs.envs.retrieval.worlds import Case, World

FORWARD, BACKWARD, DIRECT = "forward", "backward", "direct"
ORDERS = (FORWARD, BACKWARD)
NUMBERED = re.compile(r"([0-9]+)\. (.*)")
REPORTED = re.compile(r"(\w+): (\w+) keeps (\w+)\.")
PORTRAYED = re.compile(r"(\w+) of (\w+): (.*)\.")
Shown = tuple[tuple[int, str], ...]
"""Documents with their numbers, 0 where they have none."""
Portrait = tuple[int, str, str, str]
"""Number, person, house, and what is known of the person."""


class PipelineExperts(ListeningExperts):
    """The experts of `retrieve_pipeline-v0`.

    Args:
        divided: whether each seat alone knows a part of what is asked.
    """

    def __init__(self, divided: bool) -> None:
        self.fixed = ORDERS if divided else (DIRECT,)

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """Sub-questions, numbers, or an answer, as the seat's part of the task and the texts ask.

        Raises:
            ValueError: no such convention.
        """
        if convention not in self.fixed:
            raise ValueError(f"convention {convention!r}: expected one of {self.fixed}")
        meant = self._meant(task, agent, _shown(messages))[convention]
        if agent == REWRITER:
            return "\n".join(f"Search: {words}" for words in meant)
        listed = ", ".join(map(str, meant))
        if agent == SELECTOR:
            return f"Documents: {listed or 'none'}"
        return f"Answer: {listed or 'unknown'}"

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order of a rewriter's sub-questions; None for others, see `followed`."""
        return self.followed(task, agent, searches_in(action), ()) if agent == REWRITER else None

    def followed(
        self, task: Task, agent: str, said: Sequence[Any], messages: Sequence[Message]
    ) -> str | None:
        """The convention by which an expert that was shown `messages` would mean the same.

        None for none, and where every convention means it.

        Args:
            task: that is played.
            agent: whose text it is.
            said: sub-questions, numbers of documents or the words of an answer, as the rules read
                them; case is ignored.
            messages: what the seat was shown before.
        """
        plain = [str(thing).lower() for thing in said]
        if not plain:
            return None
        meant = self._meant(task, agent, _shown(messages))
        same = [name for name, things in meant.items() if [str(t).lower() for t in things] == plain]
        return same[0] if len(same) == 1 else None

    def _meant(self, task: Task, agent: str, shown: Shown) -> dict[str, list[Any]]:
        """Convention -> sub-questions, numbers of documents, or names."""
        if not of_world(task):
            return {name: _of_row(task, agent, shown) for name in self.fixed}
        world, case = world_of(task), case_of(task)
        if agent == SELECTOR:
            return keepers_documents(world, case, self.fixed, shown)
        if agent == REWRITER:
            things = [world.houses[place] for place in case.meant]
        else:
            names = names_shown(world, case, shown)
            houses = [world.houses[place] for place in case.meant]
            direct = self.fixed == (DIRECT,)
            things = [names[h] for h in houses if h in names] if direct else [*names.values()]
        return {name: _ordered(things, name) for name in self.fixed}


def keepers_documents(
    world: World, case: Case, conventions: Sequence[str], shown: Shown
) -> dict[str, list[int]]:
    """Convention -> numbers of the keepers' documents, in the order in which houses were brought.

    The convention says which of two houses is the one that the question names first.
    """
    reports, people = _known(shown)
    places: dict[tuple[str | None, str], int] = {(who, house): n for n, who, house, _ in people}
    brought = [*dict.fromkeys(house for house, _ in reports)][:2]
    chosen = {}
    for name in conventions:
        houses = [world.houses[place] for place in case.meant] if name == DIRECT else brought
        sources = _ordered([world.sources[place] for place in case.current], name)
        pairs = zip(houses, sources, strict=False)
        numbers = [places.get((reports.get((house, s)), house)) for house, s in pairs]
        chosen[name] = [number for number in numbers if number is not None]
    return chosen


def names_shown(world: World, case: Case, shown: Shown) -> dict[str, str]:
    """House -> what is asked of the first person of it whose document is shown."""
    relation = re.compile(rf"\b{world.relations[case.relation]} (\w+)")
    names = {}
    for _, _, house, text in _known(shown)[1]:
        if name := relation.search(text):
            names.setdefault(house, name[1])
    return names


def _ordered(things: list[Any], convention: str) -> list[Any]:
    return things[::-1] if convention == BACKWARD else things


def _shown(messages: Sequence[Message]) -> Shown:
    """The documents that a seat was shown last."""
    return _listed(messages[-1].content) if len(messages) > 1 else ()


@lru_cache(maxsize=1024)  # who reads which order a text follows reads what experts have read
def _listed(text: str) -> Shown:
    lines = text.split("\n")
    numbered = [(int(n[1]), n[2]) for line in lines if (n := NUMBERED.fullmatch(line))]
    quoted = [(0, line[len(QUOTE) :]) for line in lines if line.startswith(QUOTE)]
    return tuple(numbered or quoted)


@lru_cache(maxsize=1024)
def _known(shown: Shown) -> tuple[dict[tuple[str, str], str], list[Portrait]]:
    """What documents say: (house, source) -> keeper, and who is portrayed."""
    reports: dict[tuple[str, str], str] = {}
    people: list[Portrait] = []
    for number, text in shown:
        if report := REPORTED.fullmatch(text):
            reports[report[3], report[1]] = report[2]
        elif portrait := PORTRAYED.fullmatch(text):
            people.append((number, portrait[1], portrait[2], portrait[3]))
    return reports, people


def _of_row(task: Task, agent: str, shown: Shown) -> list[Any]:
    """The question; the documents with the answer in them, else the first; the answer."""
    if agent == REWRITER:
        return [task.data["question"]]
    if agent == GENERATOR:
        return [task.data["answer"]]
    answer = task.data["answer"].lower()
    numbers = [number for number, text in shown if answer in text.lower()]
    return numbers[:2] or [number for number, _ in shown[:1]]
