"""Games of two seats that choose at once: payoffs, equilibria, best responses, exact gradients.

Pure functions of numbers. Seats are 0 (rows) and 1 (columns), actions are numbered from 0. What
agents are told and how they answer is the environment's business (`games/matrix_game.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.games import motives
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax

Pair = tuple[float, float]
"""What seat 0 and seat 1 are paid."""
Cell = tuple[Pair, ...]
"""Equally likely outcomes of a joint action; one where there is no chance."""
MOST_ACTIONS = 8
EITHER = "either"
LETTERS = "abcdefgh"


@dataclass(frozen=True)
class MatrixGame:
    """Two seats, one joint action, one payoff each.

    Attributes:
        name: what it is called.
        cells: (K0, K1) of equally likely outcomes.
        actions: what each seat's actions are called where people talk of them, K0 and K1 names.
    """

    name: str
    cells: tuple[tuple[Cell, ...], ...]
    actions: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def shape(self) -> tuple[int, int]:
        """(K0, K1)."""
        return len(self.cells), len(self.cells[0])

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """(2, K0, K1): what each seat expects of a joint action."""
        means = [[np.mean(cell, axis=0) for cell in row] for row in self.cells]
        return np.moveaxis(np.array(means), -1, 0)

    @property
    def outcomes(self) -> list[Pair]:
        """Every outcome that can be."""
        return [pair for row in self.cells for cell in row for pair in cell]

    @property
    def common(self) -> bool:
        """Whether both are always paid the same."""
        return all(first == second for first, second in self.outcomes)

    @property
    def chance(self) -> bool:
        """Whether some joint action has more than one outcome."""
        return any(len(cell) > 1 for row in self.cells for cell in row)


# -- making games ---------------------------------------------------------------------------------
def read_game(
    payoffs: Any, name: str = "own", actions: Sequence[Sequence[str]] | None = None
) -> MatrixGame:
    """The game of a table.

    Args:
        payoffs: rows of cells. A cell is a number (paid to both), a pair of numbers (seat 0 and
            seat 1), or {"either": [...]}: such cells, equally likely.
        name: of the game.
        actions: names of the actions of each seat; a, b, ... where None.

    Raises:
        ValueError: no such table, fewer than 2 or more than 8 actions of a seat, a number that is
            not finite, or payoffs that are all alike.
    """
    rows: list[Any] = [*payoffs] if isinstance(payoffs, (list, tuple)) else []
    widths = {len(row) if isinstance(row, (list, tuple)) else 0 for row in rows}
    fits = len(widths) == 1 and all(2 <= n <= MOST_ACTIONS for n in (len(rows), *widths))
    if not fits:
        raise ValueError(
            f"payoffs={payoffs!r:.200}: expected 2 to {MOST_ACTIONS} rows of 2 to {MOST_ACTIONS} "
            "cells each"
        )
    cells = tuple(tuple(_cell(cell) for cell in row) for row in rows)
    named = actions or (LETTERS[: len(rows)], LETTERS[: len(rows[0])])
    game = MatrixGame(name, cells, (tuple(named[0]), tuple(named[1])))
    if len(set(game.outcomes)) == 1:
        raise ValueError(f"payoffs={payoffs!r:.200}: all are alike, so there is nothing to choose")
    return game


def _cell(cell: Any) -> Cell:
    if isinstance(cell, Mapping):
        several = cell.get(EITHER)
        if set(cell) != {EITHER} or not isinstance(several, (list, tuple)) or not several:
            raise ValueError(f"cell {cell!r:.100}: expected {{'{EITHER}': [cell, ...]}}")
        return tuple(_pair(option) for option in several)
    return (_pair(cell),)


def _pair(cell: Any) -> Pair:
    pair = cell if isinstance(cell, (list, tuple)) else (cell, cell)
    numbers = len(pair) == 2 and all(
        isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number)
        for number in pair
    )
    if not numbers:
        raise ValueError(
            f"cell {cell!r:.100}: expected a number, a pair of numbers or {{'{EITHER}': [...]}}"
        )
    return float(pair[0]), float(pair[1])


DILEMMA = ("cooperate", "defect")
GAMES: dict[str, MatrixGame] = {
    game.name: game
    for game in (
        # Claus and Boutilier 1998, figure 2.
        read_game([[11, -30, 0], [-30, 7, 6], [0, 0, 5]], "climbing"),
        # The same, figure 1, with k = -30.
        read_game([[10, 0, -30], [0, 2, 0], [-30, 0, 10]], "penalty"),
        read_game(
            [[5, 0, 0], [0, {EITHER: [14, -10]}, 0], [0, 0, 0]],
            "risky",
            (("safe", "bet", "out"),) * 2,
        ),
        read_game([[[4, 4], [0, 3]], [[3, 0], [2, 2]]], "stag_hunt", (("stag", "hare"),) * 2),
        read_game([[[3, 3], [0, 5]], [[5, 0], [1, 1]]], "prisoners_dilemma", (DILEMMA,) * 2),
    )
}
"""The games that have a name; the first joint action is the best one of each."""


def rescaled(game: MatrixGame, scale: Sequence[float], factor: float = 1.0) -> MatrixGame:
    """The game with each seat's payoffs multiplied by its scale and by `factor`."""
    first, second = (seat_scale * factor for seat_scale in scale)
    cells = tuple(
        tuple(tuple((a * first, b * second) for a, b in cell) for cell in row) for row in game.cells
    )
    return MatrixGame(game.name, cells, game.actions)


# -- what is known of a game ----------------------------------------------------------------------
def best_joint_actions(game: MatrixGame) -> list[motives.Joint]:
    """The joint actions with the largest expected sum of payoffs."""
    return motives.best_joints(game.expected)


def pure_equilibria(game: MatrixGame) -> list[motives.Joint]:
    """The joint actions from which no seat gains by changing its own."""
    return motives.pure_equilibria(game.expected)


def paid(game: MatrixGame, chosen: Sequence[int | None], draw: Callable[[int], int]) -> Pair:
    """What both seats are paid; None: a seat chose nothing.

    It is paid the smallest number that its seat has in the table, so nothing is gained by it, and a
    mean of such pay looks like no play. The other is paid as if it had chosen what pays it least,
    so nobody can harm the other more than by an action. Where both are always paid the same, both
    are paid the smallest number.

    Args:
        game: the table.
        chosen: the action of each seat.
        draw: n -> one of 0 to n - 1, of equally likely outcomes.
    """
    row, column = worst_answers(game, chosen)
    cell = game.cells[row][column]
    pair, least = cell[draw(len(cell))], tuple(map(min, zip(*game.outcomes, strict=True)))
    silent = [action is None for action in chosen]
    if game.common and any(silent):
        return least[0], least[1]
    return (least[0] if silent[0] else pair[0]), (least[1] if silent[1] else pair[1])


def worst_answers(game: MatrixGame, chosen: Sequence[int | None]) -> tuple[int, int]:
    """The joint action that the other is paid for where a seat (None) chose nothing.

    Its action is the one that pays it least, given what the other chose; where neither chose, the
    joint action with the smallest sum.
    """
    first, second = chosen
    if first is None and second is None:
        i, j = np.unravel_index(game.expected.sum(0).argmin(), game.shape)
        return int(i), int(j)
    if first is None:
        return int(game.expected[0][:, second].argmin()), int(second or 0)
    if second is None:
        return first, int(game.expected[1][first].argmin())
    return first, second


def best_response(game: MatrixGame, seat: int, other: Sequence[float]) -> tuple[int, float]:
    """The best action of a seat against a distribution over the other's, and what it expects.

    Raises:
        ValueError: `other` is no distribution over the other seat's actions.
    """
    return motives.best_response(game.expected, seat, [other])


def exact_gradient(game: MatrixGame, logits: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Of each seat's expected payoff, in its own logits: S tables at once.

    Args:
        game: K0 times K1.
        logits: (S, K0) and (S, K1).

    Returns:
        (S, K0) and (S, K1).
    """
    rows, columns = (softmax(table) for table in logits)
    values = (columns @ game.expected[0].T, rows @ game.expected[1])
    return [
        own * (value - (own * value).sum(-1, keepdims=True))
        for own, value in zip((rows, columns), values, strict=True)
    ]


# -- the landscape --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Landscape:
    """What a learner can find in a game that is played once.

    Attributes:
        best: the largest mean payoff of both.
        equilibria: pure ones, joint action -> mean payoff.
        ends: joint action that the exact gradient plays most in the end -> of how many starts.
        value: mean payoff where it ends, mean over starts.
    """

    best: float
    equilibria: dict[tuple[str, str], float]
    ends: dict[tuple[str, str], int]
    value: float


def landscape(game: MatrixGame, updates: int = 400, rate: float = 0.05) -> Landscape:
    """The landscape, the gradient followed with Adam from 200 near-uniform starts."""
    team = game.expected.mean(0)

    def named(joint: Sequence[int]) -> tuple[str, str]:
        return game.actions[0][joint[0]], game.actions[1][joint[1]]

    logits = ascend(
        lambda tables: exact_gradient(game, tables),
        near_uniform([(n,) for n in game.shape]),
        updates,
        rate,
    )
    rows, columns = (softmax(table) for table in logits)
    most = Counter(zip(rows.argmax(-1).tolist(), columns.argmax(-1).tolist(), strict=True))
    return Landscape(
        best=float(team.max()),
        equilibria={named(joint): float(team[joint]) for joint in pure_equilibria(game)},
        ends={named(joint): count for joint, count in most.most_common()},
        value=float(np.einsum("si,sj,ij->s", rows, columns, team).mean()),
    )
