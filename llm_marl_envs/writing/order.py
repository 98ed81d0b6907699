"""How English orders its words: how much likelier a word is after the one before it than anywhere.

Owns the classes of words and the table of what follows what. A word without content is a class of
its own; the others are told apart by their endings. The table holds counts of neighbouring classes,
no text; `benchmarks/word_order.py` makes it and `data/README.md` says from what. English scores
above zero on average, shuffled words below: which words they are cancels out.

>>> order("the", "machine") > 0 > order("of", "and")
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from llm_marl_envs.writing.words import CONNECTIVES, HEDGES, STOP_WORDS, is_irregular, stem

START, END = "<", ">"
"""The neighbours of a sentence's first and last word."""

TABLE = "word_order.tsv"
"""In `llm_marl_envs/data`."""

LEAST = 3
"""Pairs of classes that were seen more rarely than this are not in the table."""

DOUBT = 3.0
"""Added to the count of a pair and to the count expected by chance: rare words prove little."""

_CLOSED = STOP_WORDS | CONNECTIVES | HEDGES | {"never", "none", "nobody", "nothing", "neither"}
_ENDINGS = (
    *("ations", "ation", "ments", "ment", "ness", "ings", "edly", "able", "ible", "ing", "ity"),
    *("ous", "ive", "ful", "ers", "est", "ies", "ed", "ly", "al", "ic", "er", "es", "'s", "en"),
    *("s", "y", "t", "e", "n", "d", "r"),
)

SLOTS: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "the": "a an the this that these those my your his her its our their some any each every",
        "in": "in on at by with from for to into onto over under about through during of as upon",
        "is": "is are was were be been being am has have had do does did",
        "will": "will would can could shall should may might must",
        "he": "i he she we they you it who me him us them",
        "himself": "myself himself herself themselves itself",
        "and": "and or but so yet while because when since though although whereas if unless then",
        "not": "not never",
    }.items()
}
"""Words without content that can stand in each other's place."""

_ADVERBS = """
    accordingly additionally also besides consequently even finally furthermore hence however
    indeed instead just likewise meanwhile moreover nevertheless next nonetheless now only
    otherwise overall perhaps possibly quite really similarly so still subsequently then therefore
    thus too very yet
"""
LOOSE = frozenset(_ADVERBS.split())
"""Words that any sentence can do without; they neither join others nor keep them apart."""

_SLOT_OF = {word: name for name, words in SLOTS.items() for word in words}


@dataclass(frozen=True, slots=True)
class WordOrder:
    """The table, read.

    Attributes:
        pairs: pair of classes -> how often the second follows the first.
        before: class -> in how many pairs it is the first.
        after: class -> in which share of all pairs it is the second.
    """

    pairs: Mapping[tuple[str, str], int]
    before: Mapping[str, int]
    after: Mapping[str, float]


@lru_cache(maxsize=65536)
def class_of(word: str) -> str:
    """The class of a lower-case word: itself, "#" for numbers, else an ending such as "~ing"."""
    if word in _CLOSED or word in (START, END):
        return word
    if word[0].isdigit():
        return "#"
    if is_irregular(word):
        return "~ed"
    return next(
        (f"~{end}" for end in _ENDINGS if word.endswith(end) and len(word) > len(end) + 2), "~"
    )


@lru_cache(maxsize=65536)
def slot(word: str) -> str:
    """What could stand in the place of a lower-case word: a name of `SLOTS`, else its stem."""
    return _SLOT_OF.get(word) or (word if word in _CLOSED else stem(word))


def tight(words: Iterable[str]) -> list[str]:
    """Lower-case words without the loose ones."""
    return [word for word in words if word not in LOOSE]


@lru_cache(maxsize=65536)
def order(left: str, right: str) -> float:
    """Log of how much likelier `right` is after `left` than elsewhere; words in lower case."""
    table = word_order()
    first, second = class_of(left), class_of(right)
    chance = table.before.get(first, 0) * table.after.get(second, 0.0)
    return math.log((table.pairs.get((first, second), 0) + DOUBT) / (chance + DOUBT))


@lru_cache(maxsize=1)
def word_order() -> WordOrder:
    """The table that comes with the package."""
    file = resources.files("llm_marl_envs") / "data" / TABLE
    return read_table(file.read_text(encoding="utf-8").splitlines())


def read_table(lines: Iterable[str]) -> WordOrder:
    """Read lines of `class, times before, times after, follower count follower count ...`.

    Columns are separated by tabs; the last one holds the pairs seen at least `LEAST` times.
    """
    rows = [line.split("\t") for line in lines]
    every = sum(int(after) for _, _, after, _ in rows)
    pairs: dict[tuple[str, str], int] = {}
    for name, _, _, followers in rows:
        words = followers.split()
        for word, count in zip(words[::2], words[1::2], strict=True):
            pairs[name, word] = int(count)
    return WordOrder(
        pairs=pairs,
        before={name: int(before) for name, before, _, _ in rows},
        after={name: int(after) / every for name, _, after, _ in rows},
    )
