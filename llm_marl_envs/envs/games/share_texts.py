"""What players who divide things write and read: claims, announcements, choices.

    lamp 4, rope 1, book 3     a claim: what each thing is worth to who says it
    I take lamp, book.         an announcement
    lamp, book                 a choice

Only a choice is paid, in the last turn. Claims and announcements are the scripted experts' form of
talk; any other text may be said instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from llm_marl_envs.core.actions import MARK
from llm_marl_envs.core.parsing import answer_of, lines_of
from llm_marl_envs.envs.games.share_tasks import NOTHING

Choice = frozenset[str]
"""The things that a player takes."""
Claim = tuple[int, ...]
"""What each thing is worth, in the order of the task."""
WORTH = re.compile(r"([a-z]{1,20}) ([0-9]{1,4})(?![0-9])")
ANNOUNCE = "I take {choice}."
ANNOUNCED = re.compile(r"i take (.{1,400})\.", re.IGNORECASE)


def choice_text(taken: Collection[str], things: Sequence[str]) -> str:
    """A choice in the documented form, things in the order of the task."""
    return ", ".join(thing for thing in things if thing in taken) or NOTHING


def claim_text(values: Sequence[int], things: Sequence[str]) -> str:
    """A claim as experts make it."""
    return ", ".join(f"{thing} {value}" for thing, value in zip(things, values, strict=True))


def announcement(taken: Collection[str], things: Sequence[str]) -> str:
    """An announcement as experts make it."""
    return ANNOUNCE.format(choice=choice_text(taken, things))


def read_choice(text: str, things: Sequence[str]) -> Choice | None:
    """The things that a text takes; None where not exactly one of its lines is a choice.

    A choice is a line of things alone, with commas or spaces between them, or of `nothing`; or so
    behind `Action:`. Case, and a full stop at the end, are ignored. What stands before `</think>`
    is not read.
    """
    choices = [
        choice
        for line in lines_of(answer_of(text))
        if (choice := _choice_of(line.strip().lower().removeprefix(MARK), things)) is not None
    ]
    return choices[0] if len(choices) == 1 else None


def _choice_of(line: str, things: Sequence[str]) -> Choice | None:
    words = line.strip().removesuffix(".").replace(",", " ").split()
    if words == [NOTHING]:
        return frozenset()
    return frozenset(words) if words and set(words) <= set(things) else None


def read_claim(text: str, things: Sequence[str]) -> Claim | None:
    """What a text says that things are worth; None where it leaves one out or says one twice."""
    pairs = [pair for pair in WORTH.findall(answer_of(text).lower()) if pair[0] in things]
    worth: Mapping[str, str] = dict(pairs)
    if len(pairs) != len(things) or len(worth) != len(things):
        return None
    return tuple(int(worth[thing]) for thing in things)


def read_announcement(text: str, things: Sequence[str]) -> Choice | None:
    """What a text announces to take; None where not exactly one of its lines announces."""
    lines = (ANNOUNCED.fullmatch(line.strip()) for line in lines_of(answer_of(text)))
    choices = [_choice_of(line[1].lower(), things) for line in lines if line]
    return choices[0] if len(choices) == 1 else None
