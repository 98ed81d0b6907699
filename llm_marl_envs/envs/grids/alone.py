"""What a seat that hears nothing can score in a grid of which it knows a part.

Its candidates, the solutions that agree with all that it sees, are equally likely. A turn tells it
one thing only: whether the episode goes on. Once solved, a grid pays everything; of the others the
last answer alone counts, for turns pay gains. Hence an optimal seat offers one candidate in each
turn before the last and then answers what is best for those that are left:

    value = max over R, |R| = K - 1, of (|R| + sum_{t not in R} score(x_R, t)) / n

where the last answer x_R has in each cell the digit that most of the rest have, or is one of the
rest, whichever scores more. Any other answer of an earlier turn rules out nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from llm_marl_envs.envs.grids.sudoku_rules import Grid

CELLS, SOLVED = 0.5, 0.5
"""Shares of the score: for cells that are right, and for the whole solution."""
MAX_TURNS = 3
"""Turns up to which the bound is enumerated: n candidates have n (n - 1) / 2 sets of two."""


def score_terms(found: Sequence[int], right: Sequence[int]) -> dict[str, float]:
    """The score of an answer, in parts that sum to at most 1; both are digits of the empty cells.

    Raises:
        ValueError: as many digits as cells are needed.
    """
    hits = sum(a == b for a, b in zip(found, right, strict=True))
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
        rest = [one for at, one in enumerate(candidates) if at not in offered]
        best = max(best, turns - 1 + _last(rest))
    return best / n


def _last(candidates: Sequence[Grid]) -> float:
    """The sum of scores, over the candidates, of the best single answer."""
    counts = [Counter(digits) for digits in zip(*candidates, strict=True)]
    common = sum(max(count.values()) for count in counts)
    whole = max(
        sum(count[digit] for count, digit in zip(counts, one, strict=True)) for one in candidates
    )
    return max(CELLS * common / len(counts), CELLS * whole / len(counts) + SOLVED)


def expected_blind(size: int, blanks: int, turns: int) -> float:
    """Expected score of digits drawn at random in every turn."""
    solved = size**-blanks
    unsolved = (1 - solved) ** (turns - 1)
    return 1 - unsolved + unsolved * (CELLS / size + SOLVED * solved)
