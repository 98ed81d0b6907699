"""What is earned beside scripts: by each of them, and by the best response to all others.

Exact, by dynamic programming over months, units and what a script keeps in mind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.societies.stock import Rules, insatiable
from llm_marl_envs.envs.societies.stock_numbers import growth
from llm_marl_envs.envs.societies.stock_scripts import Script

MOST_STATES = 60_000
"""Months with their stock and what a script then has in mind; about 20 seconds."""
State = tuple[int, int]
"""Units that there are, and what the script has in mind."""


@dataclass(frozen=True)
class Response:
    """A best response.

    Attributes:
        pay: what it earns.
        amounts: what it names month by month, as long as the game lasts.
    """

    pay: float
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Moves:
    """What seat 0 can name in one state: amounts, what each pays at once, and what follows."""

    own: list[int]
    gained: NDArray[np.float64]
    following: list[State]


def _moves(rules: Rules, month: int, state: State, script: Script, step: int) -> _Moves:
    """All that seat 0 can do in a state; a stock of -1 says that it is over."""
    stock, mind = state
    most = rules.most(stock)
    own = np.append(np.arange(0, most, step), most)
    others = [script.named(rules, month, stock, mind, seat) for seat in range(1, rules.seats)]
    got = np.minimum(own, float(insatiable(others, stock)))
    left = np.maximum(stock - own - sum(others), 0)
    heard = script.heard(rules, month, stock, mind, [own, *others[1:]])
    after, minds = growth(rules)[left].tolist(), np.broadcast_to(heard, own.shape).tolist()
    gained = rules.strength - got if rules.inverse else got
    return _Moves(own.tolist(), gained, list(zip(after, minds, strict=True)))


def best_response(rules: Rules, stock: int, script: Script, step: int = 1) -> Response:
    """What seat 0 can earn at most beside others who all follow a script, and by what.

    Scripts heed what was named and not what was said, so talk changes nothing. The result is exact
    with `step=1`; else seat 0 names multiples of it, or all that it can.

    Args:
        rules: of the game.
        stock: units in the first month.
        script: of all others.
        step: between the amounts that are tried.

    Raises:
        ValueError: more than `MOST_STATES` can be reached.
    """
    moves: list[dict[State, _Moves]] = []
    states = {(stock, 0)}
    for month in range(1, rules.months + 1):
        if sum(map(len, moves)) + len(states) > MOST_STATES:
            raise ValueError(
                f"step={step}: more than {MOST_STATES} states can be reached; expected fewer; take "
                "a larger step, fewer months or a smaller capacity"
            )
        moves.append({at: _moves(rules, month, at, script, step) for at in states})
        states = {to for one in moves[-1].values() for to in one.following if to[0] >= 0}
    values: dict[State, float] = {}
    best: list[dict[State, int]] = []
    for layer in reversed(moves):
        paid: dict[State, NDArray[np.float64]] = {}
        for at, one in layer.items():
            later = np.array([values.get(to, 0.0) for to in one.following])
            paid[at] = one.gained + (1 - rules.end) * later
        best.insert(0, {at: int(pays.argmax()) for at, pays in paid.items()})
        values = {at: float(pays.max()) for at, pays in paid.items()}
    amounts, at = [], (stock, 0)
    for layer, chosen in zip(moves, best, strict=True):
        amounts.append(layer[at].own[chosen[at]])
        at = layer[at].following[chosen[at]]
        if at[0] < 0:
            break
    return Response(values[stock, 0], tuple(amounts))


def meeting(rules: Rules, stock: int, scripts: Sequence[Script]) -> list[float]:
    """What seats earn who each follow a script of their own, expected over what chance does."""
    earned, weight = [0.0] * rules.seats, 1.0
    minds = [0] * rules.seats
    for month in range(1, rules.months + 1):
        named = [
            script.named(rules, month, stock, mind, seat)
            for seat, (script, mind) in enumerate(zip(scripts, minds, strict=True))
        ]
        for seat, own in enumerate(named):
            others = named[:seat] + named[seat + 1 :]
            earned[seat] += weight * rules.pay(min(own, insatiable(others, stock)))
        minds = [
            int(script.heard(rules, month, stock, mind, named[:seat] + named[seat + 1 :]))
            for seat, (script, mind) in enumerate(zip(scripts, minds, strict=True))
        ]
        after = rules.grown(max(0, stock - sum(named)))
        if after is None:
            break
        stock, weight = after, weight * (1 - rules.end)
    return earned
