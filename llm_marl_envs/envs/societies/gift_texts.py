"""What seats are told who give to each other, and how a gift is read.

A gift is a whole number that stands alone in exactly one line of a text, or behind `Action:`; where
seats may punish, `punish` and a number likewise. Rules are `gifts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.envs.societies.amounts import only
from llm_marl_envs.envs.societies.gifts import SPOILT, TAKES, Deed, Giving, Rules

AMOUNT = re.compile(r"(punish )?([0-9]{1,1000})")

WHO = "{n} people give to each other. You are {agent}. Each has {endowment} units at first."
GIVE = (
    "In each round all say at once how many of their units they give to one other person. The "
    "other gets {factor} for each unit. Whom you give to changes in each round, and somebody else "
    "gives to you. You are shown what the other did in the round before, and who gives to you is "
    "shown what you did. You are paid what you have at the end. Who names no number gives nothing "
    "and loses 1 in {spoilt} of its units, rounded up."
)
PUNISH = (
    "In place of giving you can punish: you spend units, and the other loses {takes} for each, if "
    "it has as many."
)
LASTS = "There are {rounds} rounds."
MAY_END = "Each round is the last one with a chance of {end:.0%}, and round {rounds} is for sure."
SAY_ANYTHING = "Round {number} of {rounds}. Talk, {turn} of {talk}."
NOW = "Round {number} of {rounds}. You have {have} units. You give to {other}, who has {has}."
SAY = "Answer with one line: how many you give, a whole number."
OR_PUNISH = "Answer with one line: how many you give, a whole number; or: punish, and a number."
GAVE = "{agent} gave {gave} of {had} to {other} in round {number}."
PUNISHED = "{agent} spent {spent} of {had} to punish {other} in round {number}."
LOST = "{agent} named no number and lost {lost} of {had} in round {number}."
LOST_OWN = "You named no number and lost {lost}."
NOW_LINE = re.compile(r"Round ([0-9]+) of [0-9]+\. You have ([0-9]+) .* who has ([0-9]+)\.")
DEED_LINE = re.compile(
    r"\w+ (gave|spent|named no number and lost) ([0-9]+) of ([0-9]+) .*in round [0-9]+\."
)


def brief(rules: Rules, agent: str) -> str:
    """The rules of the game, one to a line."""
    lines = [
        WHO.format(n=rules.seats, agent=agent, endowment=rules.endowment),
        GIVE.format(factor=rules.factor, spoilt=SPOILT),
        *([PUNISH.format(takes=TAKES)] if rules.punish else []),
        (MAY_END if rules.end else LASTS).format(rounds=rules.rounds, end=rules.end),
    ]
    return "\n".join(lines)


def deed_line(agent: str, deed: Deed, other: str, number: int) -> str:
    """A deed, as others are shown it."""
    form = PUNISHED if deed.spent else LOST if deed.lost else GAVE
    return form.format(
        agent=agent,
        gave=deed.gave,
        spent=deed.spent,
        lost=deed.lost,
        had=deed.had,
        other=other,
        number=number,
    )


def asks(game: Giving, seat: int, other: str, shown: Sequence[str]) -> str:
    """What is wanted of a seat in a round; `shown` are lines about the other."""
    rules, has = game.rules, game.wealth[game.other(seat)]
    have = game.wealth[seat]
    now = NOW.format(number=game.number, rounds=rules.rounds, have=have, other=other, has=has)
    return "\n".join([now, *shown, OR_PUNISH if rules.punish else SAY])


def gift_of(text: str, had: int, punish: bool) -> Deed | None:
    """What a text does; None where not exactly one of its lines is an amount.

    More than one has means all of it.
    """

    def deed(line: str) -> Deed | None:
        match = AMOUNT.fullmatch(line)
        if match is None or (match[1] and not punish):
            return None
        units = min(int(match[2]), had)
        return Deed(0, had, units) if match[1] else Deed(units, had)

    return only(text, deed)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a seat was told of a round.

    Attributes:
        number: of the round.
        had: units that it had.
        other: units of whom it gives to.
        chain: deeds of that one, of whom it gave to, and so on.
        got: what was done to it in the round before.
    """

    number: int
    had: int
    other: int
    chain: tuple[Deed, ...]
    got: tuple[Deed, ...]


def sights_of(texts: Sequence[str]) -> list[Sight]:
    """What a seat was told of each round, as `asks` and `deed_line` tell it, in order."""
    sights: list[Sight] = []
    before: list[Deed] = []
    lines = [line for text in texts for line in text.split("\n") if not line.startswith(QUOTE)]
    for line in lines:
        if match := NOW_LINE.fullmatch(line):
            number, had, other = map(int, match.groups())
            sights.append(Sight(number, had, other, (), tuple(before)))
            before = []
        elif line in (SAY, OR_PUNISH) and sights:
            last = sights[-1]
            sights[-1] = Sight(last.number, last.had, last.other, tuple(before), last.got)
            before = []
        elif match := DEED_LINE.fullmatch(line):
            units, had = int(match[2]), int(match[3])
            gave, spent = (units if match[1] == verb else 0 for verb in ("gave", "spent"))
            before.append(Deed(gave, had, spent, units - gave - spent))
    return sights
