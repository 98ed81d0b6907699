"""The solver, symmetries and what a seat can do alone, with numbers worked by hand or by force."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from llm_marl_envs.envs.grids.sudoku_bounds import expected_alone, expected_blind, score_terms
from llm_marl_envs.envs.grids.sudoku_rules import (
    SHAPES,
    Shape,
    all_grids,
    is_proper,
    repeats,
    solve,
    symmetry_class,
)
from llm_marl_envs.envs.grids.sudoku_tasks import (
    LEVELS,
    blank_cells,
    procedural,
    puzzle_of,
    shape_of,
)

FOUR, NINE = SHAPES[4], SHAPES[9]
GRID: tuple[int, ...] = (1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)
KNOWN = (
    """53..7.... 6..195... .98....6. 8...6...3 4..8.3..1 7...2...6 .6....28. ...419..5 ....8..79"""
)
SOLVED = "534678912 672195348 198342567 859761423 426853791 713924856 961537284 287419635 345286179"


def digits(text: str) -> tuple[int, ...]:
    return tuple(0 if one == "." else int(one) for one in text if not one.isspace())


def test_the_solver_finds_a_known_solution_and_no_other():
    assert solve(digits(KNOWN), NINE, most=2) == [digits(SOLVED)]
    assert repeats(digits(SOLVED), NINE) == []


def test_the_solver_counts_what_there_is():
    assert len(all_grids(FOUR)) == 288  # the number of 4x4 sudokus
    assert solve((1, 1) + (0,) * 14, FOUR) == []
    two = [*GRID]
    for cell in (0, 1, 8, 9):  # 1 2 above 2 1 in the same columns can change places
        two[cell] = 0
    assert len(solve(two, FOUR, most=5)) == 2
    assert not is_proper(two, FOUR)
    assert is_proper((*two[:8], 2, *two[9:]), FOUR)


def test_repeated_digits_are_named():
    assert repeats(GRID, FOUR) == []
    grid = list(GRID)
    grid[5] = 3  # was 4, in row 2, column 2, box 1
    assert repeats(grid, FOUR) == ["row 2", "column 2", "box 1"]
    assert repeats([0] * 16, FOUR) == []


def symmetries(shape: Shape) -> list[tuple[int, ...]]:
    """Every rearrangement of the cells of a small shape that keeps its rules."""
    size = shape.size

    def lines(together: int) -> list[tuple[int, ...]]:
        bands = [range(at, at + together) for at in range(0, size, together)]
        return [
            tuple(itertools.chain(*order))
            for shuffled in itertools.permutations(bands)
            for order in itertools.product(*(itertools.permutations(b) for b in shuffled))
        ]

    found = [
        tuple(row * size + column for row in rows for column in columns)
        for rows in lines(shape.height)
        for columns in lines(shape.width)
    ]
    if shape.height == shape.width:
        found += [tuple(at % size * size + at // size for at in one) for one in found]
    return found


def canonical(puzzle: Sequence[int], moves: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The least of all puzzles that are this one, moved and relabelled."""
    best: tuple[int, ...] = ()
    for move in moves:
        names: dict[int, int] = {0: 0}
        moved = tuple(names.setdefault(puzzle[at], len(names)) for at in move)
        best = min(best or moved, moved)
    return best


def test_no_puzzle_of_a_split_is_one_of_another_in_disguise():
    """By force, with real canonical forms; the class that splits use is told nothing of them."""
    moves = symmetries(FOUR)
    assert len(moves) == 128
    forms: dict[str, set[tuple[int, ...]]] = {}
    for split in ("train", "val", "test"):
        source = procedural("4x4", split, 5)
        tasks = [source[at] for at in range(0, len(source), len(source) // 100)]
        forms[split] = {canonical(puzzle_of(task), moves) for task in tasks}
        assert len(forms[split]) > 5
    for one, other in itertools.combinations(forms.values(), 2):
        assert not one & other


@pytest.mark.parametrize("size", [4, 6, 9])
def test_symmetric_puzzles_share_a_class_and_others_seldom_do(size: int):
    shape, rng = SHAPES[size], random.Random(size)
    classes = set()
    for _ in range(20):
        given = [rng.random() < 0.5 for _ in range(size**2)]
        classes.add(symmetry_class(given, shape))
        for _ in range(3):
            rows, columns = (
                [
                    at
                    for band in rng.sample(range(0, size, together), size // together)
                    for at in rng.sample(range(band, band + together), together)
                ]
                for together in (shape.height, shape.width)
            )
            moved = [given[row * size + column] for row in rows for column in columns]
            if shape.height == shape.width and rng.random() < 0.5:
                moved = [moved[at % size * size + at // size] for at in range(size**2)]
            assert symmetry_class(moved, shape) == symmetry_class(given, shape)
    assert len(classes) > 15


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("split", ["train", "val", "test", "ood"])
def test_tasks_have_one_solution_and_as_many_empty_cells_as_asked(level: str, split: str):
    known = LEVELS[level]
    source = procedural(level, split, known.blanks)
    for index in range(3):
        task = source[index]
        shape = shape_of(task)
        assert solve(puzzle_of(task), shape, most=2) == [task.data["solution"]]
        assert (shape == known.shape) == (split != "ood")
        if split != "ood":
            assert len(blank_cells(task)) == known.blanks
        owners = task.data["owners"]
        assert abs(owners.count(0) - owners.count(1)) <= 1


def test_scores_of_answers():
    assert score_terms((1, 2, 3, 4), (1, 2, 3, 4)) == {"cells": 0.5, "solved": 0.5}
    assert score_terms((1, 2, 3, 3), (1, 2, 3, 4)) == {"cells": 0.375, "solved": 0.0}
    assert score_terms((0, 0, 0, 0), (1, 2, 3, 4)) == {"cells": 0.0, "solved": 0.0}


def test_what_is_possible_alone_by_hand():
    two = [(1, 2), (2, 1)]
    assert expected_alone(two, 1) == 0.5  # either is right, or no digit is
    assert expected_alone(two, 2) == 1.0  # the second turn offers the other
    three = [(1, 1), (1, 2), (1, 3)]
    # (1, 1): all of one, half the cells of two: (1 + 0.25 + 0.25) / 3.
    assert expected_alone(three, 1) == 0.5
    # One is ruled out; of the two left, one is right and of the other one cell: (1 + 1 + 0.25) / 3.
    assert expected_alone(three, 2) == 0.75
    assert expected_alone(three, 3) == 1.0
    with pytest.raises(ValueError, match="turns=4"):
        expected_alone(three, 4)


def test_alone_is_the_best_of_all_plans():
    """By force: every plan of two answers, over three digits and two cells."""
    rng = random.Random(1)
    answers = list(itertools.product((1, 2, 3), repeat=2))
    for _ in range(20):
        candidates = rng.sample(answers, 4)
        best = 0.0
        for first, last in itertools.product(answers, repeat=2):
            scores = [
                1.0 if first == right else sum(score_terms(last, right).values())
                for right in candidates
            ]
            best = max(best, sum(scores) / 4)
        assert expected_alone(candidates, 2) == pytest.approx(best)


def test_digits_at_random_by_hand():
    # Two cells of four digits: 1/16 solved; cells 0.5 / 4, solved 0.5 / 16.
    once = 0.125 + 0.5 / 16
    assert expected_blind(4, 2, 1) == pytest.approx(once)
    assert expected_blind(4, 2, 2) == pytest.approx(1 / 16 + 15 / 16 * once)
