"""What a person knows, what a question asks of it, and what an answer says. Pure functions.

Owns how texts are read. What follows from the facts is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from llm_marl_envs.core.parsing import answer_of, lines_of

NOT_KNOWN = "Not known."
MAX_VALUE_CHARS = 200
INPUT = re.compile(r"\(\s*([0-9]{1,3})\s*\)")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that can be asked for.

    Attributes:
        name: how an answer calls it; a question may, too.
        values: what it can be, or what it is where nothing else is known of it.
        words: what else names it in a question, in lower case.
    """

    name: str
    values: tuple[str, ...]
    words: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Of the name alone: facts are keys at every step, and have many values."""
        return hash(self.name)


@dataclass(frozen=True)
class Record:
    """What the person knows.

    Attributes:
        facts: what can be asked for.
        values: what each is.
        complaint: places of the facts that the asker is told first.
    """

    facts: tuple[Fact, ...]
    values: tuple[str, ...]
    complaint: tuple[int, ...]

    @cached_property
    def opening(self) -> dict[int, str]:
        """Place -> value of what the asker is told first."""
        return {place: self.values[place] for place in self.complaint}

    def line(self, place: int) -> str:
        """One fact as the scripted person says it."""
        return said(self.facts[place], self.values[place])

    def lines(self, places: Iterable[int] | None = None) -> str:
        """Some facts, or all, one in a line."""
        return "\n".join(map(self.line, range(len(self.facts)) if places is None else places))

    def reply(self, question: str) -> str:
        """What the scripted person says: the first fact that a question names, and no more."""
        place = asked_fact(question, self.facts)
        return NOT_KNOWN if place is None else self.line(place)


def said(fact: Fact, value: str) -> str:
    """A fact in the form of an answer."""
    return f"{fact.name}: {value}"


def question_of(text: str) -> str:
    """The question in a text: its last line with a question mark, else its last line."""
    lines = [line.strip() for line in lines_of(answer_of(text)) if line.strip()]
    asking = [line for line in lines if "?" in line]
    return (asking or lines or [""])[-1]


def asked_fact(text: str, facts: tuple[Fact, ...]) -> int | None:
    """The place of the fact that the question in a text names first; None where it names none."""
    pattern, places = _names(facts)
    match = pattern.search(INPUT.sub(r"(\1)", question_of(text).lower()))
    return None if match is None else places[match[0]]


def stated_facts(text: str, facts: tuple[Fact, ...], asked: int | None = None) -> dict[int, str]:
    """Place -> value of what an answer says.

    Args:
        text: model text.
        facts: what can be said.
        asked: the fact that was asked for. An answer may leave it unnamed: it begins with a value
            ("Yes, it does."), or holds exactly one.
    """
    shown = INPUT.sub(r"(\1)", answer_of(text).lower())
    stated: dict[int, str] = {}
    for name, rest in _statements(facts).findall(shown):
        place = _names(facts)[1][name]
        value = _value(facts[place], rest)
        if value is not None:
            stated.setdefault(place, value)
    if asked is not None and asked not in stated:
        begun = _value(facts[asked], shown.strip())
        values = [begun] if begun else _values_in(facts[asked], shown)
        if len(values) == 1:
            stated[asked] = values[0]
    return stated


def true_facts(stated: Mapping[int, str], record: Record) -> dict[int, str]:
    """Those of the facts that are as the record has them."""
    return {place: value for place, value in stated.items() if record.values[place] == value}


def names_one_of(text: str, names: tuple[str, ...]) -> bool:
    """Whether a text says one of some names, as a word."""
    return bool(names) and _any_word(names).search(answer_of(text).lower()) is not None


def _value(fact: Fact, text: str) -> str | None:
    """The value with which a text begins; the longest where one begins with another."""
    begun = [value for value in fact.values if text.startswith(value.lower())]
    whole = [value for value in begun if not text[len(value.lower()) :][:1].isalnum()]
    return max(whole, key=len, default=None)


def _values_in(fact: Fact, text: str) -> list[str]:
    """The values that a text holds, each once."""
    words = set(_any_word(fact.values).findall(text))
    return [value for value in fact.values if value.lower() in words]


@lru_cache(maxsize=1024)
def _any_word(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{_any_of(word.lower() for word in words)})(?!\w)")


@lru_cache(maxsize=256)
def _names(facts: tuple[Fact, ...]) -> tuple[re.Pattern[str], dict[str, int]]:
    places: dict[str, int] = {}
    for place, fact in enumerate(facts):
        for word in (fact.name.lower(), *fact.words):
            places.setdefault(word, place)
    return _any_word(tuple(places)), places


@lru_cache(maxsize=256)
def _statements(facts: tuple[Fact, ...]) -> re.Pattern[str]:
    return re.compile(
        rf"(?<!\w)({_any_of(_names(facts)[1])})[^\S\n]*:[^\S\n]*(?=(.{{0,{MAX_VALUE_CHARS}}}))"
    )


def _any_of(words: Iterable[str]) -> str:
    """An expression for any of some words, longer ones first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
