"""Tasks of pushing boxes: levels, maps with targets and starts, splits, rows.

Splits are disjoint by walls with targets: none of one split is one of another that was turned or
mirrored. They come with many starts, so that who sees walls and targets alone knows no way.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from llm_marl_envs.core.tasks import Task, hash_of
from llm_marl_envs.envs.grids.boxes import MOST_POSITIONS, Position, moves_left, positions_of
from llm_marl_envs.envs.grids.map_tasks import (
    PAIRS,
    MapSource,
    marked,
    split_of,
    square_map,
    task_of_map,
)
from llm_marl_envs.envs.grids.maps import FREE, WALL, draw_map

TARGET, BOX, PLAYER = "T", "B", "P"
BOX_ON, PLAYER_ON = "*", "+"
"""On a target."""
LETTERS = FREE + WALL + TARGET + BOX + PLAYER + BOX_ON + PLAYER_ON


@dataclass(frozen=True, slots=True)
class Level:
    """A difficulty.

    Attributes:
        size: rows and columns, with the walls around.
        walls: probability that a cell within them is a wall.
        boxes: how many there are unless somebody says so.
        most_boxes: what may be asked for at most.
        least: moves of a shortest solution, at least.
        beyond: the level whose maps are this one's split ood.
    """

    size: int
    walls: float
    boxes: int
    most_boxes: int
    least: int
    beyond: str


LEVELS = {
    "6x6": Level(6, 0.2, 1, 2, 5, "7x7"),
    "8x8": Level(8, 0.15, 2, 3, 10, "9x9"),
}
BEYOND = {
    **LEVELS,
    "7x7": Level(7, 0.15, 1, 2, 8, ""),
    "9x9": Level(9, 0.15, 2, 3, 16, ""),
}


@lru_cache(maxsize=4096)
def drawn(level: str, split: str, boxes: int, number: int) -> list[dict[str, Any]]:
    """A map of a split and its targets, with each of its starts.

    Every start has a solution, found by search, and no box on a target.
    """
    settings = BEYOND[level]
    rng = random.Random(hash_of(f"boxes/{level}/{split}/{boxes}/{settings.least}/{number}"))
    while True:
        cells = surrounded(draw_map(settings.size - 2, settings.walls, rng), settings.size)
        free = [place for place, cell in enumerate(cells) if cell == FREE]
        if not boxes < len(free) or positions_of(cells, boxes) > MOST_POSITIONS:
            continue
        targets = tuple(sorted(rng.sample(free, boxes)))
        if split not in ("ood", split_of(with_targets(cells, targets))):
            continue
        far = [
            position
            for position, left in moves_left(cells, targets).items()
            if left >= settings.least and not set(position.boxes) & set(targets)
        ]
        if len(far) >= PAIRS:
            return [data_of(cells, targets, position) for position in rng.sample(far, PAIRS)]


def data_of(cells: str, targets: tuple[int, ...], start: Position) -> dict[str, Any]:
    """The data of a task."""
    return {"map": cells, "targets": targets, "player": start.player, "boxes": start.boxes}


def start_of(task: Task) -> Position:
    """Where the player and the boxes of a task are at first."""
    return Position(task.data["player"], task.data["boxes"])


def with_targets(cells: str, targets: tuple[int, ...]) -> str:
    """A map with its targets."""
    return marked(cells, dict.fromkeys(targets, TARGET))


def surrounded(inner: str, size: int) -> str:
    """A map with a wall around it, `size` rows and columns with that wall."""
    within = size - 2
    rows = (inner[at : at + within] for at in range(0, len(inner), within))
    return WALL * size + "".join(f"{WALL}{row}{WALL}" for row in rows) + WALL * size


def marks_of(targets: tuple[int, ...], position: Position) -> dict[int, str]:
    """Place -> letter of what is there, walls and free cells aside."""
    player, boxes = position
    return {
        **dict.fromkeys(targets, TARGET),
        **{box: BOX_ON if box in targets else BOX for box in boxes},
        player: PLAYER_ON if player in targets else PLAYER,
    }


@lru_cache(maxsize=32)
def procedural(level: str, split: str, boxes: int) -> MapSource:
    """The tasks of a level; one source per process, which copies of an environment share."""
    if split == "ood":
        level = LEVELS[level].beyond
    return MapSource(split, partial(drawn, level, split, boxes))


def task_of_row(row: Mapping[str, Any]) -> Task:
    """The task of a row: `map`, lines of the letters of `LETTERS`; perhaps `id`, `split`.

    Raises:
        ValueError: no such square map, not one player, other numbers of boxes and targets, a map
            that is solved, cannot be solved, or has more positions than are searched.
    """
    text, came = square_map(row, LETTERS), f"map={row.get('map')!r:.100}"
    players, boxes, targets = (
        tuple(place for place, cell in enumerate(text) if cell in letters)
        for letters in (PLAYER + PLAYER_ON, BOX + BOX_ON, TARGET + BOX_ON + PLAYER_ON)
    )
    if len(players) != 1:
        raise ValueError(f"{came}: expected one player, P or + (on a target)")
    if not boxes or len(boxes) != len(targets):
        raise ValueError(
            f"{came}: {len(boxes)} boxes (B or *) for {len(targets)} targets (T, * or +): "
            "expected as many, at least one"
        )
    if boxes == targets:
        raise ValueError(f"{came}: all boxes are on targets")
    cells = "".join(WALL if cell == WALL else FREE for cell in text)
    start = Position(players[0], boxes)
    if start not in moves_left(cells, targets):
        raise ValueError(f"{came}: no moves bring all boxes to targets")
    shown = with_targets(cells, targets)
    return task_of_map(row, text, shown, data_of(cells, targets, start))
