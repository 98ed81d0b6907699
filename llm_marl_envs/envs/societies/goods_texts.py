"""What seats of a public good are told, and how wishes, fines and reports are read.

How an amount is read is `amounts.py`, rules are `goods.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.envs.societies.amounts import number_of, only
from llm_marl_envs.envs.societies.goods import CHOOSE, GIVE, TAKES, Fines, Groups, Rules
from llm_marl_envs.envs.societies.rounds import TALK

ANYBODY, NOBODY, ALONE = "anybody", "nobody", "alone"
GIVEN = re.compile(r"Given in round [0-9]+: (.+)\.")
TOGETHER = re.compile(r"Together in round [0-9]+: (.+)\.")

WHO = "{n} people play. You are {agent}."
HAVE = "In each round everybody has {endowment} units."
FUND = (
    "All say at once how many they give. What all give is multiplied by {factor} and divided "
    "equally among the {n}. You are paid what you keep, and your part."
)
PAIRS = (
    "First all name those with whom they would play. Two can play together where each names the "
    "other; the lot decides who does. Who plays alone keeps all units. Two who play together say "
    "at once how many they give. What both give is multiplied by {factor} and divided equally "
    "between them. You are paid what you keep, and your part."
)
SILENT = "Who names no amount is paid nothing in that round."
FINES = (
    "Then all can punish others at once. A unit costs you 1, and takes {takes} from whom you "
    "punish. "
    "In a round you can spend at most a half of your pay on it, and lose at most a half by it."
)
LASTS = "It lasts {rounds} rounds."
MAY_END = "Each round is the last one with a chance of {end:.0%}, and round {rounds} is for sure."
HEAD = "Round {round} of {rounds}. "
ASKS = {
    TALK: "Talk, {turn} of {talk}.",
    CHOOSE: "Answer with one line: names with commas between them, or anybody, or nobody.",
    GIVE: "Answer with one line: how many you give, a whole number.",
}
"""What is asked in a phase."""
FINE = (
    "Your pay is {pay}. Answer with one line: whom you punish and with how many units, as in "
    "NAME 2, NAME 1, or nobody."
)
PLAYS = "You play with {other}. "
PLAYS_ALONE = "You play alone, and keep all units if you name an amount. "
TOLD_GROUPS = "Together in round {round}: {groups}."
TOLD_GIVEN = "Given in round {round}: {given}."
TOLD_FINES = "Punished in round {round}: {fines}."


def brief(rules: Rules, agent: str) -> str:
    """The rules of the game, one to a line."""
    how = PAIRS if rules.choose else FUND
    lasts = MAY_END if rules.end else LASTS
    lines = [
        WHO.format(n=rules.seats, agent=agent),
        HAVE.format(endowment=rules.endowment),
        how.format(factor=shown(rules.factor), n=rules.seats),
        SILENT,
        *([FINES.format(takes=TAKES)] if rules.punish else []),
        lasts.format(rounds=rules.rounds, end=rules.end),
    ]
    return "\n".join(lines)


def shown(number: Fraction) -> str:
    """A number with two decimals at most."""
    return f"{float(number):.2f}".rstrip("0").rstrip(".")


def report_groups(number: int, groups: Groups, agents: Sequence[str]) -> str:
    """Who plays with whom in a round."""
    names = (" and ".join(agents[seat] for seat in group) for group in groups)
    return TOLD_GROUPS.format(round=number, groups=", ".join(names))


def report_given(number: int, given: Mapping[str, int | None]) -> str:
    """What everybody gave in a round; None: it was alone."""
    amounts = (f"{agent} {ALONE if own is None else own}" for agent, own in given.items())
    return TOLD_GIVEN.format(round=number, given=", ".join(amounts))


def report_fines(number: int, units: Mapping[str, int]) -> str:
    """With how many units everybody was punished who was."""
    fines = ", ".join(f"{agent} {count}" for agent, count in units.items() if count) or NOBODY
    return TOLD_FINES.format(round=number, fines=fines)


def given_in(texts: Sequence[str]) -> list[dict[str, int | None]]:
    """What everybody gave in each round, as `report_given` tells it."""
    rounds: list[dict[str, int | None]] = []
    for reported in _told(texts, GIVEN):
        pairs = (pair.rsplit(" ", 1) for pair in reported.split(", "))
        rounds.append({agent: None if own == ALONE else int(own) for agent, own in pairs})
    return rounds


def groups_in(texts: Sequence[str]) -> list[list[list[str]]]:
    """Who played with whom in each round, as `report_groups` tells it."""
    return [
        [group.split(" and ") for group in reported.split(", ")]
        for reported in _told(texts, TOGETHER)
    ]


def _told(texts: Sequence[str], form: re.Pattern[str]) -> list[str]:
    """What lines of a form say that nobody quotes."""
    lines = (line for text in texts for line in text.split("\n") if not line.startswith(QUOTE))
    return [match[1] for line in lines if (match := form.fullmatch(line))]


def wishes_of(text: str, others: Sequence[str]) -> frozenset[str] | None:
    """Those whom a text names; None where not exactly one of its lines names some.

    Such a line has names of others with commas between them, none of them twice, or `anybody`, or
    `nobody`.
    """

    def form(line: str) -> frozenset[str] | None:
        if line in (ANYBODY, NOBODY):
            return frozenset(others if line == ANYBODY else ())
        names = [name.strip() for name in line.split(",")]
        fits = len(set(names)) == len(names) and set(names) <= set(others)
        return frozenset(names) if fits else None

    return only(text, form)


def fines_of(text: str, others: Sequence[str]) -> list[tuple[str, int]] | None:
    """Whom a text punishes, and with how many units; None where not exactly one line is a form.

    Such a line has names of others, each with a whole number behind it and commas between them,
    none of them twice, or `nobody`.
    """

    def form(line: str) -> list[tuple[str, int]] | None:
        if line == NOBODY:
            return []
        fines: dict[str, int] = {}
        for part in line.split(","):
            name, _, number = part.strip().rpartition(" ")
            units = number_of(number)
            if units is None or name.strip() not in others or name.strip() in fines:
                return None
            fines[name.strip()] = units
        return [*fines.items()]

    return only(text, form)


def wish_text(named: Sequence[str], others: Sequence[str]) -> str:
    """A wish as experts write it."""
    if len(named) == len(others):
        return ANYBODY
    return ", ".join(named) or NOBODY


def fine_text(fines: Fines, agents: Sequence[str]) -> str:
    """Fines as experts write them."""
    return ", ".join(f"{agents[seat]} {units}" for seat, units in fines) or NOBODY
