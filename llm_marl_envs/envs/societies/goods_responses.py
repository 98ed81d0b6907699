"""What is earned beside scripts: by each of them, and by the best response to all others.

Exact, by dynamic programming over rounds and what scripts have in mind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from llm_marl_envs.envs.societies.goods import (
    Groups,
    Rules,
    Wishes,
    fined,
    group_of,
    incomes,
    pairings,
)
from llm_marl_envs.envs.societies.goods_scripts import Mind, Script

MOST_MOVES = 300_000
"""Amounts that can be tried, over all that scripts can have in mind; about 20 seconds."""
State = tuple[Mind, ...]
"""What each script has in mind."""


@dataclass(frozen=True)
class Response:
    """A best response.

    Attributes:
        pay: what it earns.
        amounts: what it gives round by round; () where partners are chosen, as the lot decides.
    """

    pay: float
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Move:
    """An amount of seat 0 in one state and group: what it pays, and what scripts then think."""

    own: int
    pay: float
    after: State


@dataclass(frozen=True, slots=True)
class _Choices:
    """All that seat 0 can do in a state: whom it can wish for, and what it can then give."""

    lots: list[dict[Groups, float]]
    moves: dict[Groups, list[_Move]]


def settled(
    rules: Rules, scripts: Sequence[Script | None], groups: Groups, given: Sequence[int]
) -> list[Fraction]:
    """What each seat is paid for a round; None punishes nobody."""
    earned = incomes(rules, groups, given)
    if not rules.punish:
        return earned
    fines = [
        script.fines(rules, given, groups, seat) if script else []
        for seat, script in enumerate(scripts)
    ]
    return [
        income - taken.spent - taken.lost
        for income, taken in zip(earned, fined(earned, fines), strict=True)
    ]


def _heard(
    rules: Rules, scripts: Sequence[Script], state: State, given: Sequence[int], groups: Groups
) -> State:
    return tuple(
        script.heard(rules, mind, given, groups)
        for script, mind in zip(scripts, state, strict=True)
    )


def _lots(rules: Rules, wishes: Wishes) -> dict[Groups, float]:
    """Who can play with whom, and how likely that is."""
    return pairings(wishes) if rules.choose else {rules.everybody: 1.0}


def _wishes(rules: Rules) -> Iterator[frozenset[int]]:
    """All that seat 0 can wish for."""
    others = range(1, rules.seats)
    for count in range(rules.seats) if rules.choose else [0]:
        yield from map(frozenset, combinations(others, count))


def _choices(rules: Rules, others: Sequence[Script], state: State, step: int) -> _Choices:
    """All that seat 0 can do in a state."""
    own = sorted({*range(0, rules.endowment, step), rules.endowment})
    minds = list(enumerate(zip(others, state, strict=True), start=1))
    wanted = [script.wishes(rules, mind, seat) for seat, (script, mind) in minds]
    lots = [_lots(rules, (wish, *wanted)) for wish in _wishes(rules)]
    moves: dict[Groups, list[_Move]] = {}
    for groups in {groups for lot in lots for groups in lot}:
        rest = [
            script.gives(rules, mind, seat, group_of(groups, seat))
            for seat, (script, mind) in minds
        ]
        moves[groups] = [
            _Move(
                amount,
                float(settled(rules, [None, *others], groups, [amount, *rest])[0]),
                _sorted(others, _heard(rules, others, state, [amount, *rest], groups)),
            )
            for amount in (own if len(group_of(groups, 0)) > 1 else own[:1])
        ]
    return _Choices(lots, moves)


def _sorted(others: Sequence[Script], state: State) -> State:
    """A state by which others who all follow the same script are in no order."""
    if len(set(others)) > 1:
        return state
    return tuple((*mind[:1], *sorted(mind[1:])) for mind in state)


def best_response(rules: Rules, others: Sequence[Script], step: int = 1) -> Response:
    """What seat 0 can earn at most beside scripts, and by what.

    Scripts heed what was given and not what was said, so talk changes nothing; nor do they heed who
    was punished, so to punish would only cost. The result is exact with `step=1`; else seat 0 gives
    multiples of it, or everything.

    Args:
        rules: of the game.
        others: the scripts of the other seats, in order.
        step: between the amounts that are tried.

    Raises:
        ValueError: another number of scripts, or more than `MOST_MOVES` can be tried.
    """
    if len(others) != rules.seats - 1:
        raise ValueError(f"others: expected {rules.seats - 1} scripts, got {len(others)}")
    start: State = ((),) * len(others)
    choices: dict[State, _Choices] = {}
    waiting, tried = {start}, 0
    while waiting:
        state = waiting.pop()
        choices[state] = _choices(rules, others, state, step)
        moves = [move for moves in choices[state].moves.values() for move in moves]
        tried += len(moves)
        if tried > MOST_MOVES:
            raise ValueError(
                f"step={step}: more than {MOST_MOVES} amounts can be tried; expected fewer; take a "
                "larger step, fewer seats or a smaller endowment"
            )
        waiting |= {move.after for move in moves} - choices.keys()
    values = [dict.fromkeys(choices, 0.0)]
    for _ in range(rules.rounds):
        values.append({at: _best(rules, all_of, values[-1]) for at, all_of in choices.items()})
    return Response(values[-1][start], () if rules.choose else _path(rules, choices, values, start))


def _worth(rules: Rules, move: _Move, later: dict[State, float]) -> float:
    return move.pay + (1 - rules.end) * later[move.after]


def _best(rules: Rules, choices: _Choices, later: dict[State, float]) -> float:
    """What the best wish and the best amounts earn from a state on."""
    worth = {
        groups: max(_worth(rules, move, later) for move in moves)
        for groups, moves in choices.moves.items()
    }
    return max(sum(part * worth[groups] for groups, part in lot.items()) for lot in choices.lots)


def _path(
    rules: Rules, choices: dict[State, _Choices], values: list[dict[State, float]], start: State
) -> tuple[int, ...]:
    """What seat 0 gives round by round; of amounts that pay the same, the largest."""
    state, amounts = start, []
    for later in reversed(values[:-1]):
        moves = choices[state].moves[rules.everybody]
        best = max(_worth(rules, move, later) for move in moves)
        move = [move for move in moves if _worth(rules, move, later) >= best - 1e-9][-1]
        amounts.append(move.own)
        state = move.after
    return tuple(amounts)


def meeting(rules: Rules, scripts: Sequence[Script]) -> list[float]:
    """What seats earn who each follow a script of their own, expected over what chance does."""
    earned, weight = [0.0] * rules.seats, 1.0
    states: dict[State, float] = {((),) * rules.seats: 1.0}
    for _ in range(rules.rounds):
        after: dict[State, float] = {}
        for state, chance in states.items():
            minds = list(enumerate(zip(scripts, state, strict=True)))
            wishes = tuple(script.wishes(rules, mind, seat) for seat, (script, mind) in minds)
            for groups, part in _lots(rules, wishes).items():
                given = [
                    script.gives(rules, mind, seat, group_of(groups, seat))
                    for seat, (script, mind) in minds
                ]
                for seat, pay in enumerate(settled(rules, scripts, groups, given)):
                    earned[seat] += weight * chance * part * float(pay)
                state_after = _heard(rules, scripts, state, given, groups)
                after[state_after] = after.get(state_after, 0.0) + chance * part
        states, weight = after, weight * (1 - rules.end)
    return earned
