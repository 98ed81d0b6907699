"""What mixed motives come to: optimum, equilibria, best responses, fear and greed.

Of any game of n seats in which each has a few plans: actions of a table, scripts of a long game.
Owns what follows from what plans earn beside each other; what they earn is the game's own business.

Shapes: `pays` is (n, K0, ..., Kn-1), what each seat earns by the plans of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Pays = NDArray[np.float64]
Joint = tuple[int, ...]
"""The number of each seat's plan."""
P = TypeVar("P")
Meeting = Callable[[Sequence[P]], Sequence[float]]
"""The plan of each seat -> what each earns."""


def pays_of(meeting: Meeting[P], plans: Sequence[P], seats: int) -> Pays:
    """(n, K, ..., K): what seats earn by all joint plans, K ** n of them."""
    pays = np.zeros((seats, *(len(plans),) * seats))
    for joint in product(range(len(plans)), repeat=seats):
        pays[(slice(None), *joint)] = meeting([plans[number] for number in joint])
    return pays


def best_joints(pays: Pays) -> list[Joint]:
    """The joint plans with the largest sum."""
    total = pays.sum(0)
    return _joints(np.isclose(total, total.max()))


def pure_equilibria(pays: Pays) -> list[Joint]:
    """The joint plans from which no seat gains by changing its own."""
    stays = [np.isclose(own, own.max(seat, keepdims=True)) for seat, own in enumerate(pays)]
    return _joints(np.logical_and.reduce(stays))


def _joints(where: NDArray[np.bool_]) -> list[Joint]:
    return [tuple(map(int, joint)) for joint in np.argwhere(where)]


def best_response(pays: Pays, seat: int, others: Sequence[Sequence[float]]) -> tuple[int, float]:
    """The best plan of a seat against a distribution over each other's, and what it expects.

    Args:
        pays: of the game.
        seat: who responds.
        others: of each other seat in order, the chance of each of its plans.

    Raises:
        ValueError: these are no distributions over the others' plans.
    """
    values = np.moveaxis(pays[seat], seat, 0)  # (K of the seat, K of the others in order)
    for counted, chances in zip(values.shape[1:], others, strict=True):
        given: NDArray[Any] = np.asarray(chances, float)
        if given.shape != (counted,) or given.min() < 0 or not math.isclose(given.sum(), 1.0):
            raise ValueError(f"other={chances!r}: expected {counted} probabilities that sum to 1")
    for chances in reversed(others):
        values = values @ np.asarray(chances, float)
    return int(values.argmax()), float(values.max())


@dataclass(frozen=True, slots=True)
class Dilemma:
    """What a seat earns that keeps to a plan or breaks it, beside others who all do the same.

    Attributes:
        reward: it keeps, and the others too.
        temptation: it breaks, the others keep.
        sucker: it keeps, the others break.
        punishment: it breaks, and the others too.
    """

    reward: float
    temptation: float
    sucker: float
    punishment: float

    @property
    def greed(self) -> float:
        """What breaking gains beside those who keep."""
        return self.temptation - self.reward

    @property
    def fear(self) -> float:
        """What breaking saves beside those who break."""
        return self.punishment - self.sucker


def dilemma(meeting: Meeting[P], seats: int, keeps: P, breaks: P, seat: int = 0) -> Dilemma:
    """The dilemma of one seat between two plans.

    Fear and greed as reasons to break are Macy and Flache's (2002, doi 10.1073/pnas.092080099).
    """

    def earns(own: P, others: P) -> float:
        return meeting([own if one == seat else others for one in range(seats)])[seat]

    return Dilemma(
        reward=earns(keeps, keeps),
        temptation=earns(breaks, keeps),
        sucker=earns(keeps, breaks),
        punishment=earns(breaks, breaks),
    )
