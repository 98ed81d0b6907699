"""Scripted experts who push boxes: as in `map_experts`, with targets on the map.

A planner that reads the map the other way pushes boxes to places where no target is.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.box_tasks import TARGET, start_of, with_targets
from llm_marl_envs.envs.grids.boxes import MOST_POSITIONS, Position, positions_of, shortest_solution
from llm_marl_envs.envs.grids.experts import last_told
from llm_marl_envs.envs.grids.map_experts import STANDING, MapExperts
from llm_marl_envs.envs.grids.map_tasks import marked, places_in
from llm_marl_envs.envs.grids.maps import FREE, WALL, size_of

LOST = "U"
"""What a planner answers that sees no solution on the map that it understood."""


class BoxExperts(MapExperts):
    """A tool that reads out walls and targets, and a planner that searches for a solution."""

    def shown(self, task: Task) -> str:
        """As `MapExperts.shown`."""
        return with_targets(task.data["map"], task.data["targets"])

    def way(self, task: Task, cells: str, messages: Sequence[Message]) -> str:
        """As `MapExperts.way`; where the player and the boxes are is taken for free."""
        targets = tuple(place for place, cell in enumerate(cells) if cell == TARGET)
        position = standing(task, messages)
        known = "".join(FREE if cell in FREE + TARGET else WALL for cell in cells)
        known = marked(known, dict.fromkeys((position.player, *position.boxes), FREE))
        if len(targets) != len(position.boxes):
            return LOST
        if positions_of(known, len(targets)) > MOST_POSITIONS:  # the tool told of few walls
            return LOST
        return shortest_solution(known, targets, position) or LOST


def standing(task: Task, messages: Sequence[Message]) -> Position:
    """Where the player and the boxes are, as the planner was told last; or at the start."""
    told = places_in(last_told(messages, STANDING), size_of(task.data["map"]))
    return Position(told[0], tuple(told[1:])) if told else start_of(task)
