"""The giving of `donor-v0` for seats that are softmax tables: sampled many at once, and exact.

A seat gives nothing, a half or all of what it has. Its table sees what `trace=2` shows of the one
it gives to: what that one gave in its last round, and what the one before, whom it gave that to,
had given a round earlier; what is not known counts as all. It also sees whether this round is the
last one, and no other number: so a table cannot tell an early round from a late one. Who gives to
whom is fixed, and no gift comes back to its giver by others: then what two neighbours have and do
is independent as far as `_last_two` needs it. The rules are those of `gifts.py`; a test plays them
beside the environment. Endowments are 1, and pay is a share of the social optimum.

Shapes: n seats, T rounds, R rows of a table, W amounts, J = W^n, N episodes or histories.
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
from llm_marl_envs.envs.societies.gift_numbers import optimum
from llm_marl_envs.envs.societies.gifts import Meetings, Rules, meetings
from llm_marl_envs.envs.societies.reputation import Norm

PARTS = np.array([0.0, 0.5, 1.0])
NOTHING, HALF, ALL = range(3)
History = tuple[Table, NDArray[np.int64], NDArray[np.int64]]
"""Before a round: what each has, what each gave in the last round and in the one before; (N, n)."""


@dataclass(frozen=True)
class Circle:
    """A game of at least three rounds.

    Attributes:
        rules: with an endowment of 1.
        draw: from which follows who gives to whom.

    Raises:
        ValueError: gifts come back to their givers, or fewer than three rounds.
    """

    rules: Rules
    draw: int

    def __post_init__(self) -> None:
        if self.turns < 3 or any(map(self._comes_back, range(self.turns))):
            raise ValueError(
                f"draw={self.draw}, rounds={self.turns}: a gift comes back to its giver, or there "
                "are fewer than three rounds; expected neither"
            )

    @property
    def n(self) -> int:
        """Seats."""
        return self.rules.seats

    @property
    def turns(self) -> int:
        """Rounds of the longest episode."""
        return self.rules.rounds

    @property
    def rows(self) -> int:
        """Of a table: a deed, one before it, whether the round is the last one."""
        return len(PARTS) ** 2 * 2

    @cached_property
    def to(self) -> Meetings:
        """Who gives to whom in each round."""
        return meetings(self.draw, self.n, self.turns)

    @cached_property
    def givers(self) -> NDArray[np.int64]:
        """(T, n): who gives to each."""
        return np.argsort(self.to, axis=1)

    @cached_property
    def best(self) -> float:
        """What a seat has in the social optimum."""
        return optimum(self.rules)

    def _comes_back(self, first: int) -> bool:
        """Whether who is given to in this round gives to the giver's own, or so on."""
        at = np.array(self.to[first])
        for row in self.to[first + 1 :]:
            at = np.array(row)[at]
            if (at == np.arange(self.n)).any():
                return True
        return False

    def seen(self, number: int, deeds: Any, before: Any) -> NDArray[np.int64]:
        """(N, n): the rows that seats see in a round, from 0; deeds (N, n) of the last two."""
        other = np.array(self.to[number])
        whom = np.array(self.to[number - 1])[other] if number else other
        last = number == self.turns - 1
        return (deeds[:, other] * len(PARTS) + before[:, whom]) * 2 + last

    def settled(self, number: int, wealth: Table, parts: Table) -> Table:
        """(N, n): what each has after a round in which it gives such parts; or expects to have."""
        gave = wealth * parts
        return wealth - gave + self.rules.factor * gave[:, self.givers[number]]

    def play(
        self, chances: Table, count: int, rng: np.random.Generator, known: Known | None = None
    ) -> Played:
        """Episodes of a team; chances (seats, R, W)."""
        seen, said = np.zeros((2, count, self.n, self.turns), int)
        paid, alive = np.zeros(seen.shape), np.zeros((count, self.turns), bool)
        wealth, going = np.ones((count, self.n)), np.ones(count, bool)
        deeds, before = np.full((2, count, self.n), ALL)
        for number in range(self.turns):
            seen[..., number] = self.seen(number, deeds, before)
            rows = chances[np.arange(self.n), seen[..., number]]
            said[..., number] = drawn(rows, rng.random((count, self.n)))
            given = np.zeros(count, bool) if known is None else number < known[1]
            if known is not None:
                said[given, :, number] = known[0][given, :, number]
            deeds, before = said[..., number], deeds
            after = self.settled(number, wealth, PARTS[deeds])
            units = after - wealth * (number > 0)  # the endowment is paid in the first round
            paid[..., number] = np.where(going[:, None], units / self.best, 0.0)
            alive[:, number] = going
            wealth, going = after, going & (given | (rng.random(count) >= self.rules.end))
        return Played(seen, said, paid, alive)

    # -- exact -------------------------------------------------------------------------------------
    @cached_property
    def joint(self) -> NDArray[np.int64]:
        """(J, n): numbers of amounts."""
        return np.array([*product(range(len(PARTS)), repeat=self.n)])

    @cached_property
    def histories(self) -> list[History]:
        """Before each round but the last one: all J^t that there can be."""
        first = np.full((1, self.n), ALL)
        found: list[History] = [(np.ones((1, self.n)), first, first)]
        for number in range(self.turns - 2):
            wealth, deeds, _ = found[-1]
            new = np.tile(self.joint, (len(wealth), 1))
            had = wealth.repeat(len(self.joint), axis=0)
            after = self.settled(number, had, PARTS[new])
            found.append((after, new, deeds.repeat(len(self.joint), axis=0)))
        return found


def _last_two(circle: Circle, own: Table, last: Table) -> Table:
    """(N, n + 1): what is expected before the last two rounds: pay, and parts given, mean of seats.

    Args:
        circle: the game.
        own: (N, n, W) chances in the first of both.
        last: (n, R, W) tables in the second.
    """
    number, end = circle.turns - 2, circle.rules.end
    wealth, deeds, _ = circle.histories[-1]
    first = own @ PARTS
    then = circle.settled(number, wealth, first)
    other = np.array(circle.to[number + 1])
    earlier = deeds[:, np.array(circle.to[number])[other]]
    second = np.zeros_like(first)
    for deed in range(len(PARTS)):
        rows = (deed * len(PARTS) + earlier) * 2 + 1
        second += own[:, other, deed] * (last[np.arange(circle.n), rows] @ PARTS)
    pay = end * then + (1 - end) * circle.settled(number + 1, then, second)
    given = first.mean(1) + (1 - end) * second.mean(1)
    return np.column_stack([pay, given])


def _before(circle: Circle, number: int, team: Table) -> Table:
    """(N, n, W): the chances of what seats do in a round, after each history."""
    _, deeds, before = circle.histories[number]
    return team[np.arange(circle.n), circle.seen(number, deeds, before)]


def worth(circle: Circle, team: Table) -> dict[str, Any]:
    """What a team of tables (n, R, W) is paid, exactly.

    Returns:
        pay (n,) as a share of the social optimum; giving, the mean part of what it has that a seat
        gives, over rounds that are played.
    """
    end, seats = circle.rules.end, np.arange(circle.n)
    value = _last_two(circle, _before(circle, circle.turns - 2, team), team)
    for number in reversed(range(circle.turns - 2)):
        own = _before(circle, number, team)
        chance = own[:, seats, circle.joint].prod(-1)  # (N, J)
        paid = end * circle.histories[number + 1][0]
        later = (1 - end) * value + np.column_stack([paid, np.zeros(len(paid))])
        value = np.einsum("kj,kjn->kn", chance, later.reshape(*chance.shape, -1))
        value[:, -1] += (own @ PARTS).mean(1)
    rounds = sum((1 - end) ** number for number in range(circle.turns))
    return {"pay": value[0, :-1] / circle.best, "giving": float(value[0, -1] / rounds)}


def best_gain(circle: Circle, team: Table, seat: int) -> float:
    """What a best response to the other tables is paid, as in `worth`.

    It knows who meets whom, the round, and all that everybody did and has.
    """
    end, others = circle.rules.end, np.array([k for k in range(circle.n) if k != seat])
    keeps, words = team.copy(), np.eye(len(PARTS))
    keeps[seat] = words[NOTHING]
    own = _before(circle, circle.turns - 2, team)
    each = []
    for word in words:
        own[:, seat] = word
        each.append(_last_two(circle, own, keeps)[:, seat])
    value = np.max(each, axis=0)
    mine = words[circle.joint[:, seat]]  # (J, W)
    for number in reversed(range(circle.turns - 2)):
        chance = _before(circle, number, team)[:, others, circle.joint[:, others]].prod(-1)
        later = end * circle.histories[number + 1][0][:, seat] + (1 - end) * value
        value = ((chance * later.reshape(chance.shape)) @ mine).max(-1)
    return float(value[0] / circle.best)


# -- what studies share ----------------------------------------------------------------------------
def row(deed: int, before: int = ALL, last: bool = False) -> int:
    """The row of a table that sees this."""
    return (deed * len(PARTS) + before) * 2 + last


def society(norm: Norm | None, misses: float, n: int, rng: np.random.Generator) -> Table:
    """Logits (n, R, W) of tables that give all to the good, and nothing to others or at the end.

    Args:
        norm: says who is good; generous is who gave all. None: nobody is.
        misses: the chance that a seat does something else.
        n: tables.
        rng: draws a little noise.
    """
    chances = np.full((2 * len(PARTS) ** 2, len(PARTS)), misses / 2)
    for deed, before in product(range(len(PARTS)), repeat=2):
        good = norm is not None and norm.image([deed == ALL, before == ALL])
        chances[row(deed, before), ALL if good else NOTHING] = 1 - misses
        chances[row(deed, before, last=True), NOTHING] = 1 - misses
    return np.log(chances) + NOISE * rng.standard_normal((n, *chances.shape))


def measured(circle: Circle, team: Table, rng: np.random.Generator) -> dict[str, Any]:
    """Of a frozen team: pay, giving and the gain of a best response, exactly; Gini, sampled.

    `to_good` and `to_bad` are what tables give to who gave all to a giver, or nothing.
    """
    exact = worth(circle, team)
    gap = best_gain(circle, team, 0) - float(exact["pay"][0])
    return {
        "efficiency": round(float(exact["pay"].mean()), 4),
        "giving": round(exact["giving"], 4),
        "to_good": round(float((team[:, row(ALL)] @ PARTS).mean()), 4),
        "to_bad": round(float((team[:, row(NOTHING)] @ PARTS).mean()), 4),
        "gini": gini_of(circle, team, rng),
        "gap": round(gap, 4),
    }
