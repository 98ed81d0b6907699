"""Tasks of finding a way: levels, maps with starts and goals, splits, rows.

Splits are disjoint by map: no map of one is a map of another that was turned or mirrored. A map
comes with many pairs of a start and a goal, so that who sees the map alone does not know the way.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llm_marl_envs.grids.maps import FREE, WALL, canonical, distances, draw_map, size_of
from llm_marl_envs.tasks import IndexedSource, Task, hash_of, split_of_row

MAPS = {"train": 256, "val": 64, "test": 128, "ood": 64}
PAIRS = 32
"""How many maps a split has, and starts with goals for each."""
START, GOAL = "S", "G"
SIZES = range(3, 21)
"""Of the maps in rows."""


@dataclass(frozen=True, slots=True)
class Level:
    """A difficulty.

    Attributes:
        size: rows and columns.
        walls: probability that a cell is a wall.
        least: moves of the shortest way, at least, unless somebody says how many.
        most: what may be asked for at most.
        beyond: the level whose maps are this one's split ood.
    """

    size: int
    walls: float
    least: int
    most: int
    beyond: str


LEVELS = {
    "5x5": Level(5, 0.3, 4, 6, "7x7"),
    "10x10": Level(10, 0.22, 6, 12, "14x14"),
}
BEYOND = {
    **LEVELS,
    "7x7": Level(7, 0.3, 6, 8, ""),
    "14x14": Level(14, 0.22, 10, 14, ""),
}


class MapSource(IndexedSource):
    """The tasks of each map of a split; the maps come one after the other, again and again."""

    def __init__(self, level: str, split: str, least: int) -> None:
        super().__init__(split)
        self.level, self.least, self.name = BEYOND[level], least, level

    def __len__(self) -> int:
        return MAPS[self.split] * PAIRS

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        pair, number = divmod(index, MAPS[self.split])
        cells, pairs = drawn(self.name, self.split, self.least, number)
        start, goal = pairs[pair]
        return Task(task_id, self.split, {"map": cells, "start": start, "goal": goal})


@lru_cache(maxsize=4096)
def drawn(level: str, split: str, least: int, number: int) -> tuple[str, list[tuple[int, int]]]:
    """A map of a split, and its pairs of a start and a goal."""
    known = BEYOND[level]
    rng = random.Random(hash_of(f"map/{level}/{split}/{least}/{number}"))
    while True:
        cells = draw_map(known.size, known.walls, rng)
        if split not in ("ood", split_of(cells)):
            continue
        far = [
            (start, goal)
            for goal in range(len(cells))
            if cells[goal] == FREE
            for start, moves in distances(cells, goal).items()
            if moves >= least
        ]
        if len(far) >= PAIRS:
            return cells, rng.sample(far, PAIRS)


def split_of(cells: str) -> str:
    """The split, ood aside, of a map and of all that are symmetric to it."""
    return split_of_row({}, f"map/{canonical(cells)}")


@lru_cache(maxsize=32)
def procedural(level: str, split: str, least: int) -> MapSource:
    """The tasks of a level; one source per process, which copies of an environment share."""
    if split == "ood":
        beyond = LEVELS[level].beyond
        return MapSource(beyond, split, BEYOND[beyond].least)
    return MapSource(level, split, least)


def task_of_row(row: Mapping[str, Any]) -> Task:
    """The task of a row: `map`, its lines of `.`, `#`, one `S` and one `G`; perhaps `id`, `split`.

    Raises:
        ValueError: no such square map, or no way from S to G.
    """
    given: Any = row.get("map")
    lines = given.split("\n") if isinstance(given, str) else given
    square = isinstance(lines, (list, tuple)) and all(isinstance(one, str) for one in lines)
    text = "".join(lines) if square else ""
    whole = square and len(lines) in SIZES and all(len(one) == len(lines) for one in lines)
    if not whole or set(text) - {FREE, WALL, START, GOAL} or text.count(START) != 1:
        raise ValueError(f"map={given!r:.100}: expected 3 to 20 lines as long of '.', '#', S and G")
    if text.count(GOAL) != 1:
        raise ValueError(f"map={given!r:.100}: expected one G")
    start, goal = text.index(START), text.index(GOAL)
    cells = text.replace(START, FREE).replace(GOAL, FREE)
    if start not in distances(cells, goal):
        raise ValueError(f"map={given!r:.100}: there is no way from S to G")
    name = str(row.get("id") or f"row-{hash_of(text):016x}")
    split = row.get("split") or split_of(cells)
    return Task(
        name,
        split_of_row({"split": split}, text),
        {"map": cells, "start": start, "goal": goal, "whole": True},
    )


def lines_of_map(cells: str) -> list[str]:
    """The rows of a map, cells apart."""
    size = size_of(cells)
    return [" ".join(cells[at : at + size]) for at in range(0, len(cells), size)]


def named(place: int, size: int) -> str:
    """A place in words, counted from 1."""
    return f"row {place // size + 1}, column {place % size + 1}"


def marked(cells: str, marks: Mapping[int, str]) -> str:
    """A map with letters at some places."""
    return "".join(marks.get(at, cell) for at, cell in enumerate(cells))
