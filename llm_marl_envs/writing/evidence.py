"""What a text has to do with its source where nobody knows the facts: measures, no numbers paid.

Owns the comparison of words: which of them the source has, in what order and how far apart it has
them, what is copied, and the two contradictions that can be seen without understanding: a verb
whose actors have changed places, and a word that is negated in one text only. `grounding.py` turns
the measures into a reward.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from llm_marl_envs.writing.words import (
    CONNECTIVES,
    STOP_WORDS,
    clean,
    is_verb_form,
    sentences_of,
    stem,
    words_of,
)

NEAR = 6
"""Content words of the source between which two words still count as said together."""

RUNS = (2, 3, 4)
"""Numbers of words in a row that count as copied."""

FORGIVEN = 2
"""Neighbouring words in the other order that every text may have."""

CONTENT_RUN = 5
"""Content words in a row that count as copied, whatever stands between them."""

NEGATION_REACH = 3
"""Words after a strong negator of which the first with content is negated; words on either side of
any negator whose own polarity is left open."""

SIDE = 3
"""Words that count on either side of a word when it is asked who did what to whom."""

MAX_WORDS = 1500
"""Words of one text that are read."""

_ACTORS = {
    **dict.fromkeys(("i", "me", "myself"), "i"),
    **dict.fromkeys(("we", "us", "ourselves"), "we"),
    **dict.fromkeys(("he", "him", "himself"), "he"),
    **dict.fromkeys(("she", "herself"), "she"),
    **dict.fromkeys(("they", "them", "themselves"), "they"),
}
# "her" is left out: it is as often a possessive as an object.

_BE = {"be", "is", "are", "was", "were", "been", "being"}
_DETERMINERS = {"a", "an", "the", "my", "your", "his", "her", "its", "our", "their"}
_BEFORE_NOUNS = {*_DETERMINERS, "to", "for", "of", "in", "on", "at", "with", "from", "by", "during"}
_BEFORE_VERBS = {"to", "could", "can", "will", "would", "must", "may", "should", "not", *_ACTORS}
_STRONG = {"not", "never", "cannot"}
_WEAK = {"no", "none", "nobody", "nothing", "neither", "nor", "without", "refuses", "refuse"}
_WEAK |= {"refused", "fails", "fail", "failed", "hardly", "only", "until"}
Polarity = Literal["stated", "negated", "open"]
Sides = tuple[frozenset[str], frozenset[str]]
"""The stems and pronouns before and after a word, at most `SIDE` each."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source, read once.

    Attributes:
        words: all of them.
        places: content stem -> its places among the content words.
        content_runs: every run of `CONTENT_RUN` content stems.
        runs: for each length of `RUNS`, every run of so many words.
        sentences: the content stems of each sentence.
        neighbours: content stems that follow each other in a sentence.
        sides: stem or pronoun -> what stands beside it, at each of its places.
        polarities: content stem -> its polarities, at each of its places.
        verbs: stems that stand in a verb's form or place, some nouns among them.
        latin: whether it is written in Latin letters only.
    """

    words: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]
    content_runs: frozenset[tuple[str, ...]]
    runs: Mapping[int, frozenset[tuple[str, ...]]]
    sentences: tuple[frozenset[str], ...]
    neighbours: frozenset[tuple[str, ...]]
    sides: Mapping[str, tuple[Sides, ...]]
    polarities: Mapping[str, frozenset[Polarity]]
    verbs: frozenset[str]
    latin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How a text compares with its source. Shares are in [0, 1].

    Attributes:
        words: number of words.
        length: words / words of the source.
        grounded: share of the content words that the source has.
        foreign: names and numbers, and words in other letters, that it does not have.
        near: share of neighbouring grounded content words that the source has near each other.
        inverted: share of neighbouring content words that the source has in the other order only,
            `FORGIVEN` pairs aside.
        copied: for each length of `RUNS`, share of the words in such runs of the source.
        content_copied: share of the content words in runs of `CONTENT_RUN` of the source.
        connectives: share of the words that only connect.
        function_words: share of the words without content.
        distinct: distinct runs of three words / all of them.
        contradicted: share of the sentences that contradict the source.
        content: its grounded content stems.
    """

    words: int
    length: float
    grounded: float
    foreign: int
    near: float
    inverted: float
    copied: tuple[float, ...]
    content_copied: float
    connectives: float
    function_words: float
    distinct: float
    contradicted: float
    content: frozenset[str]


@lru_cache(maxsize=1024)
def read_source(text: str) -> Source:
    """Read a source; the result is kept."""
    sentences = [words_of(sentence) for sentence in sentences_of(text)]
    words = [word for sentence in sentences for word in sentence]
    stems = [one for sentence in sentences for one in content(sentence)]
    places: dict[str, list[int]] = {}
    for place, one in enumerate(stems):
        places.setdefault(one, []).append(place)
    sides: dict[str, list[Sides]] = {}
    polarities: dict[str, set[Polarity]] = {}
    for sentence in sentences:
        for one, polarity in _polarities(sentence):
            polarities.setdefault(one, set()).add(polarity)
        if "by" not in sentence:  # in a passive the doer stands behind
            for one, beside in _sides(sentence):
                sides.setdefault(one, []).append(beside)
    return Source(
        words=tuple(words),
        places={one: tuple(found) for one, found in places.items()},
        content_runs=frozenset(_runs(stems, CONTENT_RUN)),
        runs={n: frozenset(_runs(words, n)) for n in RUNS},
        sentences=tuple(frozenset(content(sentence)) for sentence in sentences),
        neighbours=frozenset(pair for one in sentences for pair in _runs(content(one), 2)),
        sides={one: tuple(found) for one, found in sides.items()},
        polarities={one: frozenset(found) for one, found in polarities.items()},
        verbs=frozenset(one for sentence in sentences for one in _verbs(sentence)),
        latin=all(map(_is_latin, words)),
    )


def weigh(source: Source, text: str) -> Evidence:
    """Compare a text with its source. Any text can be compared."""
    sentences = [words_of(sentence) for sentence in sentences_of(text[: MAX_WORDS * 8])]
    words = [word for sentence in sentences for word in sentence]
    stems = [one for sentence in sentences for one in content(sentence)]
    threes = _runs(words, 3)
    n = max(len(words), 1)
    return Evidence(
        words=len(words),
        length=len(words) / max(len(source.words), 1),
        grounded=sum(one in source.places for one in stems) / max(len(stems), 1),
        foreign=_foreign(source, text, words),
        near=_near(source, sentences),
        inverted=_inverted(source, sentences),
        copied=tuple(_copied(source.runs[length], words, length) for length in RUNS),
        content_copied=_copied(source.content_runs, stems, CONTENT_RUN),
        connectives=sum(word in CONNECTIVES for word in words) / n,
        function_words=1 - len(stems) / n,
        distinct=len(set(threes)) / max(len(threes), 1),
        contradicted=_contradicted(source, sentences),
        content=frozenset(stems) & source.places.keys(),
    )


def content(words: Sequence[str]) -> list[str]:
    """Stems of the words that neither connect nor belong to the grammar."""
    return [stem(word) for word in words if word not in STOP_WORDS and word not in CONNECTIVES]


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _is_latin(word: str) -> bool:
    return all(character < "\u0250" for character in word)


def _names(text: str) -> frozenset[str]:
    """Words with a capital letter that do not begin a sentence, "I" aside."""
    inside = (piece for sentence in sentences_of(text) for piece in sentence.split()[1:])
    found = (re.match(r"[^\w]*([A-Z][\w]+)", piece) for piece in inside)
    return frozenset(match[1].lower() for match in found if match)


def _foreign(source: Source, text: str, words: Sequence[str]) -> int:
    marked = _names(clean(text)) | {word for word in words if word[0].isdigit()}
    if source.latin:
        marked |= {word for word in words if not _is_latin(word)}
    return len({word for word in marked if stem(word) not in source.places} - STOP_WORDS)


def _near(source: Source, sentences: Sequence[Sequence[str]]) -> float:
    near = pairs = 0
    for sentence in sentences:
        found = [source.places[one] for one in content(sentence) if one in source.places]
        for left, right in zip(found, found[1:], strict=False):
            pairs += 1
            near += any(0 < abs(a - b) <= NEAR for a in left for b in right)
    return near / max(pairs, 1)


def _inverted(source: Source, sentences: Sequence[Sequence[str]]) -> float:
    pairs = [pair for sentence in sentences for pair in _runs(content(sentence), 2)]
    wrong = sum(p not in source.neighbours and p[::-1] in source.neighbours for p in pairs)
    return max(wrong - FORGIVEN, 0) / max(len(pairs), 1)


def _copied(runs: frozenset[tuple[str, ...]], words: Sequence[str], length: int) -> float:
    marked = [False] * len(words)
    for place, run in enumerate(_runs(words, length)):
        if run in runs:
            marked[place : place + length] = [True] * length
    return sum(marked) / max(len(words), 1)


def _contradicted(source: Source, sentences: Sequence[Sequence[str]]) -> float:
    wrong = sum(_is_swapped(source, one) or _is_turned(source, one) for one in sentences)
    return wrong / max(len(sentences), 1)


def _is_swapped(source: Source, sentence: Sequence[str]) -> bool:
    """Whether what stands before a verb stands only behind it in the source, and the reverse."""
    if "by" in sentence:
        return False
    nodes = _nodes(sentence)
    for i in range(1, len(nodes) - 1):
        (start, left), (place, one) = nodes[i - 1 : i + 1]
        # "waste sorting robots" and "the sewing machine" are things, "long" does nothing to
        # anybody, in "slow to listen" and "for years" nobody does anything, and in a passive
        # the doer is not in front.
        compound = sentence[place].endswith("ing") and nodes[i + 1][0] - start == 2
        thing = compound or sentence[place - 1] in _BEFORE_NOUNS
        passive = not _BE.isdisjoint(sentence[max(place - 2, 0) : place])
        if thing or passive or not (is_verb_form(sentence[place]) or one in source.verbs):
            continue
        behind = {other for _, other in nodes[i + 1 : i + 1 + SIDE]} - {left}
        seen = source.sides.get(one, ())
        turned = any(left in after and behind & before for before, after in seen)
        if turned and not any(left in before for before, _ in seen):
            return True
    return False


def _is_turned(source: Source, sentence: Sequence[str]) -> bool:
    """Whether a word is negated here and nowhere in the source, or the other way round."""
    for one, polarity in _polarities(sentence):
        seen = source.polarities.get(one)
        if seen and polarity != "open" and seen == {_OPPOSITE[polarity]}:
            return True
    return False


_OPPOSITE: Mapping[str, Polarity] = {"stated": "negated", "negated": "stated"}


def _verbs(sentence: Sequence[str]) -> list[str]:
    """Stems of words with a verb's ending, or behind what stands before a verb."""
    return [
        stem(word)
        for place, word in enumerate(sentence)
        if is_verb_form(word) or (place and sentence[place - 1] in _BEFORE_VERBS)
    ]


def _nodes(sentence: Sequence[str]) -> list[tuple[int, str]]:
    """Places of content stems and personal pronouns, these in one form each."""
    return [
        (place, _ACTORS.get(word) or stem(word))
        for place, word in enumerate(sentence)
        if word in _ACTORS or (word not in STOP_WORDS and word not in CONNECTIVES)
    ]


def _sides(sentence: Sequence[str]) -> list[tuple[str, Sides]]:
    nodes = [one for _, one in _nodes(sentence)]
    return [
        (one, (frozenset(nodes[max(i - SIDE, 0) : i]), frozenset(nodes[i + 1 : i + 1 + SIDE])))
        for i, one in enumerate(nodes)
    ]


def _polarities(sentence: Sequence[str]) -> list[tuple[str, Polarity]]:
    """Content words of a sentence with their polarities."""
    strong = [i for i, word in enumerate(sentence) if word in _STRONG or word.endswith("n't")]
    weak = [*strong, *(i for i, word in enumerate(sentence) if word in _WEAK)]
    negated: set[int] = set()
    for place in strong:
        following = range(place + 1, min(place + 1 + NEGATION_REACH, len(sentence)))
        if place + 1 < len(sentence) and sentence[place + 1] in _DETERMINERS | {"all"}:
            continue  # "but not the lie": a noun, of which nothing is stated
        first = next((i for i in following if sentence[i] not in STOP_WORDS), None)
        negated |= set() if first is None else {first}
    found: list[tuple[str, Polarity]] = []
    for i, word in enumerate(sentence):
        if word in STOP_WORDS or word in CONNECTIVES:
            continue
        near = any(abs(i - place) <= NEGATION_REACH for place in weak)
        found.append((stem(word), "negated" if i in negated else "open" if near else "stated"))
    return found
