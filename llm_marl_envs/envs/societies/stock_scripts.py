"""Rules by which a seat names amounts: a function of the month, the stock and what it has in mind.

A script heeds what was named, not what was said. What it has in mind is a whole number, 0 in the
first month, so that best responses to it can be found. What scripts say is `stock_experts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_marl_envs.envs.societies.stock import Rules, parts
from llm_marl_envs.envs.societies.stock_numbers import is_overuse, plan

SHARER, GRABBER, GRIM, FOLLOWER = PLANS = ("sharer", "grabber", "grim", "follower")


def share(rules: Rules, month: int, stock: int, seat: int) -> int:
    """A seat's part of the social optimum."""
    return parts(int(plan(rules).totals[month - 1, stock]), rules.seats, month)[seat]


def grab(rules: Rules, stock: int) -> int:
    """The amount that pays most at once: everything, or of a harm nothing."""
    return 0 if rules.inverse else stock


@dataclass(frozen=True, slots=True)
class Script:
    """One of `PLANS`.

    Attributes:
        plan: its name.
    """

    plan: str

    def minds(self, rules: Rules) -> int:
        """How many numbers it can have in mind."""
        return {GRIM: 2, FOLLOWER: rules.capacity + 2}.get(self.plan, 1)

    def named(self, rules: Rules, month: int, stock: int, mind: int, seat: int) -> int:
        """The amount that a seat names."""
        if self.plan == GRABBER or (self.plan == GRIM and mind):
            return grab(rules, stock)
        if self.plan == FOLLOWER:
            first = int(plan(rules).totals[month - 1, stock]) // rules.seats
            return min(mind - 1, rules.most(stock)) if mind else first
        return share(rules, month, stock, seat)

    def heard(self, rules: Rules, month: int, stock: int, mind: int, others: Sequence[Any]) -> Any:
        """What it has in mind after a month.

        Args:
            rules: of the game.
            month: that is over.
            stock: of that month.
            mind: what it had in mind.
            others: the amounts that each of the others named; arrays of one shape for several
                worlds, and then so is the result.
        """
        if self.plan == FOLLOWER:
            return sum(others) // len(others) + 1
        if self.plan == GRIM:
            bad = [is_overuse(rules, month, stock, own) for own in others]
            return np.any(np.broadcast_arrays(mind > 0, *bad), axis=0).astype(int)
        return 0
