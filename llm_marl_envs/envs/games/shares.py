"""Things that several players take or leave: what each gets, the best and the selfish outcome.

Owns the rules and their exact landscape, as pure functions of numbers. Axes: n players, m things. A
choice is a row of truth values, one for each thing: taken or left. Values are what a thing is worth
to a player; the values of a player add up to the same total for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = tuple[tuple[int, ...], ...]
"""(n, m): what each thing is worth to each player."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What becomes of a thing that not exactly one player takes.

    Attributes:
        left: the part of it that all share alike where nobody takes it, 0 to 1.
        contested: the part of it that its takers share alike where several do, 0 to 1.
    """

    left: float = 1.0
    contested: float = 0.5


@dataclass(frozen=True, slots=True)
class Landscape:
    """Pay per player, as a share of what all things are worth to it, mean over players.

    Attributes:
        best: each thing is taken by one for whom it is worth most: the social optimum.
        alone: one player decides, knows all values, and the others take nothing; the best one.
        equal: nobody takes anything.
        selfish: all take everything, the only equilibrium where `contested` is above 0.
        at_random: each takes each thing with a chance of 1/2.
    """

    best: float
    alone: float
    equal: float
    selfish: float
    at_random: float


def shares(taken: ArrayLike, rules: Rules) -> NDArray[np.float64]:
    """(..., n, m): the part of each thing that each player gets.

    Args:
        taken: (..., n, m) truth values.
        rules: of things that not exactly one takes.
    """
    chosen = np.asarray(taken, bool)
    takers = chosen.sum(-2, keepdims=True)
    of_taker = np.where(takers > 1, rules.contested / np.maximum(takers, 1), 1.0)
    of_all = np.where(takers == 0, rules.left / chosen.shape[-2], 0.0)
    return np.where(chosen, of_taker, of_all)


def pays(
    values: Values, taken: ArrayLike, rules: Rules, silent: Sequence[bool] = ()
) -> NDArray[np.float64]:
    """(..., n): the worth of what each gets, as a share of what all things are worth to it.

    Args:
        values: (n, m).
        taken: (..., n, m) truth values.
        rules: of things that not exactly one takes.
        silent: who has made no choice, and so gets nothing of what is left; nobody where empty.
    """
    worth = np.asarray(values, float)
    earned = (shares(taken, rules) * worth).sum(-1) / worth.sum(-1)
    return np.where(np.asarray(silent), 0.0, earned) if len(silent) else earned


@lru_cache(maxsize=4096)
def owners(values: tuple[tuple[int, ...] | None, ...]) -> tuple[int, ...]:
    """To whom each thing is worth most, as far as values are known; () where none are.

    Of equals it is the first, for thing k counted from seat k modulo n: so who copies another's
    values has no seat that gets everything.
    """
    n = len(values)
    rows = [(seat, row) for seat, row in enumerate(values) if row is not None]
    things = range(len(rows[0][1])) if rows else ()
    return tuple(max((row[at], -((seat - at) % n), seat) for seat, row in rows)[2] for at in things)


def landscape(values: Values, rules: Rules) -> Landscape:
    """What is known of one task. A test compares it with all joint choices, counted."""
    worth = np.asarray(values, float)
    n, total = len(worth), worth[0].sum()
    shared = rules.left * worth.mean(0)
    others = range(n)
    taking = sum(
        comb(n - 1, k) * (rules.contested / (k + 1) if k else 1.0) for k in others
    )  # k of the n - 1 others take it, too
    return Landscape(
        best=float(worth.max(0).sum() / (n * total)),
        alone=float(np.maximum(worth, shared).sum(-1).max() / (n * total)),
        equal=rules.left / n,
        selfish=rules.contested / n,
        at_random=(taking + rules.left / n) / 2**n,
    )


def all_choices(things: int) -> NDArray[Any]:
    """(2^m, m): every choice of one player."""
    return (np.arange(2**things)[:, None] >> np.arange(things)) % 2 == 1
