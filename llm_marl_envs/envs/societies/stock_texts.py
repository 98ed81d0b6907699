"""What seats of a shared stock are told, and how a month's report is read back.

Skins say what the units are; those of a harm make the inverse form. Rules are `stock.py`, how an
amount is read is `amounts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.envs.societies.stock import LEAST, Rules

NAMED = re.compile(r"Named in month [0-9]+: (.+)\.")
NOW = re.compile(r"Now there are ([0-9]+) .*")


@dataclass(frozen=True, slots=True)
class Skin:
    """In what words the game is told.

    Attributes:
        place: what is shared.
        units: what is in it.
        verb: what seats do with units.
        harm: whether units are a harm.
    """

    place: str
    units: str
    verb: str
    harm: bool = False


SKINS: Mapping[str, Skin] = {
    "fish": Skin("a lake", "tons of fish", "catch"),
    "pasture": Skin("a pasture", "hectares of grass", "graze"),
    "pollution": Skin("a river", "units of clean water", "use up"),
    "weeds": Skin("a lake", "tons of weeds", "clear", harm=True),
    "thistles": Skin("a pasture", "hectares of thistles", "clear", harm=True),
    "waste": Skin("a river", "units of waste", "clear", harm=True),
}
"""The first three are the paper's."""

WHO = "{n} people share {place}. You are {agent}. There are {stock} {units} at first."
USE = (
    "In each month all say at once how many {units} they {verb}. What is left doubles, to "
    "{capacity} at most. Where less than {least} are left, nothing grows again and it is over. "
    "Where all together name more than there is, it is dealt one by one among those who still "
    "want. You are paid what you {verb}."
)
CLEAR = (
    "In each month all say at once how many {units} they {verb}, {strength} at most. What is left "
    "doubles, and {inflow} more come. Where that makes more than {capacity}, it is over. Where all "
    "together name more than there is, it is dealt one by one among those who still want. You are "
    "paid {strength} in each month in which you name an amount, less what you {verb}."
)
LASTS = "It lasts {months} months."
MAY_END = "Each month is the last one with a chance of {end:.0%}, and month {months} is for sure."
HINT = "If everybody names more than {units}, there is less in the next month."
HARM_HINT = "If everybody names less than {units}, there is more in the next month."
SAY_ANYTHING = "Month {month} of {months}. Talk, {turn} of {talk}."
SAY = "Month {month} of {months}. Answer with one line: how many you {verb}, a whole number."
REPORT = "Named in month {month}: {named}."
STATE = "Now there are {stock} {units}."


def brief(rules: Rules, skin: Skin, agent: str, stock: int) -> str:
    """The rules of the game, one to a line."""
    words = {"place": skin.place, "units": skin.units, "verb": skin.verb}
    who = WHO.format(n=rules.seats, agent=agent, stock=stock, **words)
    numbers = {
        "capacity": rules.capacity,
        "least": LEAST,
        "strength": rules.strength,
        "inflow": rules.inflow,
    }
    how = (CLEAR if rules.inverse else USE).format(**words, **numbers)
    lasts = MAY_END if rules.end else LASTS
    return "\n".join([who, how, lasts.format(months=rules.months, end=rules.end)])


def hint(rules: Rules, stock: int) -> str:
    """What would be if everybody did it: the sustainable amount of one seat."""
    total = rules.enough(stock)
    units = -(-total // rules.seats) if rules.inverse else total // rules.seats
    return (HARM_HINT if rules.inverse else HINT).format(units=units)


def report(month: int, named: Mapping[str, int], stock: int, skin: Skin) -> str:
    """What all named in a month, and what there is in the next."""
    amounts = ", ".join(f"{agent} {amount}" for agent, amount in named.items())
    return "\n".join(
        [REPORT.format(month=month, named=amounts), STATE.format(stock=stock, units=skin.units)]
    )


def months_of(texts: Sequence[str]) -> list[tuple[dict[str, int], int]]:
    """What all named in each month, and the stock after it, as `report` tells it."""
    months: list[tuple[dict[str, int], int]] = []
    named: dict[str, int] = {}
    for line in (line for text in texts for line in text.split("\n")):
        if line.startswith(QUOTE):
            continue
        if found := NAMED.fullmatch(line):
            pairs = (pair.rsplit(" ", 1) for pair in found[1].split(", "))
            named = {agent: int(amount) for agent, amount in pairs}
        elif found := NOW.fullmatch(line):
            months.append((named, int(found[1])))
    return months
