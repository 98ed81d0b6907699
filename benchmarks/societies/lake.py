"""The stock of `commons-v0` for seats that are softmax tables: sampled many at once, and exact.

Seats name one of a few amounts. A table sees how much there is, how many of the others took more
than their part in the month before, and whether this month is the last one. So the game is small:
what a team of tables is paid is exact, and so is the gradient of tables that see month and stock.
The rules are those of `stock.py`; a test plays them beside the environment.

Shapes: n seats, T months, S stocks, R rows of a table, W amounts, J = W^n, N episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.common import Optimizer, drawn, inputs_of, slopes
from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup, StopReason
from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.societies.stock import Rules, level
from llm_marl_envs.envs.societies.stock_numbers import optimum
from llm_marl_envs.measure.numbers.society import gini
from trainers.batch.returns import discounted_returns

Table = NDArray[np.float64]
EPISODES = 200
"""Sampled for the Gini coefficient."""
Known = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Amounts (N, n, T) that are given, and the month (N,) from which on each episode is drawn."""


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


# -- sampled ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Played:
    """Episodes.

    Attributes:
        seen: (N, n, T) rows.
        said: (N, n, T) amounts' numbers.
        paid: (N, n, T) rewards as the environment pays them.
        alive: (N, T) whether there was such a month.
        lasted: (N,) whether the stock lasted to the end.
    """

    seen: NDArray[np.int64]
    said: NDArray[np.int64]
    paid: Table
    alive: NDArray[np.bool_]
    lasted: NDArray[np.bool_]


def play(
    lake: Lake, chances: Table, n: int, rng: np.random.Generator, known: Known | None = None
) -> Played:
    """Episodes of a team; chances (seats, R, W)."""
    months, seats = lake.rules.months, np.arange(lake.n)
    seen, said = np.zeros((2, n, lake.n, months), int)
    paid, alive = np.zeros((n, lake.n, months)), np.zeros((n, months), bool)
    stock, bad = np.full(n, len(lake.stocks) - 1), np.zeros((n, lake.n), bool)
    going, lasted = np.ones(n, bool), np.ones(n, bool)
    powers = len(lake.amounts) ** seats[::-1]
    for month in range(months):
        last = month == months - 1
        others = bad.sum(1, keepdims=True) - bad
        seen[..., month] = lake.row(stock[:, None], others, last)
        said[..., month] = drawn(chances[seats, seen[..., month]], rng.random((n, lake.n)))
        given = np.zeros(n, bool) if known is None else month < known[1]
        if known is not None:
            said[given, :, month] = known[0][given, :, month]
        each, over, after = lake.levels[stock, said[..., month] @ powers].T
        units = dealt_all(lake, said[..., month], stock, (each, over), rng)
        paid[..., month] = np.where(going[:, None], units / lake.best, 0.0)
        alive[:, month] = going
        bad = lake.over[stock[:, None], said[..., month]]
        lasted &= ~going | last | (after >= 0)
        goes_on = given | (rng.random(n) >= lake.rules.end)
        going, stock = going & (after >= 0) & goes_on, np.maximum(after, 0)
    return Played(seen, said, paid, alive, lasted)


def dealt_all(
    lake: Lake, said: Any, stock: Any, how_far: tuple[Any, Any], rng: np.random.Generator
) -> NDArray[np.int64]:
    """(N, n): units that each seat gets; those left over go to random ones who want more."""
    named = np.minimum(np.array(lake.amounts)[said], np.array(lake.stocks)[stock][:, None])
    each, over = (one[:, None] for one in how_far)
    more = named > each
    lots = np.where(more, rng.random(named.shape), 2.0).argsort(1).argsort(1)
    return np.minimum(named, each) + (more & (lots < over))


@cache
def family(group: int, months: int) -> EpisodeGroup:
    """Who leaves whom: planned episodes, then each one's endings from month 1, 2 and so on."""
    one = Episode(
        env_id="",
        env_kwargs={},
        task_id="",
        seed=0,
        agents=(),
        turns=(),
        stop_reason=StopReason.TERMINATED,
        success=None,
    )
    endings = [
        replace(one, branch=Branch(parent=parent, agent="", turn=turn))
        for parent in range(group)
        for turn in range(1, months)
    ]
    return EpisodeGroup(task_id="", seed=0, episodes=(*[one] * group, *endings))


def slope_of(
    lake: Lake, logits: Table, algorithm: Any, rng: np.random.Generator, temperature: float = 1.0
) -> Table:
    """(tables, R, W): ascent direction from one sampled group; one table: all seats share it.

    What is sampled and scored is the softmax of logits / temperature.
    """
    group, months = algorithm.args.num_generations, lake.rules.months
    chances = softmax(logits / temperature)
    team = np.broadcast_to(chances, (lake.n, *chances.shape[1:]))
    first = play(lake, team, group, rng)
    paid, alive = first.paid, first.alive
    if algorithm.branching:
        ends = np.tile(np.arange(1, months), group)
        before = first.said.repeat(months - 1, axis=0)
        more = play(lake, team, len(ends), rng, (before, ends))
        paid, alive = np.concatenate([paid, more.paid]), np.concatenate([alive, more.alive])
    if algorithm.args.credit == "team":
        paid = np.broadcast_to(paid.mean(1, keepdims=True), paid.shape)
    there = np.broadcast_to(alive[:, None], paid.shape)[None]
    returns = discounted_returns(paid[None], there, algorithm.args.discount)
    inputs = replace(inputs_of(returns, paid[None]), alive=there)
    if algorithm.branching:
        inputs = replace(inputs, groups=(family(group, months),))
    weighed = (algorithm.advantages(inputs) * there)[0, :group]
    slope = np.zeros_like(logits)
    for seat in range(lake.n):
        table = seat % len(logits)
        seen, said = first.seen[:, seat], first.said[:, seat]
        along = slopes(chances[table][seen], said) * weighed[:, seat, :, None]
        np.add.at(slope[table], seen.ravel(), along.reshape(-1, slope.shape[-1]) / group)
    return slope / temperature


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


def learned(
    lake: Lake, logits: Table, algorithm: Any, how: Mapping[str, float], rng: np.random.Generator
) -> Table:
    """The logits after `how["updates"]` updates of Adam, with its `rate` and `temperature`."""
    optimizer = Optimizer("adam", how["rate"])
    for _ in range(int(how["updates"])):
        slope = slope_of(lake, logits, algorithm, rng, how.get("temperature", 1.0))
        logits = logits + optimizer.step(slope)
    return logits


def measured(lake: Lake, chances: Table, rng: np.random.Generator) -> dict[str, Any]:
    """Of a frozen team: what it is paid and how long the stock lasts, exactly; Gini, sampled."""
    exact = worth(lake, chances)
    team = np.broadcast_to(chances, (lake.n, *chances.shape[1:]))
    of_each = [gini(pay) for pay in play(lake, team, EPISODES, rng).paid.sum(2)]
    gap = best_gain(lake, chances, 0) - float(exact["pay"][0])
    return {
        "efficiency": round(float(exact["pay"].mean()), 4),
        "survival": round(exact["survival"], 4),
        "lasts": round(exact["lasts"], 4),
        "gini": round(float(np.mean([one for one in of_each if one is not None])), 4),
        "gap": round(gap, 4),
    }
