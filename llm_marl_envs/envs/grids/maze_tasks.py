"""Mazes of which each walker sees a part: levels, boards, splits, rows.

A board is a start, a goal, and who sees which cell. For each walker it has several parts, all with
as many walls; a task puts one part of each together. So who sees a part alone does not know the
maze: it comes with other parts in other tasks.

Splits are disjoint by the start, the goal and the number of walls of the whole maze. These are the
same for all tasks of a board, and turning or mirroring a maze does not change them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any

from pydantic import Field

from llm_marl_envs.core.checks import check_whole
from llm_marl_envs.core.options import Options
from llm_marl_envs.core.tasks import Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.grids.map_tasks import GOAL, PAIRS, START, MapSource, marked, task_of_row
from llm_marl_envs.envs.grids.maps import FREE, WALL, canonical, size_of

SIZES = range(5, 11)
LARGER = 2
"""Rows and columns that mazes of the split ood have more."""
LONGER = 2
"""Moves that a shortest way may have above the least."""
PARTS = 8
"""Parts of a walker, at most, on one board."""
TRIES = 300
"""Combinations of parts that are tried for the tasks of a board."""
MOST_SURE = 0.25
"""Share of the mazes of a board of which a walker may know a way without the others."""
BOARDS = 20_000
"""Boards that are tried."""
HIDDEN = "?"
SEATS = "0123456789abcdef"
ALL = "*"
"""Who sees a cell: one walker, or all."""


@dataclass(frozen=True, slots=True)
class Level:
    """What mazes are drawn.

    Attributes:
        size: rows and columns.
        walls: probability that a cell is a wall.
        least: moves of the shortest way, at least; at most `LONGER` more.
        walkers: how many.
        shared: share of the cells that all see.
    """

    size: int
    walls: float
    least: int
    walkers: int
    shared: float


@lru_cache(maxsize=32)
def procedural(level: Level, split: str) -> MapSource:
    """The tasks of a level; one source per process, which copies of an environment share."""
    return MapSource(split, partial(drawn, level, split))


class MazeOptions(Options):
    """The argument `maze`."""

    within = "maze"
    walkers: int = Field(default=2, ge=2, le=len(SEATS), description="how many")
    size: int = Field(default=6, ge=SIZES[0], le=SIZES[-1], description="rows and columns")
    walls: float = Field(
        default=0.3, ge=0.1, le=0.4, description="probability that a cell is a wall"
    )
    distance: int | None = Field(
        default=None,
        ge=1,
        description="moves of the shortest way, at least; at most two more. At most 2 `size` - 2; "
        "None takes `size` + 1. The longest ways with many walls take seconds to find",
    )
    shared: float = Field(default=0.0, ge=0, le=0.5, description="share of the cells that all see")


def level_of_maze(options: Mapping[str, Any]) -> Level:
    """The level of the argument `maze`.

    Raises:
        ValueError: an unknown name, a value out of range, or too many walkers for the maze.
        TypeError: a value of another type.
    """
    maze = MazeOptions(**options)
    least = maze.size + 1 if maze.distance is None else maze.distance
    check_whole("maze, distance", least, 1, 2 * maze.size - 2)
    level = Level(maze.size, float(maze.walls), least, maze.walkers, float(maze.shared))
    check_cells(level)
    return level


def _beyond(level: Level, split: str) -> Level:
    """The level whose mazes a split has: ood has larger ones with longer ways."""
    if split != "ood":
        return level
    return replace(level, size=level.size + LARGER, least=level.least + LARGER)


@lru_cache(maxsize=4096)
def drawn(level: Level, split: str, number: int) -> list[dict[str, Any]]:
    """The tasks of one board of a split.

    Raises:
        ValueError: there seem to be no such mazes.
    """
    rng = random.Random(hash_of(f"maze/{level}/{split}/{number}"))
    settings = _beyond(level, split)
    for _ in range(BOARDS):
        start, goal = rng.choice(_ends(settings.size, settings.least))
        seen = dealt(settings, start, goal, rng)
        counts = {
            owner: sum(rng.random() < settings.walls for _ in range(seen.count(owner)))
            for owner in sorted(set(seen) - {START, GOAL})
        }
        ends = canonical(marked(FREE * len(seen), {start: START, goal: GOAL}))
        if split not in ("ood", split_of_row({}, f"maze/{ends}/{sum(counts.values())}")):
            continue
        mazes = _combined(settings, seen, counts, rng)
        if len(mazes) < PAIRS:
            continue
        shared = {"start": start, "goal": goal, "seen": seen, "board": number}
        board = [{"map": cells, **shared} for cells in mazes]
        if all(sure(board, seat) <= MOST_SURE for seat in range(settings.walkers)):
            return board
    raise ValueError(
        f"maze, size={level.size}, walls={level.walls:g}, distance={level.least}, "
        f"shared={level.shared:g}: no such mazes were found; change walls, distance or shared"
    )


def sure(board: Sequence[Mapping[str, Any]], seat: int) -> float:
    """The share of a board's mazes of which a walker knows a way alone.

    It is a way that is free in all mazes of the board that look the same to this walker.
    """
    free: dict[str, int] = {}
    counts: dict[str, int] = {}
    for data in board:
        seen, here = view(data, seat), free_of(data["map"])
        free[seen] = free.get(seen, here) & here
        counts[seen] = counts.get(seen, 0) + 1
    start, goal, size = board[0]["start"], board[0]["goal"], size_of(board[0]["map"])
    certain = [count for seen, count in counts.items() if way_length(size, free[seen], start, goal)]
    return sum(certain) / len(board)


def dealt(level: Level, start: int, goal: int, rng: random.Random) -> str:
    """Who sees which cell, a letter each: of `SEATS`, `ALL`, or `START` and `GOAL`."""
    cells = [at for at in range(level.size**2) if at not in (start, goal)]
    rng.shuffle(cells)
    common = round(level.shared * len(cells))
    owners = dict.fromkeys(cells[:common], ALL)
    owners |= {at: SEATS[i % level.walkers] for i, at in enumerate(cells[common:])}
    return marked(FREE * level.size**2, {**owners, start: START, goal: GOAL})


def view(data: Mapping[str, Any], seat: int | None) -> str:
    """The maze as a walker sees it, with start and goal; None sees everything."""
    ends = {data["start"]: START, data["goal"]: GOAL}
    whole = marked(data["map"], ends)
    if seat is None:
        return whole
    owners = (SEATS[seat], ALL, START, GOAL)
    return "".join(
        cell if owner in owners else HIDDEN for cell, owner in zip(whole, data["seen"], strict=True)
    )


def dealt_row(row: Row, level: Level) -> Task:
    """The task of a row, as `map_tasks.task_of_row`, its cells dealt by lot.

    Raises:
        ValueError: as there, or too few cells for so many walkers.
    """
    task = task_of_row(row)
    cells, start, goal = (task.data[key] for key in ("map", "start", "goal"))
    own = replace(level, size=size_of(cells))
    check_cells(own)
    seen = dealt(own, start, goal, random.Random(hash_of(f"seen/{cells}/{start}/{goal}")))
    return replace(task, data={**task.data, "seen": seen})


def check_cells(level: Level) -> None:
    """Raise `ValueError` where there are not two cells for each walker to see alone."""
    left = level.size**2 - 2
    alone = left - round(level.shared * left)
    if alone < 2 * level.walkers:
        raise ValueError(
            f"maze, walkers={level.walkers}, shared={level.shared:g}: {alone} cells of a maze of "
            f"{level.size} rows are seen by one walker alone; expected two for each"
        )


@lru_cache(maxsize=32)
def _ends(size: int, least: int) -> list[tuple[int, int]]:
    """Starts and goals that are neither too near for a way of this length nor too far."""
    places = product(range(size**2), repeat=2)
    near = range(max(1, least - 2), least + LONGER + 1)
    return [
        (a, b) for a, b in places if abs(a // size - b // size) + abs(a % size - b % size) in near
    ]


def _combined(level: Level, seen: str, counts: Mapping[str, int], rng: random.Random) -> list[str]:
    """`PAIRS` mazes with a way of the right length, or fewer: one part of each owner together."""
    bits, start, goal = _bits(level.size), seen.index(START), seen.index(GOAL)
    parts = [_parts(bits, seen, owner, walls, rng) for owner, walls in counts.items()]
    every = sum(bits)
    tried: dict[int, bool] = {}  # draws repeat themselves
    fitting = 0
    for _ in range(TRIES):
        free = every - sum(map(rng.choice, parts))
        if free in tried:
            continue
        length = way_length(level.size, free, start, goal)
        tried[free] = level.least <= length <= level.least + LONGER
        fitting += tried[free]
        if fitting == PAIRS:
            break
    return [
        "".join(FREE if free & bit else WALL for bit in bits)
        for free, fits in tried.items()
        if fits
    ]


def _parts(bits: Sequence[int], seen: str, owner: str, walls: int, rng: random.Random) -> list[int]:
    """The walls of an owner, as bits, in each of its parts; what all see has one part."""
    cells = [at for at, letter in enumerate(seen) if letter == owner]
    several = 1 if owner == ALL else PARTS
    drawn = sorted({tuple(sorted(rng.sample(cells, walls))) for _ in range(several)})
    return [sum(bits[at] for at in part) for part in drawn]


def free_of(cells: str) -> int:
    """The free places of a maze as the bits of a number, with one bit more for each row.

    So places side by side are bits side by side, and nobody leaves a row at its side.
    """
    return sum(bit for bit, cell in zip(_bits(size_of(cells)), cells, strict=True) if cell == FREE)


def way_length(size: int, free: int, start: int, goal: int) -> int:
    """Moves of a shortest way over free places, as `free_of`; 0 where there is none.

    Quicker than `maps.distances`: the places that can be reached are bits, too.
    """
    bits, wide = _bits(size), size + 1
    reached, moves = bits[start], 0
    while not reached & bits[goal]:
        spread = reached << 1 | reached >> 1 | reached << wide | reached >> wide
        if not spread & free & ~reached:
            return 0
        reached, moves = reached | spread & free, moves + 1
    return moves


@lru_cache(maxsize=32)
def _bits(size: int) -> tuple[int, ...]:
    """The bit of each place."""
    return tuple(1 << (row * (size + 1) + column) for row, column in product(range(size), repeat=2))
