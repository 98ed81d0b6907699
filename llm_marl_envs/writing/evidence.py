"""What a text has to do with its source where nobody knows the facts: measures, no numbers paid.

Owns the comparison of words: which of them the source has, in what order and how far apart it has
them, what is copied, and whether English would set the others beside each other. What contradicts
the source is `contradiction.py`'s; `grounding.py` turns the measures into a reward.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from llm_marl_envs.writing.contradiction import Said, contradicts, read_said
from llm_marl_envs.writing.order import END, LOOSE, START, order, slot, tight
from llm_marl_envs.writing.words import (
    CONNECTIVES,
    STOP_WORDS,
    sentences_of,
    stem,
    words_of,
)

NEAR = 8
"""Content words of the source between which two words still count as said together."""

LONGEST = 12
"""Words of a copied run beyond which longer ones count no more."""

FORGIVEN = 2
"""Neighbouring words in the other order that every text may have."""

JOINED = 0.25
"""What two words are worth that an author set beside each other, before `order.order` is added."""

READ = 1.2
"""A text is read up to this share of its source's words; longer ones are paid nothing."""

MAX_WORDS = 1500
"""Eight times as many characters of one text are read."""


_JOINING = CONNECTIVES | LOOSE
_WITHOUT_CONTENT = STOP_WORDS | CONNECTIVES


@dataclass(frozen=True, slots=True)
class Line:
    """Words of a source in which copies are looked for.

    Attributes:
        words: all of them, in order, and two empty ones, which stand before the first word too (at
            the places -2 and -1).
        starts: word with content -> its places; a run needs one.
    """

    words: tuple[str, ...]
    starts: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Source:
    """A source, read once.

    Attributes:
        words: all of them.
        places: content stem -> its places among the content words.
        slots: the slots of the words that are not loose.
        stems: the content stems.
        joins: slots that follow each other in a sentence, its start and end included.
        sentences: the content stems of each sentence.
        neighbours: content stems that follow each other in a sentence.
        said: who does what to whom, and what is negated.
        latin: whether it is written in Latin letters only.
    """

    words: tuple[str, ...]
    places: Mapping[str, tuple[int, ...]]
    slots: Line
    stems: Line
    joins: frozenset[tuple[str, ...]]
    sentences: tuple[frozenset[str], ...]
    neighbours: frozenset[tuple[str, ...]]
    said: Said
    latin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How a text compares with its source. Shares are in [0, 1].

    Attributes:
        words: number of words read, see `READ`.
        length: words / words of the source.
        grounded: share of the content words that the source has.
        foreign: names and numbers, and words in other letters, that it does not have.
        pairs: neighbouring grounded content words that the source does not have one right after
            the other.
        near: how many of them it has near each other.
        inverted: share of neighbouring content words that the source has in the other order only,
            `FORGIVEN` pairs aside.
        copied: words of the copied run in which a word stands, on average, `LONGEST` at most; one
            word of the source may be left out between two copied ones.
        content_copied: the same of the content words, none left out.
        own: what the author added: `JOINED` + `order.order` of neighbouring words, summed over
            those whose slots the source does not have beside each other (ends of sentences count
            as words), divided by the words of the text. Above 0 for English, 0 for a copy, below 0
            for a salad.
        connectives: share of the words that only connect, or are loose.
        function_words: share of the words without content.
        distinct: distinct runs of three words / all of them.
        sentences: number of sentences.
        contradicted: how many of them contradict the source.
        content: its grounded content stems.
    """

    words: int
    length: float
    grounded: float
    foreign: int
    pairs: int
    near: int
    inverted: float
    copied: float
    content_copied: float
    own: float
    connectives: float
    function_words: float
    distinct: float
    sentences: int
    contradicted: int
    content: frozenset[str]


@lru_cache(maxsize=1024)
def read_source(text: str) -> Source:
    """Read a source; the result is kept."""
    sentences = [words_of(sentence) for sentence in sentences_of(text)]
    words = [word for sentence in sentences for word in sentence]
    stems = [one for sentence in sentences for one in content(sentence)]
    places = _places(stems)
    slots = list(map(slot, tight(words)))
    starts = {word: found for word, found in _places(slots).items() if word in places}
    return Source(
        words=tuple(words),
        places=places,
        slots=Line((*slots, "", ""), starts),
        stems=Line((*stems, "", ""), places),
        joins=frozenset(pair for one in sentences for pair in map(_slots, _joins(one))),
        sentences=tuple(frozenset(content(sentence)) for sentence in sentences),
        neighbours=frozenset(pair for one in sentences for pair in _runs(content(one), 2)),
        said=read_said(sentences),
        latin=all(map(_is_latin, words)),
    )


def weigh(source: Source, text: str) -> Evidence:
    """Compare a text with its source. Any text can be compared.

    A text is read up to `READ` times the length of its source.
    """
    pieces, sentences = _beginning(text, int(READ * len(source.words)) + 1)
    words = [word for sentence in sentences for word in sentence]
    contents = [content(sentence) for sentence in sentences]
    stems = [one for found in contents for one in found]
    threes = _runs(words, 3)
    near = _near(source, contents)
    own = [pair for one in sentences for pair in _added(source, one)]
    n = max(len(words), 1)
    return Evidence(
        words=len(words),
        length=len(words) / max(len(source.words), 1),
        grounded=sum(one in source.places for one in stems) / max(len(stems), 1),
        foreign=_foreign(source, pieces, words),
        pairs=len(near),
        near=sum(near),
        inverted=_inverted(source, contents),
        copied=_copied(source.slots, list(map(slot, tight(words))), 2),
        content_copied=_copied(source.stems, stems, 1),
        own=sum(JOINED + order(left, right) for left, right in own) / n,
        connectives=sum(word in _JOINING for word in words) / n,
        function_words=1 - len(stems) / n,
        distinct=len(set(threes)) / max(len(threes), 1),
        sentences=len(sentences),
        contradicted=sum(contradicts(source.said, one) for one in sentences),
        content=frozenset(stems) & source.places.keys(),
    )


def content(words: Sequence[str]) -> list[str]:
    """Stems of the words that neither connect nor belong to the grammar."""
    return [stem(word) for word in words if word not in _WITHOUT_CONTENT]


def _beginning(text: str, n: int) -> tuple[list[str], list[list[str]]]:
    """Sentences up to the `n`-th word, as they stand and as words."""
    pieces: list[str] = []
    found: list[list[str]] = []
    for piece in sentences_of(text[: MAX_WORDS * 8]):
        if n <= 0:
            break
        pieces.append(piece)
        found.append(words_of(piece)[:n])
        n -= len(found[-1])
    return pieces, found


def _places(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    return {word: tuple(found) for word, found in places.items()}


def _joins(sentence: Sequence[str]) -> list[tuple[str, ...]]:
    return _runs([START, *tight(sentence), END], 2)


def _slots(pair: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(slot, pair))


def _added(source: Source, sentence: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbouring words whose slots the source does not have beside each other."""
    words = [START, *tight(sentence), END]
    slots = list(map(slot, words))
    joins = zip(
        zip(slots, slots[1:], strict=False), zip(words, words[1:], strict=False), strict=True
    )
    return [pair for join, pair in joins if join not in source.joins]


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def _is_latin(word: str) -> bool:
    return word.isascii() or max(word) < "\u0250"


_NAME = re.compile(r"[^\w]*([A-Z][\w]+)")


def _names(sentences: Sequence[str]) -> frozenset[str]:
    """Words with a capital letter that do not begin a sentence, "I" aside."""
    inside = (piece for sentence in sentences for piece in sentence.split()[1:])
    found = (_NAME.match(piece) for piece in inside if not piece[0].islower())
    return frozenset(match[1].lower() for match in found if match)


def _foreign(source: Source, sentences: Sequence[str], words: Sequence[str]) -> int:
    marked = _names(sentences) | {word for word in words if word[0].isdigit()}
    if source.latin:
        marked |= {word for word in words if not _is_latin(word)}
    return len({word for word in marked if stem(word) not in source.places} - STOP_WORDS)


def _near(source: Source, contents: Sequence[Sequence[str]]) -> list[bool]:
    """For each pair of neighbours that the author brought together: are they near in the source.

    Neighbours among the content words of a sentence that the source has.
    """
    found: list[bool] = []
    for sentence in contents:
        places = [source.places[one] for one in sentence if one in source.places]
        for left, right in zip(places, places[1:], strict=False):
            apart = [b - a for a in left for b in right if a != b]
            if 1 not in apart:
                found.append(any(-NEAR <= distance <= NEAR for distance in apart))
    return found


def _inverted(source: Source, contents: Sequence[Sequence[str]]) -> float:
    pairs = [pair for sentence in contents for pair in _runs(sentence, 2)]
    wrong = sum(p not in source.neighbours and p[::-1] in source.neighbours for p in pairs)
    return max(wrong - FORGIVEN, 0) / max(len(pairs), 1)


def _copied(line: Line, words: Sequence[str], gap: int) -> float:
    """Mean length of the copied run that a word stands in; its words are 1 or `gap` apart."""
    until = _run_lengths(line, words, (1, gap))
    since = _run_lengths(line, words[::-1], (-1, -gap))[::-1]
    total = 0
    for up, on in zip(until, since, strict=True):
        if not up:
            longest = max(on.values()) if on else 0
        elif not on:
            longest = max(up.values())
        else:
            longest = max(length + on.get(place, 1) - 1 for place, length in up.items())
            longest = max(longest, *on.values())  # where a run only begins
        total += min(longest, LONGEST)
    return total / max(len(words), 1)


def _run_lengths(line: Line, words: Sequence[str], steps: tuple[int, int]) -> list[dict[int, int]]:
    """For each word: place in the source -> words of the run that ends there."""
    found: list[dict[int, int]] = []
    before: dict[int, int] = {}
    source, starts = line.words, line.starts
    near, far = steps
    last = ""
    for word in words:
        here: dict[int, int] = {}
        for place, length in before.items():
            if source[place + near] == word and length >= here.get(place + near, 0):
                here[place + near] = length + 1
            if far != near and source[place + far] == word and length >= here.get(place + far, 0):
                here[place + far] = length + 1
        if word in starts:
            for place in starts[word]:
                if place in here:
                    continue
                here[place] = 1
                if last and (source[place - near] == last or source[place - far] == last):
                    here[place] += _lead(source, words, (len(found), place), steps, found)
        found.append(here)
        before, last = here, word
    return found


def _lead(
    source: Sequence[str],
    words: Sequence[str],
    start: tuple[int, int],
    steps: tuple[int, int],
    found: Sequence[dict[int, int]],
) -> int:
    """Add to `found` the words without content that lead up to a run; how many they are."""
    number, place = start
    near, far = steps
    places: list[int] = []
    for before in range(number - 1, -1, -1):
        word = words[before]
        if source[place - near] == word:
            place -= near
        elif source[place - far] == word:
            place -= far
        else:
            break
        places.append(place)
    for back, one in enumerate(places):
        lengths = found[number - 1 - back]
        lengths[one] = max(lengths.get(one, 0), len(places) - back)
    return len(places)
