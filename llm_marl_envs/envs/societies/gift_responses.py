"""Best responses to scripts of giving, and what seats earn who follow scripts.

A best response knows who meets whom, which a seat in an episode does not: so it earns at least what
any seat can. Seats are numbers; pay is in units at the end, expected over when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.envs.societies.gift_scripts import GRIM, Script
from llm_marl_envs.envs.societies.gifts import TAKES, Deed, Giving, Meetings, Rules

MOST_STATES = 60_000
"""Rounds with what there is and what is known of it; about 20 seconds."""


@dataclass(frozen=True)
class Response:
    """A best response.

    Attributes:
        pay: what it expects.
        deeds: what it does round by round, as long as the game lasts.
    """

    pay: float
    deeds: tuple[Deed, ...]


State = tuple[Giving, tuple[bool, ...]]
"""A game between two rounds, and what the script of each seat bears in mind."""


@dataclass(frozen=True)
class Society:
    """Seats who follow scripts.

    Attributes:
        rules: of the game.
        to: who gives to whom, as `gifts.meetings` draws it.
        scripts: of each seat.
        depth: how many deeds are shown of the one that a seat gives to.
    """

    rules: Rules
    to: Meetings
    scripts: Sequence[Script]
    depth: int = 1

    def begin(self) -> State:
        """Before the first round."""
        return Giving.begin(self.rules, self.to), (False,) * self.rules.seats

    def deeds(self, state: State) -> tuple[Deed, ...]:
        """What seats do by their scripts."""
        game, wronged = state
        return tuple(
            script.deed(game.wealth[seat], game.wealth[game.other(seat)], chain, wronged[seat])
            for seat, script in enumerate(self.scripts)
            for chain in [self._chain(game, seat)]
        )

    def after(self, state: State, deeds: tuple[Deed, ...]) -> State:
        """What a round leads to."""
        game, wronged = state
        if any(script.plan == GRIM for script in self.scripts):
            giver = {game.other(seat): seat for seat in range(self.rules.seats)}
            wronged = tuple(
                script.heeds([*self._chain(game, seat), deeds[giver[seat]]], bore)
                for seat, (script, bore) in enumerate(zip(self.scripts, wronged, strict=True))
            )
        return game.after(deeds), wronged

    def _chain(self, game: Giving, seat: int) -> list[Deed]:
        return [deed for _, deed, _ in game.shown(seat, self.depth)]


def meeting(society: Society) -> list[float]:
    """What each seat expects."""
    rules, state = society.rules, society.begin()
    paid, weight = [0.0] * rules.seats, 1.0
    for number in range(1, rules.rounds + 1):
        state = society.after(state, society.deeds(state))
        ends = weight * rules.ends(number)
        paid = [total + ends * units for total, units in zip(paid, state[0].wealth, strict=True)]
        weight -= ends
    return paid


def best_response(society: Society, seat: int = 0, parts: int = 2) -> Response:
    """What a seat can earn at most beside others who follow their scripts, and by what.

    It tries nothing, everything, equal parts of what it has, what each script demands and one unit
    less; and to punish by one unit, and by what takes all that the other has. That is exact but for
    roundings where the others give a fixed share or nothing: then what a seat has at the end is
    linear in its gifts as long as it is judged alike, so that one of the best ones is at an end of
    what is judged alike. With `parts` of all that it can have, it tries every amount.

    Args:
        society: the game; the seat's own script is not looked at.
        seat: who responds.
        parts: of what it has.

    Raises:
        ValueError: more than `MOST_STATES` can be reached.
    """
    ends = society.rules.ends
    best: dict[Any, tuple[float, Deed]] = {}

    def value(state: State) -> float:
        game = state[0]
        key = (game.number, game.wealth, game.past[: society.depth], state[1])
        if key not in best:
            if len(best) >= MOST_STATES:
                raise ValueError(
                    f"parts={parts}: more than {MOST_STATES} states can be reached; expected "
                    "fewer; take fewer parts or fewer rounds"
                )
            best[key] = (-1.0, Deed(0, 0))  # counted before those that it leads to
            others, last = society.deeds(state), ends(game.number)
            for own in _choices(society, game, seat, parts):
                after = society.after(state, (*others[:seat], own, *others[seat + 1 :]))
                later = (1 - last) * value(after) if last < 1 else 0.0
                paid = last * after[0].wealth[seat] + later
                best[key] = max(best[key], (paid, own), key=lambda pair: pair[0])
        return best[key][0]

    state, deeds = society.begin(), []
    pay = value(state)
    for _ in range(society.rules.rounds):
        game = state[0]
        own = best[game.number, game.wealth, game.past[: society.depth], state[1]][1]
        others = society.deeds(state)
        state = society.after(state, (*others[:seat], own, *others[seat + 1 :]))
        deeds.append(own)
    return Response(pay, tuple(deeds))


def _choices(society: Society, game: Giving, seat: int, parts: int) -> list[Deed]:
    """What a seat tries, smaller gifts first."""
    had, other = game.wealth[seat], game.wealth[game.other(seat)]
    shares = {script.share for script in society.scripts}
    least = {-(-share.numerator * had // share.denominator) for share in shares}
    gifts = {*least, *(units - 1 for units in least if units)}
    gifts |= {had * part // parts for part in range(parts + 1)}
    spent = {1, -(-other // TAKES)} if society.rules.punish else set()
    deeds = [Deed(gave, had) for gave in sorted(gifts)]
    return deeds + [Deed(0, had, units) for units in sorted(spent) if 0 < units <= had]
