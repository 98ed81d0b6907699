"""The rules of a public good: what each seat has of a round, whom it plays with, what fines take.

Pure functions of whole numbers and fractions. What can be known of the game is `goods_numbers.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import NamedTuple

CHOOSE, GIVE, PUNISH = "choose", "give", "punish"
"""Phases of a round, beside talk."""
TAKES = 3
"""Units that a unit of punishment takes; it costs its giver one."""
HALF = Fraction(1, 2)
"""Of a seat's income in a round: the most it can spend on punishing, and the most it can lose."""
Groups = tuple[tuple[int, ...], ...]
"""Who plays with whom: each seat is in one group."""
Wishes = tuple[frozenset[int], ...]
"""Seat -> those with whom it would play."""
Given = Sequence[int | None]
"""Seat -> what it gives; None: it named no amount."""
Fines = Sequence[tuple[int, int]]
"""Whom a seat punishes and with how many units, in the order in which it names them."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is fixed in an episode.

    Attributes:
        seats: n.
        rounds: the last round, which everybody knows.
        endowment: E, units that each seat has in each round.
        factor: what is given is multiplied by it; between 1 and `together`.
        end: the chance that a round before is the last one.
        choose: whether seats choose partners and play in pairs.
        punish: whether they can punish.
    """

    seats: int
    rounds: int
    endowment: int
    factor: Fraction
    end: float = 0.0
    choose: bool = False
    punish: bool = False

    @property
    def together(self) -> int:
        """How many play together."""
        return 2 if self.choose else self.seats

    @property
    def expected_rounds(self) -> float:
        """How many rounds there are in the mean."""
        return sum((1 - self.end) ** number for number in range(self.rounds))

    @property
    def everybody(self) -> Groups:
        """The only group, where nobody chooses."""
        return (tuple(range(self.seats)),)


# -- what is given --------------------------------------------------------------------------------
def parts(rules: Rules, groups: Groups, given: Given) -> list[Fraction]:
    """What each seat gets of what its group gave; who is alone or names no amount, nothing."""
    back = [Fraction(0)] * rules.seats
    for group in groups:
        if len(group) > 1:
            part = rules.factor * sum(given[seat] or 0 for seat in group) / len(group)
            for seat in group:
                back[seat] = part if given[seat] is not None else Fraction(0)
    return back


def incomes(rules: Rules, groups: Groups, given: Given) -> list[Fraction]:
    """What each seat has of a round before anybody punishes: what it kept, and its part.

    Who named no amount has nothing, and the part that would be its own is lost. Who is alone keeps
    everything, whatever it would give.
    """
    alone = {group[0] for group in groups if len(group) == 1}
    return [
        rules.endowment - (0 if seat in alone else own) + back if own is not None else Fraction(0)
        for seat, (own, back) in enumerate(zip(given, parts(rules, groups, given), strict=True))
    ]


# -- what is taken --------------------------------------------------------------------------------
def budget(income: Fraction) -> int:
    """Whole units that a seat can spend on punishing."""
    return floor(income * HALF)


def spent(income: Fraction, fines: Fines) -> list[tuple[int, int]]:
    """The fines that a seat can pay for, in the order in which it names them."""
    left, paid = budget(income), []
    for seat, units in fines:
        paid.append((seat, min(units, left)))
        left -= paid[-1][1]
    return paid


class Fined(NamedTuple):
    """What fines did to a seat in a round.

    Attributes:
        spent: units that it spent on others.
        units: with which it was punished.
        lost: what they took from it.
    """

    spent: int
    units: int
    lost: Fraction


def fined(earned: Sequence[Fraction], fines: Sequence[Fines]) -> list[Fined]:
    """What fines do to each seat.

    Args:
        earned: the income of each seat.
        fines: of each seat; more than it can spend is cut.
    """
    paid = [spent(income, named) for income, named in zip(earned, fines, strict=True)]
    got = [0] * len(earned)
    for named in paid:
        for seat, units in named:
            got[seat] += units
    return [
        Fined(sum(units for _, units in own), units, min(Fraction(TAKES * units), income * HALF))
        for own, units, income in zip(paid, got, earned, strict=True)
    ]


# -- who plays with whom --------------------------------------------------------------------------
def drawn(wishes: Wishes, rng: random.Random) -> Groups:
    """Pairs of seats that name each other, and those who are left, each alone.

    Seats come in a drawn order. Each that is still free gets one of those who are free and with
    whom it is mutual, each as likely; where there is none it stays alone.
    """
    groups: list[tuple[int, ...]] = []
    free = set(range(len(wishes)))
    for seat in rng.sample(range(len(wishes)), len(wishes)):
        if seat in free:
            fitting = _fitting(wishes, seat, free)
            groups.append(_group(seat, rng.choice(fitting)) if fitting else (seat,))
            free -= set(groups[-1])
    return tuple(sorted(groups))


@lru_cache(maxsize=4096)
def pairings(wishes: Wishes) -> dict[Groups, float]:
    """The chance of all that `drawn` can give."""
    whole = frozenset(range(len(wishes)))
    layer: dict[tuple[frozenset[int], Groups], float] = {(whole, ()): 1.0}
    chances: dict[Groups, float] = {}
    while layer:
        after: dict[tuple[frozenset[int], Groups], float] = {}
        for (free, groups), chance in layer.items():
            if not free:
                key = tuple(sorted(groups))
                chances[key] = chances.get(key, 0.0) + chance
            for seat in free:  # in a drawn order, each free seat is as likely to be next
                fitting = _fitting(wishes, seat, free)
                made = [_group(seat, other) for other in fitting] or [(seat,)]
                for group in made:
                    state = (free - set(group), tuple(sorted((*groups, group))))
                    part = chance / len(free) / len(made)
                    after[state] = after.get(state, 0.0) + part
        layer = after
    return chances


def _fitting(wishes: Wishes, seat: int, free: set[int] | frozenset[int]) -> list[int]:
    """Those who are free and with whom a seat is mutual, in order."""
    return sorted(o for o in free if o != seat and o in wishes[seat] and seat in wishes[o])


def _group(seat: int, other: int) -> tuple[int, int]:
    return (min(seat, other), max(seat, other))


def group_of(groups: Groups, seat: int) -> tuple[int, ...]:
    """The group in which a seat is."""
    return next(group for group in groups if seat in group)
