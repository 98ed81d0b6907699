"""The rules of a stock that many draw from: what each gets, what grows again, when it is over.

Pure functions of whole numbers. In the usual form seats take units, and what is left doubles. In
the inverse form the units are a harm that seats take away, at the cost of their own work: what is
left doubles too, and a new part comes. Months are counted from 1. What can be known of the game is
`stock_numbers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

LEAST = 5
"""Of a stock: below it nothing grows again, and the game is over."""
INFLOW = 0.4
"""Of a harm: what comes anew in each month, as a part of the capacity."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is fixed in an episode.

    Attributes:
        seats: n.
        months: the last month, which everybody knows.
        capacity: the most units that there can be; a harm above it ends the game.
        end: the chance that a month before is the last one.
        inverse: whether the units are a harm.
    """

    seats: int
    months: int
    capacity: int
    end: float = 0.0
    inverse: bool = False

    @property
    def inflow(self) -> int:
        """Units of harm that come anew in each month."""
        return int(INFLOW * self.capacity)

    @property
    def strength(self) -> int:
        """Units of harm that a seat can take away in a month; its pay where it takes none."""
        return -(-self.capacity // self.seats)

    def first(self, stock: int) -> int:
        """The units of the first month, where a task has so many."""
        return stock // 2 if self.inverse else stock

    def most(self, stock: int) -> int:
        """The most units that a seat can name."""
        return min(stock, self.strength) if self.inverse else stock

    def grown(self, left: int) -> int | None:
        """The units of the next month; None: it is over."""
        if self.inverse:
            harm = 2 * left + self.inflow
            return harm if harm <= self.capacity else None
        return min(2 * left, self.capacity) if left >= LEAST else None

    def enough(self, stock: int) -> int:
        """Units that all together can take and the next month is no worse than this one.

        Of a harm: that they must take away at least. 0 where nothing needs to be.
        """
        if self.inverse:
            return max(0, stock - max(0, stock - self.inflow) // 2)
        return stock // 2

    def pay(self, units: float | Fraction) -> float:
        """Of a seat that got, or took away, so many units in a month."""
        return float(self.strength - units if self.inverse else units)


def level(named: Sequence[int], stock: int) -> tuple[int, int]:
    """How far a stock goes that is dealt one by one among those who still want.

    Args:
        named: units that each seat wants; together more than there are.
        stock: units that there are.

    Returns:
        Everybody gets so many units, or what it wants if that is less; and so many are left over,
        for as many of those who want more.
    """
    rest, each = stock, 0
    waiting = sorted(named)
    while waiting:
        wanted = waiting[0] - each
        if rest < wanted * len(waiting):
            more, over = divmod(rest, len(waiting))
            return each + more, over
        rest -= wanted * len(waiting)
        each = waiting[0]
        waiting = [other for other in waiting if other > each]
    return each, 0


def dealt(named: Sequence[int], stock: int, order: Sequence[int]) -> tuple[int, ...]:
    """The units that each seat gets.

    Args:
        named: units that each wants, none below 0.
        stock: units that there are.
        order: of the seats, where there is less than all want.
    """
    if sum(named) <= stock:
        return tuple(named)
    each, over = level(named, stock)
    lucky = [seat for seat in order if named[seat] > each][:over]
    return tuple(min(wanted, each) + (seat in lucky) for seat, wanted in enumerate(named))


def insatiable(others: Sequence[int], stock: int) -> Fraction:
    """Units that a seat expects that wants everything, where all orders are as likely.

    Who wants less than that gets what it wants, whatever the others do.
    """
    named = [*others, stock]
    each, over = level(named, stock)
    wanting = sum(wanted > each for wanted in named)
    return each + (Fraction(over, wanting) if wanting else Fraction(0))


def parts(total: int, seats: int, month: int) -> tuple[int, ...]:
    """Equal parts of a total; units left over go to other seats in each month."""
    each, over = divmod(total, seats)
    return tuple(each + ((seat - month) % seats < over) for seat in range(seats))
