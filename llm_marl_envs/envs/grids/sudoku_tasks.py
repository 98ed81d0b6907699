"""Sudoku tasks: levels, generators, splits, rows; and which given each seat sees.

Splits are disjoint by what is asked. Which cells are empty decides the split, by a number that all
symmetric puzzles share (`sudoku.symmetry_class`), and digits do not enter it. So no puzzle of one
split is a puzzle of another that was turned, mirrored, transposed or relabelled, or whose rows or
columns changed places.

A level of size 4 holds every full grid with which its layouts, the places of empty cells, have one
solution. So a seat's candidates are all equally likely and can be counted. Larger grids are drawn.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llm_marl_envs.core.tasks import IndexedSource, Task, TaskSource, hash_of, split_of_row
from llm_marl_envs.envs.grids.sudoku_rules import (
    SHAPES,
    Grid,
    Shape,
    all_grids,
    is_proper,
    solve,
    symmetry_class,
)

EMPTY, SEATS = -1, (0, 1)
"""In `owners`: a cell that is to be filled in; the seats, tool and planner."""
BOTH = 2
"""In `owners`: a given that both see; in rows, which are not divided."""
DIVISIONS = 8
"""Of the givens of one layout, of which the one is taken that tells the seats least."""
TRIES = 4000
LAYOUTS = {"train": 40, "val": 8, "test": 24}
DRAWN = {"train": 4096, "val": 512, "test": 512, "ood": 512}
"""How many layouts of size 4, and how many puzzles of a larger size, a split has."""


@dataclass(frozen=True, slots=True)
class Level:
    """A difficulty.

    Attributes:
        shape: of the grid.
        blanks: cells that are empty unless somebody says how many.
        fewest, most: how many may be asked for.
        beyond: the level whose puzzles are this one's split ood.
    """

    shape: Shape
    blanks: int
    fewest: int
    most: int
    beyond: str


LEVELS = {
    "4x4": Level(SHAPES[4], 8, 4, 9, "6x6"),
    "6x6": Level(SHAPES[6], 12, 4, 20, "9x9"),
    "9x9": Level(SHAPES[9], 30, 4, 48, "12x12"),
}
BEYOND = {**LEVELS, "12x12": Level(SHAPES[12], 48, 4, 60, "")}


def puzzle_of(task: Task) -> Grid:
    """The givens of a task, 0 where a cell is empty."""
    return tuple(
        0 if owner == EMPTY else digit
        for digit, owner in zip(task.data["solution"], task.data["owners"], strict=True)
    )


def seen_by(task: Task, seat: int | None) -> Grid:
    """The givens that a seat of a divided task sees; None: all of them."""
    owners = task.data["owners"]
    return tuple(
        digit if owner in (BOTH, seat) or (seat is None and owner != EMPTY) else 0
        for digit, owner in zip(task.data["solution"], owners, strict=True)
    )


def shape_of(task: Task) -> Shape:
    """The shape of a task's grid."""
    return SHAPES[task.data["size"]]


def blank_cells(task: Task) -> tuple[int, ...]:
    """The cells to fill in, in reading order."""
    return tuple(at for at, owner in enumerate(task.data["owners"]) if owner == EMPTY)


def _task(task_id: str, split: str, solution: Sequence[int], owners: Sequence[int]) -> Task:
    size = round(len(solution) ** 0.5)
    data = {"size": size, "solution": tuple(solution), "owners": tuple(owners)}
    return Task(task_id, split, data)


def split_of(blanks: Sequence[int], shape: Shape) -> str:
    """The split, ood aside, of the puzzles with these empty cells and of all symmetric ones."""
    empty = frozenset(blanks)
    filled = [at not in empty for at in range(shape.size**2)]
    return split_of_row({}, f"sudoku/{shape.size}/{symmetry_class(filled, shape)}")


# -- size 4: all ----------------------------------------------------------------------------------
class SmallSource(IndexedSource):
    """Every solution of every layout of a split, in a mixed order.

    Raises:
        ValueError: the split has no layout with so many empty cells.
    """

    def __init__(self, split: str, blanks: int) -> None:
        super().__init__(split)
        self._layouts = list(_layouts(split, blanks))
        if not self._layouts:
            raise ValueError(f"blanks={blanks}: split {split!r} has no puzzle with so many")
        self._all = [
            (layout, at) for layout, (_, grids) in enumerate(self._layouts) for at in grids
        ]
        random.Random(hash_of(f"sudoku/order/{split}/{blanks}")).shuffle(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        layout, at = self._all[index]
        return _task(task_id, self.split, all_grids(SHAPES[4])[at], self._layouts[layout][0])


def _layouts(split: str, blanks: int) -> Iterator[tuple[Grid, tuple[int, ...]]]:
    """(owners, which of `all_grids` have one solution with them); no two have the same blanks."""
    rng = random.Random(hash_of(f"sudoku/4/{split}/{blanks}"))
    grids, shape = all_grids(SHAPES[4]), SHAPES[4]
    seen: set[tuple[int, ...]] = set()
    for _ in range(TRIES):
        if len(seen) == LAYOUTS[split]:
            return
        empty = tuple(sorted(rng.sample(range(16), blanks)))
        if empty in seen or split_of(empty, shape) != split:
            continue
        givens = [at for at in range(16) if at not in empty]
        shown = [tuple(grid[at] for at in givens) for grid in grids]
        count = Counter(shown)
        proper = tuple(at for at, digits in enumerate(shown) if count[digits] == 1)
        if len(proper) >= len(grids) // 4:
            seen.add(empty)
            divisions = [_divided(givens, 16, rng) for _ in range(DIVISIONS)]
            yield min(divisions, key=lambda owners: _views(owners, proper)), proper


def _views(owners: Sequence[int], proper: Sequence[int]) -> int:
    """How many views the better seat tells apart."""
    grids = all_grids(SHAPES[4])
    own = [[at for at, owner in enumerate(owners) if owner == seat] for seat in SEATS]
    return max(len({tuple(grids[g][at] for at in cells) for g in proper}) for cells in own)


def _divided(givens: Sequence[int], cells: int, rng: random.Random) -> Grid:
    """Owners: half of the givens each, at random."""
    owners = [EMPTY] * cells
    for at, cell in enumerate(rng.sample(list(givens), len(givens))):
        owners[cell] = SEATS[at % 2]
    return tuple(owners)


# -- larger: drawn --------------------------------------------------------------------------------
class DrawnSource(IndexedSource):
    """Puzzles of any size: a random full grid, less cells without which one solution is left."""

    def __init__(self, split: str, shape: Shape, blanks: int) -> None:
        super().__init__(split)
        self.shape, self.blanks = shape, blanks

    def __len__(self) -> int:
        return DRAWN[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        size = self.shape.size
        rng = random.Random(hash_of(f"sudoku/{size}/{self.blanks}/{self.split}/{index}"))
        for _ in range(TRIES):
            solution = solve((0,) * size**2, self.shape, rng=rng)[0]
            empty = _dug(solution, self.shape, self.blanks, rng)
            if empty and self.split in ("ood", split_of(empty, self.shape)):
                givens = [at for at in range(size**2) if at not in empty]
                return _task(task_id, self.split, solution, _divided(givens, size**2, rng))
        raise AssertionError(f"no puzzle of size {size} with {self.blanks} empty cells")


def _dug(solution: Grid, shape: Shape, blanks: int, rng: random.Random) -> tuple[int, ...]:
    """Cells to empty so that one solution stays; () where this order of cells does not go far."""
    left = list(solution)
    for cell in rng.sample(range(len(left)), len(left)):
        if left.count(0) == blanks:
            break
        digit, left[cell] = left[cell], 0
        if not is_proper(left, shape):
            left[cell] = digit
    empty = tuple(at for at, digit in enumerate(left) if not digit)
    return empty if len(empty) == blanks else ()


@lru_cache(maxsize=32)
def procedural(level: str, split: str, blanks: int) -> TaskSource:
    """The tasks of a level; one source per process, which copies of an environment share.

    Raises:
        ValueError: a split of size 4 has no puzzle with so many empty cells.
    """
    if split == "ood":
        beyond = BEYOND[LEVELS[level].beyond]
        return DrawnSource(split, beyond.shape, beyond.blanks)
    shape = LEVELS[level].shape
    small = shape.size == 4
    return SmallSource(split, blanks) if small else DrawnSource(split, shape, blanks)


def task_of_row(row: Mapping[str, Any]) -> Task:
    """The task of a row: `puzzle`, its lines of digits and dots; perhaps `id` and `split`.

    Raises:
        ValueError: no such lines, another size than 4, 6, 9 or 12, or not exactly one solution.
    """
    entry: Any = row.get("puzzle")
    lines = entry.split("\n") if isinstance(entry, str) else entry
    try:
        cells = [0 if mark == "." else int(mark) for line in lines for mark in line.split()]
        size = len(lines)
        fits = size in SHAPES and len(cells) == size**2 and all(0 <= cell <= size for cell in cells)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"puzzle={entry!r:.100}: {error}") from error
    if not fits or 0 not in cells:
        raise ValueError(
            f"puzzle={entry!r:.100}: expected {[*SHAPES]} lines of as many digits or dots, at "
            "least one dot"
        )
    solutions = solve(cells, SHAPES[size], most=2)
    if len(solutions) != 1:
        raise ValueError(
            f"puzzle={entry!r:.100}: {('no', '', 'more than one')[len(solutions)]} solution"
        )
    key = " ".join(map(str, cells))
    owners = [BOTH if digit else EMPTY for digit in cells]
    empty = [at for at, digit in enumerate(cells) if not digit]
    split = row.get("split") or split_of(empty, SHAPES[size])
    return _task(
        str(row.get("id") or f"row-{hash_of(key):016x}"),
        split_of_row({"split": split}, key),
        solutions[0],
        owners,
    )
