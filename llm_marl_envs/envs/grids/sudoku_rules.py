"""The rules of sudoku: shapes, a solver, repeated digits, and what symmetries leave unchanged.

Owns no tasks and no words. A grid is a tuple of size * size digits in reading order, 0 where a cell
is empty.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from llm_marl_envs.core.tasks import hash_of

Grid = tuple[int, ...]
ROUNDS = 3
"""Of refining colours; more told no further puzzles apart."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The boxes of a sudoku.

    Attributes:
        height: rows of a box.
        width: columns of a box.
    """

    height: int
    width: int

    @property
    def size(self) -> int:
        """Rows, columns and digits."""
        return self.height * self.width


SHAPES = {shape.size: shape for shape in (Shape(2, 2), Shape(2, 3), Shape(3, 3), Shape(3, 4))}
"""Size -> the shape with this size."""


@cache
def units_of(shape: Shape) -> tuple[tuple[int, int, int], ...]:
    """For each cell its row, column and box, numbered from 0, from size and from 2 * size."""
    size, (height, width) = shape.size, (shape.height, shape.width)
    return tuple(
        (row, size + column, 2 * size + row // height * height + column // width)
        for row in range(size)
        for column in range(size)
    )


def unit_name(unit: int, size: int) -> str:
    """A row, column or box in words, counted from 1 in reading order."""
    kind, number = divmod(unit, size)
    return f"{('row', 'column', 'box')[kind]} {number + 1}"


def repeats(grid: Sequence[int], shape: Shape) -> list[str]:
    """The rows, columns and boxes, in words, that hold a digit more than once."""
    seen: set[tuple[int, int]] = set()
    bad: set[int] = set()
    for digit, units in zip(grid, units_of(shape), strict=True):
        for unit in units if digit else ():
            if (unit, digit) in seen:
                bad.add(unit)
            seen.add((unit, digit))
    return [unit_name(unit, shape.size) for unit in sorted(bad)]


def solve(
    puzzle: Sequence[int], shape: Shape, most: int = 1, rng: random.Random | None = None
) -> list[Grid]:
    """Up to `most` full grids that agree with a puzzle; none where it breaks the rules.

    Args:
        puzzle: 0 where a cell is to be found.
        shape: of the grid.
        most: how many to look for; 2 tell whether a solution is the only one.
        rng: decides in which order digits are tried; None: from 1 up.
    """
    if repeats(puzzle, shape):
        return []
    units, used = units_of(shape), [0] * (3 * shape.size)
    for digit, own in zip(puzzle, units, strict=True):
        for unit in own:
            used[unit] |= 1 << digit
    grid, solutions = list(puzzle), []
    _descend(grid, units, used, most, rng, solutions)
    return solutions


def _descend(
    grid: list[int],
    units: Sequence[tuple[int, int, int]],
    used: list[int],
    most: int,
    rng: random.Random | None,
    solutions: list[Grid],
) -> None:
    """Fill the empty cell with the fewest digits left, each in turn; collect full grids."""
    size = len(used) // 3
    fewest, cell, free = size + 1, -1, 0
    for at, digit in enumerate(grid):
        if not digit:
            row, column, box = units[at]
            open_ = ~(used[row] | used[column] | used[box]) & ((1 << size + 1) - 2)
            if open_.bit_count() < fewest:
                fewest, cell, free = open_.bit_count(), at, open_
    if cell < 0:
        solutions.append(tuple(grid))
        return
    digits = [digit for digit in range(1, size + 1) if free >> digit & 1]
    if rng:
        rng.shuffle(digits)
    for digit in digits:
        grid[cell] = digit
        for unit in units[cell]:
            used[unit] ^= 1 << digit
        _descend(grid, units, used, most, rng, solutions)
        for unit in units[cell]:
            used[unit] ^= 1 << digit
        grid[cell] = 0
        if len(solutions) >= most:
            return


def is_proper(puzzle: Sequence[int], shape: Shape) -> bool:
    """Whether a puzzle has exactly one solution."""
    return len(solve(puzzle, shape, most=2)) == 1


@cache
def all_grids(shape: Shape) -> tuple[Grid, ...]:
    """Every full grid of a small shape; 288 of size 4. Larger sizes have millions."""
    return tuple(solve((0,) * shape.size**2, shape, most=10**6))


def symmetry_class(filled: Sequence[bool], shape: Shape) -> int:
    """A number that is the same for all puzzles that are one up to symmetry.

    It looks at which cells are given, and at no digit, so relabelled puzzles agree. Rows may change
    places within a band and bands among each other, columns likewise, and both may swap: this
    covers rotation, reflection and transposition. Colours of cells are refined by the colours of
    their row, column and box, of its band and its stack (Weisfeiler and Leman). Different puzzles
    may share a number: they are then taken for one, which keeps splits apart all the same.
    """
    size, height, width = shape.size, shape.height, shape.width
    units = units_of(shape)
    cells = [int(cell) for cell in filled]
    for _ in range(ROUNDS):
        members: list[list[int]] = [[] for _ in range(3 * size)]
        for colour, own in zip(cells, units, strict=True):
            for unit in own:
                members[unit].append(colour)
        lines = [_mixed(sorted(colours)) for colours in members]
        rows = _with_neighbours(lines[:size], height)
        columns = _with_neighbours(lines[size : 2 * size], width)
        boxes = lines[2 * size :]
        cells = [
            _mixed([colour, *sorted((rows[row], columns[column - size])), boxes[box - 2 * size]])
            for colour, (row, column, box) in zip(cells, units, strict=True)
        ]
    return _mixed(sorted(cells))


def _with_neighbours(colours: Sequence[int], together: int) -> list[int]:
    """The colours of lines, mixed with those of the band or stack in which they lie."""
    return [
        _mixed(
            [
                colour,
                *sorted(colours[at // together * together : at // together * together + together]),
            ]
        )
        for at, colour in enumerate(colours)
    ]


def _mixed(parts: Sequence[int]) -> int:
    return hash_of(repr(parts))
