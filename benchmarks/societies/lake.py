"""The stock of `commons-v0` for seats that are softmax tables: sampled many at once, and exact.

Seats name one of a few amounts. A table sees how much there is, how many of the others took more
than their part in the month before, and whether this month is the last one. So the game is small:
what a team of tables is paid is exact, and so is the gradient of tables that see month and stock.
The rules are those of `stock.py`; a test plays them beside the environment.

Shapes: n seats, T months, S stocks, R rows of a table, W amounts, J = W^n, N episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.common import drawn
from benchmarks.societies.tables import Known, Played, Table, gini_of
from llm_marl_envs.envs.games.landscape import NOISE
from llm_marl_envs.envs.societies.stock import Rules, level
from llm_marl_envs.envs.societies.stock_numbers import optimum


@dataclass(frozen=True)
class Lake:
    """A game.

    Attributes:
        rules: of the usual form, all taken from a full stock.
        amounts: that can be named, rising; the last one is everything.
    """

    rules: Rules
    amounts: tuple[int, ...]

    @cached_property
    def stocks(self) -> tuple[int, ...]:
        """The stocks that there can be, the full one last."""
        there, new = set[int](), {self.rules.capacity}
        while new:
            there |= new
            left = {s - sum(joint) for s in new for joint in product(self.amounts, repeat=self.n)}
            new = {after for one in left if (after := self.rules.grown(one)) is not None} - there
        return tuple(sorted(there))

    @property
    def n(self) -> int:
        """Seats."""
        return self.rules.seats

    @property
    def turns(self) -> int:
        """Months of the longest episode."""
        return self.rules.months

    @property
    def rows(self) -> int:
        """Of a table: stocks, by how many others took too much, by whether it is the last month."""
        return len(self.stocks) * self.n * 2

    @cached_property
    def joint(self) -> NDArray[np.int64]:
        """(J, n): numbers of amounts."""
        return np.array([*product(range(len(self.amounts)), repeat=self.n)])

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """(S, J, 3): how far the stock goes, units left over of it, the next stock or -1."""
        found = np.zeros((len(self.stocks), len(self.joint), 3), int)
        for s, stock in enumerate(self.stocks):
            for j, joint in enumerate(self.joint):
                named = [min(self.amounts[a], stock) for a in joint]
                after = self.rules.grown(max(0, stock - sum(named)))
                each = level(named, stock) if sum(named) > stock else (stock, 0)
                found[s, j] = *each, -1 if after is None else self.stocks.index(after)
        return found

    @cached_property
    def got(self) -> Table:
        """(S, J, n): units that seats expect."""
        named = np.minimum(np.array(self.amounts)[self.joint], np.array(self.stocks)[:, None, None])
        each, over = self.levels[..., :1], self.levels[..., 1:2]
        more = named > each
        return np.minimum(named, each) + more * over / np.maximum(more.sum(-1, keepdims=True), 1)

    @cached_property
    def over(self) -> NDArray[np.bool_]:
        """(S, W): whether an amount is more than a seat's part of what keeps the stock."""
        parts = np.array([-(-self.rules.enough(stock) // self.n) for stock in self.stocks])
        return np.array(self.amounts) > parts[:, None]

    def row(self, stock: Any, others: Any, last: Any) -> Any:
        """The row that a seat sees."""
        return (np.asarray(stock) * self.n + others) * 2 + last

    @cached_property
    def best(self) -> float:
        """Units of a seat in the social optimum."""
        return optimum(self.rules, self.rules.capacity)

    def play(
        self, chances: Table, count: int, rng: np.random.Generator, known: Known | None = None
    ) -> Months:
        """Episodes of a team; chances (seats, R, W)."""
        months, seats = self.rules.months, np.arange(self.n)
        seen, said = np.zeros((2, count, self.n, months), int)
        paid, alive = np.zeros((count, self.n, months)), np.zeros((count, months), bool)
        stock, bad = np.full(count, len(self.stocks) - 1), np.zeros((count, self.n), bool)
        going, lasted = np.ones(count, bool), np.ones(count, bool)
        powers = len(self.amounts) ** seats[::-1]
        for month in range(months):
            last = month == months - 1
            others = bad.sum(1, keepdims=True) - bad
            seen[..., month] = self.row(stock[:, None], others, last)
            said[..., month] = drawn(chances[seats, seen[..., month]], rng.random((count, self.n)))
            given = np.zeros(count, bool) if known is None else month < known[1]
            if known is not None:
                said[given, :, month] = known[0][given, :, month]
            each, over, after = self.levels[stock, said[..., month] @ powers].T
            units = dealt_all(self, said[..., month], stock, (each, over), rng)
            paid[..., month] = np.where(going[:, None], units / self.best, 0.0)
            alive[:, month] = going
            bad = self.over[stock[:, None], said[..., month]]
            lasted &= ~going | last | (after >= 0)
            goes_on = given | (rng.random(count) >= self.rules.end)
            going, stock = going & (after >= 0) & goes_on, np.maximum(after, 0)
        return Months(seen, said, paid, alive, lasted)


# -- sampled ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Months(Played):
    """Episodes.

    Attributes:
        lasted: (N,) whether the stock lasted to the end.
    """

    lasted: NDArray[np.bool_]


def dealt_all(
    lake: Lake, said: Any, stock: Any, how_far: tuple[Any, Any], rng: np.random.Generator
) -> NDArray[np.int64]:
    """(N, n): units that each seat gets; those left over go to random ones who want more."""
    named = np.minimum(np.array(lake.amounts)[said], np.array(lake.stocks)[stock][:, None])
    each, over = (one[:, None] for one in how_far)
    more = named > each
    lots = np.where(more, rng.random(named.shape), 2.0).argsort(1).argsort(1)
    return np.minimum(named, each) + (more & (lots < over))


# -- exact -----------------------------------------------------------------------------------------
def moves(lake: Lake) -> tuple[Any, Any, Any]:
    """Of joint states, a stock and who took too much: rows (2, Z, n), next (Z, J), stock (Z,).

    A joint state is stock * 2^n + mask; the first axis of rows says whether it is the last month.
    The next state is -1 where it is over.
    """
    masks = np.array([*product((0, 1), repeat=lake.n)])
    stock = np.repeat(np.arange(len(lake.stocks)), len(masks))
    bad = np.tile(masks, (len(lake.stocks), 1))
    others = bad.sum(1, keepdims=True) - bad
    rows = np.stack([lake.row(stock[:, None], others, last) for last in (0, 1)])
    mask = lake.over[:, lake.joint] @ (2 ** np.arange(lake.n)[::-1])
    after = np.where(lake.levels[..., 2] < 0, -1, lake.levels[..., 2] * len(masks) + mask)
    return rows, after[stock], stock


def worth(lake: Lake, chances: Table) -> dict[str, Any]:
    """What a team of tables is paid, exactly, and how long the stock lasts; chances (n, R, W).

    Returns:
        pay (n,) as a share of the social optimum; survival, the mean share of the months that the
        stock lasted; lasts, how often it does to the end.
    """
    rows, after, stock = moves(lake)
    team = np.broadcast_to(chances, (lake.n, *chances.shape[1:]))
    seats, months = np.arange(lake.n), lake.rules.months
    joint = [team[seats, rows[last]] for last in (0, 1)]  # (Z, n, W)
    both = [one[:, seats, lake.joint].prod(-1) for one in joint]  # (Z, J)
    at = np.zeros(len(stock))
    at[-len(stock) // len(lake.stocks)] = 1.0
    pay, survival, lasts = np.zeros(lake.n), 0.0, 0.0
    for month in range(months):
        last = month == months - 1
        flow = at[:, None] * both[last]
        pay += np.einsum("zj,zjn->n", flow, lake.got[stock])
        goes = flow * (after >= 0)
        good = flow.sum() if last else lake.rules.end * goes.sum()
        lasts += good
        survival += good + (0.0 if last else (month + 1) / months * (flow - goes).sum())
        at = np.zeros(len(stock))
        np.add.at(at, np.maximum(after, 0), goes * (1 - lake.rules.end))
    return {"pay": pay / lake.best, "survival": float(survival), "lasts": float(lasts)}


def best_gain(lake: Lake, chances: Table, seat: int) -> float:
    """What the best response to the other tables is paid, which knows the month; as in `worth`."""
    rows, after, stock = moves(lake)
    team = np.broadcast_to(chances, (lake.n, *chances.shape[1:]))
    others = [other for other in range(lake.n) if other != seat]
    own = np.eye(len(lake.amounts))[lake.joint[:, seat]]  # (J, W)
    value = np.zeros(len(stock))
    for month in reversed(range(lake.rules.months)):
        last = month == lake.rules.months - 1
        mine = team[np.array(others), rows[int(last)][:, others]]  # (Z, n - 1, W)
        chance = mine[:, np.arange(len(others)), lake.joint[:, others]].prod(-1)
        later = np.where(after < 0, 0.0, (1 - lake.rules.end) * value[after])
        value = ((chance * (lake.got[stock][..., seat] + later)) @ own).max(-1)
    return float(value[-len(stock) // len(lake.stocks)] / lake.best)


# -- what studies share ----------------------------------------------------------------------------
def sharing(lake: Lake, misses: float, tables: int, rng: np.random.Generator) -> Table:
    """Logits (tables, R, W) of a society that shares, and grabs once somebody took too much.

    Who sees a full stock, and nobody that took too much, takes its part of what keeps the stock.
    All others take everything, and so do all in the last month. With a chance of `misses` a seat
    does something else.
    """
    chances = np.full((lake.rows, len(lake.amounts)), misses / (len(lake.amounts) - 1))
    full = lake.row(len(lake.stocks) - 1, 0, 0)
    part = lake.amounts.index(lake.rules.enough(lake.rules.capacity) // lake.n)
    chances[:, -1] = 1 - misses
    chances[full, -1] = misses / (len(lake.amounts) - 1)
    chances[full, part] = 1 - misses
    return np.log(chances) + NOISE * rng.standard_normal((tables, *chances.shape))


def measured(lake: Lake, chances: Table, rng: np.random.Generator) -> dict[str, Any]:
    """Of a frozen team: what it is paid and how long the stock lasts, exactly; Gini, sampled."""
    exact = worth(lake, chances)
    team = np.broadcast_to(chances, (lake.n, *chances.shape[1:]))
    gap = best_gain(lake, chances, 0) - float(exact["pay"][0])
    return {
        "efficiency": round(float(exact["pay"].mean()), 4),
        "survival": round(exact["survival"], 4),
        "lasts": round(exact["lasts"], 4),
        "gini": gini_of(lake, team, rng),
        "gap": round(gap, 4),
    }
