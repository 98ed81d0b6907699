"""Scripted experts who find a way: the tool reads out the map, the planner searches it.

A planner that reads the map the other way walks on a map that is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.experts import GridExperts, last_told
from llm_marl_envs.envs.grids.map_tasks import places_in
from llm_marl_envs.envs.grids.maps import FREE, shortest_way, size_of

MAP = "The map: "
STANDING = "You are at "


class MapExperts(GridExperts):
    """A tool that reads out the map and a planner that puts it together."""

    def shown(self, task: Task) -> str:
        """The map as the tool of a divided task sees it."""
        return task.data["map"]

    def way(self, task: Task, cells: str, messages: Sequence[Message]) -> str:
        """The moves from where the planner stands, on the map as it understood it."""
        place, goal = standing(task, messages), task.data["goal"]
        free = FREE * len(cells)
        return shortest_way(cells, place, goal) or shortest_way(free, place, goal) or ""

    def told(self, task: Task, convention: str) -> str:
        """As `GridExperts.told`: the map, a word for each line."""
        cells = self.shown(task)
        cells = cells if convention == "rows" else transposed(cells)
        size = size_of(cells)
        return MAP + " ".join(cells[at : at + size] for at in range(0, len(cells), size))

    def found(self, task: Task, convention: str, messages: Sequence[Message]) -> str:
        """As `GridExperts.found`: a shortest way."""
        cells = self.shown(task)
        if self.divided:
            heard = last_told(messages, QUOTE + MAP).replace(" ", "")
            cells = heard if len(heard) == len(cells) else FREE * len(cells)
        if convention == "columns":
            cells = transposed(cells)
        return self.way(task, cells, messages)


def transposed(cells: str) -> str:
    """A map with rows for columns."""
    size = size_of(cells)
    return "".join(cells[at % size * size + at // size] for at in range(len(cells)))


def standing(task: Task, messages: Sequence[Message]) -> int:
    """Where the planner stands, as it was told last; the start where it was told nothing."""
    found = places_in(last_told(messages, STANDING), size_of(task.data["map"]))
    return found[0] if found else task.data["start"]
