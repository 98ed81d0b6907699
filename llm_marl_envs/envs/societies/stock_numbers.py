"""What can be known of a stock that many draw from, by dynamic programming over months and units.

The social optimum, what random amounts and one seat alone earn, the symmetric pure Markov-perfect
equilibria, and how likely an end may be for sharing to last. Pay is in units, of one seat unless it
says otherwise. Tables have axes t (months, the first is row 0) and s (units, 0 to the capacity).
Best responses to scripts are `stock_responses.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.societies.stock import INFLOW, Rules, insatiable

Table = NDArray[np.float64]


@lru_cache(maxsize=1024)
def growth(rules: Rules) -> NDArray[np.int64]:
    """(s,): the units of the next month by those that are left; -1 where it is over."""
    grown = (rules.grown(left) for left in range(rules.capacity + 1))
    return np.array([-1 if after is None else after for after in grown])


def _lasts(rules: Rules, after: NDArray[np.int64], values: Table) -> Table:
    """What the next month is worth, where there is one."""
    return np.where(after < 0, 0.0, (1 - rules.end) * values[after])


# -- all seats together ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Plan:
    """The best that seats can do together who are paid together.

    Attributes:
        values: (t + 1, s) what all are paid from a month on; 0 in the last row.
        totals: (t, s) units that they take in it, the fewest of what is best.
    """

    values: Table
    totals: NDArray[np.int64]


@lru_cache(maxsize=1024)
def plan(rules: Rules, acting: int | None = None) -> Plan:
    """The social optimum; with `acting`, what so many seats can do whose others name nothing."""
    values = np.zeros((rules.months + 1, rules.capacity + 1))
    totals = np.zeros((rules.months, rules.capacity + 1), int)
    hands, after = acting or rules.seats, growth(rules)
    free = rules.seats * rules.strength if rules.inverse else 0
    units = np.arange(rules.capacity + 1)
    most = np.array([min(stock, hands * rules.most(stock)) for stock in range(rules.capacity + 1)])
    gained = free - units if rules.inverse else units
    impossible = np.where(units <= most[:, None], 0.0, -np.inf)  # (s, taken)
    left = np.maximum(units[:, None] - units, 0)  # (s, taken)
    for month in reversed(range(rules.months)):
        paid = gained + _lasts(rules, after, values[month + 1])[left] + impossible
        totals[month], values[month] = paid.argmax(axis=1), paid.max(axis=1)
    return Plan(values, totals)


def optimum(rules: Rules, stock: int) -> float:
    """What a seat is paid in the social optimum, mean over seats."""
    return float(plan(rules).values[0, stock]) / rules.seats


def is_overuse(rules: Rules, month: int, stock: int, named: Any) -> Any:
    """Whether a seat names more than its part of what can be taken so that it lasts.

    Of a harm: whether it takes away less than its part of what must be. What the social optimum
    takes is never too much, as everything in the last month.
    """
    enough, total = rules.enough(stock), int(plan(rules).totals[month - 1, stock])
    if rules.inverse:
        return named < min(enough, total) // rules.seats
    return named > -(-max(enough, total) // rules.seats)


def alone(rules: Rules, stock: int) -> float:
    """What a seat is paid where one acts for all and the others name nothing, mean over seats."""
    return float(plan(rules, 1).values[0, stock]) / rules.seats


def highest(rules: Rules, pairs: NDArray[np.int64]) -> float:
    """What no seat can earn more than, in parts of the social optimum's pay.

    Exact in the usual form: what one seat gets that takes all, where chance ends nothing early.

    Args:
        rules: of the game but for its capacity.
        pairs: (tasks, 2) units of the first month, and the capacity, of the tasks.
    """
    stock, capacity = pairs.T
    best = _sustained(rules, rules.end, stock, capacity) / rules.seats
    if rules.inverse:
        return float((rules.months * -(-capacity // rules.seats) / best).max())
    return float((_sustained(rules, 0.0, stock, capacity) / best).max())


def _sustained(
    rules: Rules, end: float, stock: NDArray[np.int64], capacity: NDArray[np.int64]
) -> Table:
    """(tasks,): what all are paid together who let it last, without the tables of `plan`.

    In the usual form it is the social optimum: what is left doubles, with a chance of a half or
    more, so no unit is better taken until a half of the capacity is left. A harm is cleared in each
    month, but for what need never be. That is no more than its optimum, which gives up where a next
    month is unlikely.
    """
    inflow = (INFLOW * capacity).astype(int)
    free = rules.seats * -(-capacity // rules.seats)
    paid, chance = np.zeros(len(stock)), 1.0
    for month in range(1, rules.months):
        if rules.inverse:
            spared = (capacity - inflow) // 2 if month == rules.months - 1 else 0
            left = np.minimum(stock, spared)
            paid += chance * (free - stock + left)
            stock = 2 * left + inflow
        else:
            left = np.minimum(stock, capacity // 2)
            paid += chance * (stock - left)
            stock = np.minimum(2 * left, capacity)
        chance *= 1 - end
    return paid + chance * (free if rules.inverse else stock)


@lru_cache(maxsize=1024)
def at_random(rules: Rules) -> Table:
    """(s,): what a seat is paid where all name amounts at random, each as likely."""
    values, after = np.zeros(rules.capacity + 1), growth(rules)
    sums = [
        _sum_of_draws(rules.most(stock) + 1, rules.seats) for stock in range(rules.capacity + 1)
    ]
    for _ in range(rules.months):
        paid = np.zeros(rules.capacity + 1)
        for stock, chances in enumerate(sums):
            taken = np.minimum(np.arange(len(chances)), stock)
            gained = taken / rules.seats
            gained = rules.strength - gained if rules.inverse else gained
            paid[stock] = chances @ (gained + _lasts(rules, after[stock - taken], values))
        values = paid
    return values


def _sum_of_draws(choices: int, seats: int) -> Table:
    """The distribution of the sum of so many draws from 0 to choices - 1."""
    total = np.full(choices, 1 / choices)
    for _ in range(seats - 1):  # a draw more is a moving average
        up_to = np.cumsum(np.pad(total, (0, choices - 1)))
        up_to[choices:] -= up_to[:-choices].copy()
        total = up_to / choices
    return total


# -- each seat for itself -------------------------------------------------------------------------
@dataclass(frozen=True)
class Equilibrium:
    """One symmetric pure Markov-perfect equilibrium: all name the same, by month and units alone.

    Attributes:
        values: (t + 1, s) what a seat is paid from a month on.
        amounts: (t, s) what each names, the smallest of those that pay the same.
        only: whether in each month and at each stock all symmetric pure equilibria of the months
            from there on pay the same. Then every such equilibrium of the game pays this.
    """

    values: Table
    amounts: NDArray[np.int64]
    only: bool


def equilibrium(rules: Rules, best: bool = True) -> Equilibrium:
    """A symmetric pure Markov-perfect equilibrium, found from the last month backwards.

    Where a month has several, the one that pays most (or least) is taken; so the result is an
    equilibrium, and where `only` is False there may be others that pay more (or less).

    Raises:
        ValueError: a month and a stock where all who name the same have something better to do.
    """
    pick = max if best else min
    values = np.zeros((rules.months + 1, rules.capacity + 1))
    amounts = np.zeros((rules.months, rules.capacity + 1), int)
    only, after = True, growth(rules)
    for month in reversed(range(rules.months)):
        if month + 2 <= rules.months and np.array_equal(*values[month + 1 : month + 3]):
            values[month], amounts[month] = values[month + 1], amounts[month + 1]
            continue
        for stock in range(rules.capacity + 1):
            paid = _stable(rules, stock, _lasts(rules, after, values[month + 1]))
            if not paid:
                raise ValueError(
                    f"month {month + 1} with {stock} units has no pure equilibrium in which all "
                    "name the same; expected one for every stock"
                )
            amount = pick(paid, key=lambda own: paid[own])
            values[month, stock], amounts[month, stock] = paid[amount], amount
            only &= max(paid.values()) - min(paid.values()) < 1e-9
    return Equilibrium(values, amounts, only)


def _stable(rules: Rules, stock: int, later: Table) -> dict[int, float]:
    """Amounts that nobody leaves if all others name them -> what each is then paid.

    Args:
        rules: of the game.
        stock: units there are.
        later: (s,) what is paid after this month, by the units that are left.
    """
    own = np.arange(rules.most(stock) + 1)
    stable = {}
    for amount in range(rules.most(stock) + 1):
        others = [amount] * (rules.seats - 1)
        paid = _paid(rules, stock, own, others, later)
        if paid[amount] >= paid.max() - 1e-9:
            stable[amount] = float(paid[amount])
    return stable


def _paid(
    rules: Rules, stock: int, own: NDArray[np.int64], others: list[int], later: Table
) -> Table:
    """What a seat expects for each amount, this month and after."""
    got = np.minimum(own, float(insatiable(others, stock)))
    left = np.maximum(stock - own - sum(others), 0)
    return (rules.strength - got if rules.inverse else got) + later[left]


def sharing_lasts(rules: Rules, end: Fraction) -> bool:
    """Whether sharing a full stock is an equilibrium of a game without a last month.

    All take equal parts of a half of the capacity in each month. Once somebody takes more, all want
    everything from then on. By the one-shot deviation principle only the first month need be
    looked at.

    Args:
        rules: of the usual form; its months and its `end` are not looked at.
        end: the chance that a month is the last one, above 0.

    Raises:
        ValueError: the inverse form, or a half of the capacity that cannot be divided.
    """
    part, over = divmod(rules.capacity // 2, rules.seats)
    if rules.inverse or over:
        raise ValueError(
            f"capacity={rules.capacity}, inverse={rules.inverse}: expected the usual form, and a "
            f"half of the capacity that {rules.seats} seats can share"
        )
    others = [part] * (rules.seats - 1)
    free = rules.capacity - sum(others)
    after = {own: rules.grown(free - own) for own in range(part + 1, free + 1)}
    return all(
        own + (1 - end) * Fraction(stock or 0, rules.seats) <= part / end
        for own, stock in after.items()
    )
