"""The rules of giving: who gives to whom, what a gift becomes, what is seen of others.

Pure functions of whole numbers. In each round every seat gives to one other and gets from another
one. Rounds are counted from 1. What can be known of the game is `gift_numbers.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

TAKES = 2
"""Units that the other loses for each unit spent to punish it, as in the paper."""
SPOILT = 10
"""Who names no amount loses one of so many units, rounded up."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is fixed in an episode.

    Attributes:
        seats: n.
        rounds: the last round, which everybody knows.
        endowment: units of each seat at first.
        factor: what a unit given becomes.
        end: the chance that a round before is the last one.
        punish: whether units can be spent to take from the other.
    """

    seats: int
    rounds: int
    endowment: int = 10
    factor: int = 2
    end: float = 0.0
    punish: bool = False

    def ends(self, number: int) -> float:
        """The chance that a round that is played is the last one."""
        return 1.0 if number >= self.rounds else self.end


@dataclass(frozen=True, slots=True)
class Deed:
    """What a seat does in a round.

    Attributes:
        gave: units given.
        had: units that it had.
        spent: units spent to punish; then none are given.
        lost: units lost as it named no amount.
    """

    gave: int
    had: int
    spent: int = 0
    lost: int = 0

    @property
    def cost(self) -> int:
        """Units that it has no more."""
        return self.gave + self.spent + self.lost


Meetings = tuple[tuple[int, ...], ...]
"""For each round: the seat that each gives to."""
Played = tuple[tuple[Deed, ...], tuple[int, ...]]
"""A round that is over: what each did, and to whom."""


def spoilt(had: int) -> Deed:
    """What a text without an amount is."""
    return Deed(0, had, lost=-(-had // SPOILT))


@lru_cache(maxsize=1024)
def meetings(draw: int, seats: int, rounds: int) -> Meetings:
    """Who gives to whom.

    Seats stand in a circle, in an order that is drawn. In each round all give to one so many places
    on. That is drawn, so that nobody meets those of the last round again, as giver or receiver; of
    four seats that leaves one way or two, with three it is only not the same receiver.

    Args:
        draw: what the order and the places follow from.
        seats: n, at least 2.
        rounds: how many.
    """
    rng = random.Random(f"donor/{draw}/{seats}")
    circle = rng.sample(range(seats), seats)
    rows, last = [], 0
    for _ in range(rounds):
        new = [step for step in range(1, seats) if step not in (last, seats - last)]
        last = rng.choice(new or [step for step in range(1, seats) if step != last] or [last])
        to = [0] * seats
        for place, seat in enumerate(circle):
            to[seat] = circle[(place + last) % seats]
        rows.append(tuple(to))
    return tuple(rows)


def settled(
    rules: Rules, wealth: Sequence[int], deeds: Sequence[Deed], to: Sequence[int]
) -> tuple[int, ...]:
    """What each has after a round; who is punished is given nothing in it, as one alone meets it.

    Args:
        rules: of the game.
        wealth: what each had.
        deeds: what each does, at most with what it had.
        to: whom it does that to.
    """
    after = [had - deed.cost for had, deed in zip(wealth, deeds, strict=True)]
    for deed, other in zip(deeds, to, strict=True):
        after[other] += rules.factor * deed.gave
    for deed, other in zip(deeds, to, strict=True):
        after[other] = max(0, after[other] - TAKES * deed.spent)
    return tuple(after)


@dataclass(frozen=True, slots=True)
class Giving:
    """A game between two rounds.

    Attributes:
        rules: of it.
        to: who gives to whom.
        wealth: what each seat has.
        past: rounds that are over, the last one first.
    """

    rules: Rules
    to: Meetings
    wealth: tuple[int, ...]
    past: tuple[Played, ...] = ()

    @classmethod
    def begin(cls, rules: Rules, to: Meetings) -> Giving:
        """Before the first round."""
        return cls(rules, to, (rules.endowment,) * rules.seats)

    @property
    def number(self) -> int:
        """Of the round that comes."""
        return len(self.past) + 1

    def other(self, seat: int) -> int:
        """Whom a seat gives to in the round that comes."""
        return self.to[self.number - 1][seat]

    def shown(self, seat: int, depth: int) -> list[tuple[int, Deed, int]]:
        """What a seat is shown of whom it gives to: what that one did in its last round, ...

        Args:
            seat: who is to give.
            depth: how many deeds at most, each of whom the one before it was done to, a round
                earlier.

        Returns:
            (who, what it did, to whom).
        """
        chain, seat = [], self.other(seat)
        for deeds, to in self.past[:depth]:
            chain.append((seat, deeds[seat], to[seat]))
            seat = to[seat]
        return chain

    def after(self, deeds: tuple[Deed, ...]) -> Giving:
        """What the round that comes leads to."""
        to = self.to[self.number - 1]
        wealth = settled(self.rules, self.wealth, deeds, to)
        return replace(self, wealth=wealth, past=((deeds, to), *self.past))
