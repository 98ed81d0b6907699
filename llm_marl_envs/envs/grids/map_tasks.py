"""Tasks of finding a way: levels, maps with starts and goals, splits, rows.

Splits are disjoint by map: no map of one is a map of another that was turned or mirrored. A map
comes with many pairs of a start and a goal, so that who sees the map alone does not know the way.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from llm_marl_envs.core.tasks import IndexedSource, Task, hash_of, split_of_row
from llm_marl_envs.envs.grids.maps import FREE, WALL, canonical, distances, draw_map, size_of

MAPS = {"train": 256, "val": 64, "test": 128, "ood": 64}
PAIRS = 32
"""How many maps a split has, and starts with goals for each."""
START, GOAL = "S", "G"
SIZES = range(3, 21)
"""Of the maps in rows."""
PLACE = re.compile(r"row ([0-9]+), column ([0-9]+)")


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
    """The tasks of each map of a split; the maps come one after the other, again and again.

    Behind the last task further maps of the split come in the same way.

    Args:
        split: a split of `MAPS`.
        drawn: the data of the `PAIRS` tasks of the map with a number.
    """

    endless = True

    def __init__(self, split: str, drawn: Callable[[int], Sequence[Mapping[str, Any]]]) -> None:
        super().__init__(split)
        self.drawn = drawn

    def __len__(self) -> int:
        return MAPS[self.split] * PAIRS

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        maps = MAPS[self.split]
        block, place = divmod(index, maps * PAIRS)
        pair, number = divmod(place, maps)
        return Task(task_id, self.split, self.drawn(block * maps + number)[pair])


@lru_cache(maxsize=4096)
def drawn(level: str, split: str, least: int, number: int) -> list[dict[str, Any]]:
    """A map of a split with each of its pairs of a start and a goal."""
    settings = BEYOND[level]
    rng = random.Random(hash_of(f"map/{level}/{split}/{least}/{number}"))
    while True:
        cells = draw_map(settings.size, settings.walls, rng)
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
            pairs = rng.sample(far, PAIRS)
            return [{"map": cells, "start": start, "goal": goal} for start, goal in pairs]


def split_of(cells: str) -> str:
    """The split, ood aside, of a map and of all that are symmetric to it."""
    return split_of_row({}, f"map/{canonical(cells)}")


@lru_cache(maxsize=32)
def procedural(level: str, split: str, least: int) -> MapSource:
    """The tasks of a level; one source per process, which copies of an environment share."""
    if split == "ood":
        level = LEVELS[level].beyond
        least = BEYOND[level].least
    return MapSource(split, partial(drawn, level, split, least))


def task_of_row(row: Mapping[str, Any]) -> Task:
    """The task of a row: `map`, its lines of `.`, `#`, one `S` and one `G`; perhaps `id`, `split`.

    Raises:
        ValueError: no such square map, or no way from S to G.
    """
    text = square_map(row, FREE + WALL + START + GOAL)
    if text.count(START) != 1:
        raise ValueError(f"map={row['map']!r:.100}: expected one S")
    if text.count(GOAL) != 1:
        raise ValueError(f"map={row['map']!r:.100}: expected one G")
    start, goal = text.index(START), text.index(GOAL)
    cells = text.replace(START, FREE).replace(GOAL, FREE)
    if start not in distances(cells, goal):
        raise ValueError(f"map={row['map']!r:.100}: there is no way from S to G")
    return task_of_map(row, text, cells, {"map": cells, "start": start, "goal": goal})


def square_map(row: Mapping[str, Any], letters: str) -> str:
    """The cells of a row's `map`, a list of lines or a text of lines.

    Raises:
        ValueError: no square of these letters.
    """
    entry: Any = row.get("map")
    lines = entry.split("\n") if isinstance(entry, str) else entry
    square = isinstance(lines, (list, tuple)) and all(isinstance(line, str) for line in lines)
    text = "".join(lines) if square else ""
    whole = square and len(lines) in SIZES and all(len(line) == len(lines) for line in lines)
    if not whole or set(text) - set(letters):
        raise ValueError(
            f"map={entry!r:.100}: expected 3 to 20 lines, each with as many characters as there "
            f"are lines, of {' '.join(letters)}"
        )
    return text


def task_of_map(row: Mapping[str, Any], text: str, cells: str, data: Mapping[str, Any]) -> Task:
    """The task of a row: named by its `id` or `text`, in its `split` or that of `cells`."""
    split = row.get("split") or split_of(cells)
    return Task(
        str(row.get("id") or f"row-{hash_of(text):016x}"),
        split_of_row({"split": split}, text),
        {**data, "whole": True},
    )


def lines_of_map(cells: str) -> list[str]:
    """The rows of a map, cells apart."""
    size = size_of(cells)
    return [" ".join(cells[at : at + size]) for at in range(0, len(cells), size)]


def named(place: int, size: int) -> str:
    """A place in words, counted from 1."""
    return f"row {place // size + 1}, column {place % size + 1}"


def places_in(text: str, size: int) -> list[int]:
    """The places that `named` put into a text."""
    return [(int(row) - 1) * size + int(column) - 1 for row, column in PLACE.findall(text)]


def marked(cells: str, marks: Mapping[int, str]) -> str:
    """A map with letters at some places."""
    return "".join(marks.get(at, cell) for at, cell in enumerate(cells))
