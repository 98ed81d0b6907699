"""Scripted experts who find a way: the tool reads out the map, the planner searches it.

A map can be read out by rows or by columns. Nothing in it says which, so a planner that reads it
the other way walks on a map that is transposed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from llm_marl_envs.experts.protocol import ListeningExperts
from llm_marl_envs.grids.base import TOOL
from llm_marl_envs.grids.maps import FREE, shortest_way, size_of
from llm_marl_envs.parsing import QUOTE
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import Task

ORDERS = ("rows", "columns")
MAP = "The map: "
PRINT = "```python\nprint({text!r})\n```"
STANDING = re.compile(r"^You are at row ([0-9]+), column ([0-9]+)", re.MULTILINE)


class MapExperts(ListeningExperts):
    """A tool that reads out the map and a planner that puts it together as its convention says.

    Args:
        divided: whether the tool sees the map alone, and the planner start and goal.
        program: whether the tool writes a program.
    """

    def __init__(self, divided: bool, program: bool) -> None:
        self.divided, self.program = divided, program

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Rows and columns; one where both see everything."""
        return ORDERS if self.divided else ORDERS[:1]

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The tool's map; the planner's shortest way on the map that it understood."""
        if convention not in self.conventions(task):
            raise ValueError(f"convention {convention!r}: expected one of {ORDERS}")
        if agent == TOOL:
            return self._told(task, convention)
        cells = self.shown(task)
        if self.divided:
            cells = self._understood(task, convention, messages)
        return f"Answer: {' '.join(self.found(task, cells, messages))}"

    def shown(self, task: Task) -> str:
        """The map as the tool of a divided task sees it."""
        return task.data["map"]

    def found(self, task: Task, cells: str, messages: Sequence[Message]) -> str:
        """The moves from where the planner stands, on the map as it understood it."""
        place, goal = standing(task, messages), task.data["goal"]
        free = FREE * len(cells)
        return shortest_way(cells, place, goal) or shortest_way(free, place, goal) or ""

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order in which the tool read out the map; of the planner nothing is known."""
        known = self.conventions(task) if agent == TOOL else ()
        found = [order for order in known if self._told(task, order) == action]
        return found[0] if len(found) == 1 else None

    def _told(self, task: Task, convention: str) -> str:
        cells = self.shown(task)
        cells = cells if convention == "rows" else transposed(cells)
        size = size_of(cells)
        text = MAP + " ".join(cells[at : at + size] for at in range(0, len(cells), size))
        return PRINT.format(text=text) if self.program else text

    def _understood(self, task: Task, convention: str, messages: Sequence[Message]) -> str:
        lines = [line for message in messages for line in message.content.split("\n")]
        told = [line for line in lines if line.startswith(QUOTE + MAP)]
        cells = told[-1].removeprefix(QUOTE + MAP).replace(" ", "") if told else ""
        if len(cells) != len(task.data["map"]):
            return FREE * len(task.data["map"])
        return cells if convention == "rows" else transposed(cells)


def transposed(cells: str) -> str:
    """A map with rows for columns."""
    size = size_of(cells)
    return "".join(cells[at % size * size + at // size] for at in range(len(cells)))


def standing(task: Task, messages: Sequence[Message]) -> int:
    """Where the planner stands, as it was told last; the start where it was told nothing."""
    told = [found for message in messages for found in STANDING.findall(message.content)]
    if not told:
        return task.data["start"]
    row, column = map(int, told[-1])
    return (row - 1) * size_of(task.data["map"]) + column - 1
