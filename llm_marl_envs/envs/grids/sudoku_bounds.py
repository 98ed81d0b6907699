"""What a seat that hears nothing can score in a sudoku of which it knows a part.

Its candidates, the solutions that agree with all that it sees, are equally likely. A turn tells it
one thing only: whether the episode goes on. Once solved, a grid pays everything; of the others the
last answer alone counts, for turns pay gains. Hence an optimal seat offers one candidate in each
turn before the last and then answers what is best for those that are left:

    value = max over R, |R| = K - 1, of (|R| + sum_{t not in R} score(x_R, t)) / n

where the last answer x_R has in each cell the digit that most of the rest have, or is one of the
rest, whichever scores more. Any other answer of an earlier turn rules out nothing.

The better seat of a split is found by counting over its tasks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.sudoku_rules import Grid
from llm_marl_envs.envs.grids.sudoku_tasks import SEATS, blank_cells, procedural, seen_by

CELLS, SOLVED = 0.5, 0.5
"""Shares of the score: for cells that are right, and for the whole solution."""
MAX_TURNS = 3
"""Turns up to which the bound is enumerated: n candidates have n (n - 1) / 2 sets of two."""
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
    values = {view: expected_alone(grids, turns) for view, grids in candidates.items()}
    total = sum(len(grids) for grids in candidates.values())
    mean = sum(values[view] * len(grids) for view, grids in candidates.items()) / total
    return Alone(seat, mean, values)


def score_terms(digits: Sequence[int], right: Sequence[int]) -> dict[str, float]:
    """The score of an answer, in parts that sum to at most 1; both are digits of the empty cells.

    Raises:
        ValueError: as many digits as cells are needed.
    """
    hits = sum(a == b for a, b in zip(digits, right, strict=True))
    return {"cells": CELLS * hits / len(right), "solved": SOLVED * (hits == len(right))}


def expected_alone(candidates: Sequence[Grid], turns: int) -> float:
    """The value of this module, in [0, 1], for equally likely digits of the empty cells.

    Raises:
        ValueError: `turns` not in 1 to `MAX_TURNS`.
    """
    if not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"turns={turns}: bounds are known for 1 to {MAX_TURNS} turns")
    n = len(candidates)
    if n <= turns:
        return 1.0
    best = 0.0
    for offered in combinations(range(n), turns - 1):
        rest = [grid for at, grid in enumerate(candidates) if at not in offered]
        best = max(best, turns - 1 + _last(rest))
    return best / n


def _last(candidates: Sequence[Grid]) -> float:
    """The sum of scores, over the candidates, of the best single answer."""
    counts = [Counter(digits) for digits in zip(*candidates, strict=True)]
    common = sum(max(count.values()) for count in counts)
    whole = max(
        sum(count[digit] for count, digit in zip(counts, grid, strict=True)) for grid in candidates
    )
    return max(CELLS * common / len(counts), CELLS * whole / len(counts) + SOLVED)


def expected_blind(size: int, blanks: int, turns: int) -> float:
    """Expected score of digits drawn at random in every turn."""
    solved = size**-blanks
    unsolved = (1 - solved) ** (turns - 1)
    return 1 - unsolved + unsolved * (CELLS / size + SOLVED * solved)
