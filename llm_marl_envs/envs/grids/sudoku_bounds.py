"""What the better seat of a divided sudoku can score alone: counted over the tasks of a split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.alone import expected_alone
from llm_marl_envs.envs.grids.sudoku_rules import Grid
from llm_marl_envs.envs.grids.sudoku_tasks import SEATS, blank_cells, procedural, seen_by

View = tuple[Grid, Grid]
"""What a seat reads: whose each cell is, and its own digits."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The better seat of a split.

    Attributes:
        seat: 0, the tool, or 1, the planner: whose mean over the split's tasks is larger.
        mean: that mean.
        values: what it can expect, by what it reads.
    """

    seat: int
    mean: float
    values: Mapping[View, float]


def view_of(task: Task, seat: int) -> View:
    """What a seat reads of a task."""
    return task.data["owners"], seen_by(task, seat)


@lru_cache(maxsize=16)
def better_alone(split: str, blanks: int, turns: int) -> Alone:
    """The seat that can do more alone in grids of size 4, and what it can expect.

    A seat that knows the split holds all its tasks with the same view for equally likely.

    Raises:
        ValueError: more turns than are known.
    """
    return max((_seat_alone(split, blanks, turns, seat) for seat in SEATS), key=lambda a: a.mean)


def _seat_alone(split: str, blanks: int, turns: int, seat: int) -> Alone:
    candidates: dict[View, list[Grid]] = defaultdict(list)
    for task in procedural("4x4", split, blanks):
        digits = tuple(task.data["solution"][at] for at in blank_cells(task))
        candidates[view_of(task, seat)].append(digits)
    values = {view: expected_alone(found, turns) for view, found in candidates.items()}
    total = sum(len(found) for found in candidates.values())
    mean = sum(values[view] * len(found) for view, found in candidates.items()) / total
    return Alone(seat, mean, values)
