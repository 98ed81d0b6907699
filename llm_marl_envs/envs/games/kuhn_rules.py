"""Kuhn poker: three cards, one bet. Payoffs, exact values, best responses, exploitability.

Kuhn (1950). Both pay an ante of 1 and hold one of jack < queen < king. The first passes or bets 1;
the other then passes or bets, and passing upon a bet is to fold. If the first passed and the other
bet, the first passes (folds) or bets (calls). A table holds a seat's probability of betting, (6,):
card c without a bet before it at place c, upon a bet at 3 + c. So each seat has six situations.
Pure functions; shapes: S tables at once where it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.games.landscape import softmax

CARDS = ("jack", "queen", "king")
PASS, BET = "pass", "bet"
DEALS = tuple(permutations(range(3), 2))
"""(card of the first, card of the second), each as likely."""
SITUATIONS = 6
VALUE = -1 / 18
"""What the first expects where both play an equilibrium."""


def acting(history: Sequence[bool]) -> int | None:
    """Whose turn it is after so many bets (True) and passes (False); None: the hand is over."""
    over = len(history) > 1 and tuple(history) != (False, True)
    return None if over else len(history) % 2


def situation(card: int, history: Sequence[bool]) -> int:
    """The place in a table: which card, and whether there is a bet to answer."""
    return card + 3 * (bool(history) and history[-1])


def payoff(deal: tuple[int, int], history: Sequence[bool]) -> float:
    """What the first wins of the second at the end of a hand, in antes.

    Raises:
        ValueError: the hand is not over.
    """
    if acting(history) is not None:
        raise ValueError(f"history {history!r}: the hand is not over")
    stronger = 1.0 if deal[0] > deal[1] else -1.0
    if history[-1]:
        return 2 * stronger  # a bet and a call
    if len(history) == 2 and not history[0]:
        return stronger  # both passed
    return 1.0 if len(history) == 2 else -1.0  # the second, or the first, folded


def leaves() -> list[tuple[tuple[int, int], tuple[bool, ...]]]:
    """Every deal with every finished history, 30 in all."""
    pairs = []
    for deal in DEALS:
        for length in (2, 3):
            for history in product((False, True), repeat=length):
                legal = all(acting(history[:n]) is not None for n in range(length))
                if legal and acting(history) is None:
                    pairs.append((deal, history))
    return pairs


LEAVES = leaves()
WINS = np.array([payoff(deal, history) for deal, history in LEAVES]) / len(DEALS)
"""(30,) what the first wins at a leaf, times the probability of its deal."""


def _taken(bet: bool) -> NDArray[np.bool_]:
    """(2, 30, 6): in which situations a seat bets (or passes) on the way to a leaf."""
    taken = np.zeros((2, len(LEAVES), SITUATIONS), bool)
    for leaf, (deal, history) in enumerate(LEAVES):
        for n, choice in enumerate(history):
            if choice == bet:
                taken[n % 2, leaf, situation(deal[n % 2], history[:n])] = True
    return taken


BETS, PASSES = _taken(True), _taken(False)
PURE = np.array(list(product((0.0, 1.0), repeat=SITUATIONS)))
"""(64, 6): every table without chance."""


def equilibrium(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both tables of Kuhn's family: the first bets a jack with probability `alpha`.

    Raises:
        ValueError: `alpha` is not in 0 to 1/3; beyond, it is no equilibrium.
    """
    if not 0 <= alpha <= 1 / 3:
        raise ValueError(f"alpha={alpha}: expected 0 to 1/3")
    first = [alpha, 0, 3 * alpha, 0, alpha + 1 / 3, 1]
    second = [1 / 3, 0, 1, 0, 1 / 3, 1]
    return np.array(first), np.array(second)


def reach(seat: int, table: NDArray[Any]) -> NDArray[np.float64]:
    """(..., 30): the seat's own part of the probability of each leaf, for tables (..., 6)."""
    chance = np.asarray(table)[..., None, :]
    return np.where(BETS[seat], chance, np.where(PASSES[seat], 1 - chance, 1.0)).prod(-1)


def value(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """What the first expects, (...) for tables (..., 6)."""
    return (reach(0, first) * reach(1, second)) @ WINS


def best_response(seat: int, other: NDArray[Any]) -> tuple[NDArray[np.float64], float]:
    """A best table against the other seat's, and what it expects: all 64 pure ones are tried.

    Raises:
        ValueError: `other` is no table of 6 probabilities.
    """
    check_table(other)
    expected = value(PURE, other) if seat == 0 else -value(other, PURE)
    best = int(expected.argmax())
    return PURE[best], float(expected[best])


def exploitability(first: NDArray[Any], second: NDArray[Any]) -> float:
    """What a best response gains, mean of both seats: 0 exactly in an equilibrium.

    Half of what is called NashConv: 11/24 for two players who choose at random.
    """
    return (best_response(0, second)[1] + best_response(1, first)[1]) / 2


def check_table(table: Any) -> None:
    """Raise `ValueError` for what is no table of 6 probabilities."""
    chances = np.asarray(table, float)
    if chances.shape != (SITUATIONS,) or not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError(f"table {table!r:.100}: expected {SITUATIONS} probabilities of betting")


def exact_gradient(logits: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
    """Of each seat's expected winnings, in its own logits (S, 6, 2) of pass and bet."""
    tables = [softmax(own)[..., 1] for own in logits]
    both = reach(0, tables[0]) * reach(1, tables[1]) * WINS  # (S, 30)
    slopes = []
    for seat, sign in ((0, 1.0), (1, -1.0)):
        chance = tables[seat]
        bets, passes = both @ BETS[seat], both @ PASSES[seat]  # (S, 6)
        slope = sign * (bets * (1 - chance) - passes * chance)
        slopes.append(np.stack([-slope, slope], -1))
    return slopes
