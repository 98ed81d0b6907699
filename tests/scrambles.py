"""Programs that turn a source into something that looks like a summary and says nothing.

A program takes sentences, cuts each of them up, puts the pieces into another order, leaves words
out and puts small words in.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from llm_marl_envs.writing.words import STOP_WORDS, sentences_of, words_of

Words = list[str]

GRAMMARLESS = ("very", "so", "the", "is", "of", "that", "and", "then", "was", "just")
ADVERBS = ("just", "then", "so", "also", "still", "really", "now", "even")
CONNECTIVES = ("however", "moreover", "therefore", "because", "but", "so")
ALIKE = (
    "a the my our their his her its your this that some each every",
    "in on at by with from for to into over under about through during",
    "is was are were has had",
    "he she they we i you it",
    "him her them us me it",
    "and but or so while because when",
)
"""Words that stand in each other's place in most sentences."""

SAME = {word: line.split() for line in ALIKE for word in line.split()}
FILLERS = {
    "small words": GRAMMARLESS,
    "and": ("and",),
    "adverbs": ADVERBS,
    "connectives": CONNECTIVES,
}


@dataclass(frozen=True, slots=True)
class Scramble:
    """One program.

    Attributes:
        chosen: "first" or "random" sentences.
        crossed: whether neighbouring sentences exchange their second halves.
        cuts: what is done to each sentence, in order, with a number (see `cut`).
        filler: what is put in: "nothing", a key of `FILLERS`, or "alike": words are replaced.
        every: after how many words.
    """

    chosen: str
    crossed: bool
    cuts: tuple[tuple[str, int], ...]
    filler: str
    every: int


def scrambles() -> Iterator[Scramble]:
    """All programs that are tried, about 2300."""
    lengths = range(2, 9)
    alone = [("whole", 0), ("halves", 0), ("telegram", 0), ("sorted", 0), ("backwards", 0)]
    alone += [("drop", n) for n in (2, 3, 4, 5)] + [("exchange", n) for n in (2, 3, 4)]
    alone += [(way, n) for way in ("reversed", "shuffled", "paired") for n in lengths]
    cuts = [(one,) for one in alone]
    cuts += [(("halves", 0), other) for other in (("telegram", 0), ("drop", 4), ("drop", 6))]
    cuts += [(("halves", 0), ("exchange", 4)), (("drop", 5), ("exchange", 4))]
    cuts += [(("paired", n), other) for n in (3, 4, 5) for other in (("telegram", 0), ("drop", 4))]
    fills = [("nothing", 0), ("connectives", 4), ("alike", 2), ("alike", 4)]
    fills += [(name, n) for name in ("small words", "and", "adverbs") for n in (2, 3, 4)]
    for chosen, crossed, cut_up, (filler, every) in itertools.product(
        ("first", "random"), (False, True), cuts, fills
    ):
        yield Scramble(chosen, crossed, cut_up, filler, every)


def scrambled(kind: str, source: str, program: Scramble, rng: Random) -> tuple[str, str]:
    """The texts of both authors: about as much of the source as honest authors use."""
    sentences = [words_of(sentence) for sentence in sentences_of(source)]
    texts = []
    for places in _choose(kind, len(sentences), program.chosen, rng):
        chosen = [sentences[place] for place in places]
        if program.crossed:
            chosen = _crossed(chosen)
        texts.append(" ".join(_one(words, program, rng) for words in chosen))
    return texts[0], texts[1]


def _one(words: Words, program: Scramble, rng: Random) -> str:
    for way, n in program.cuts:
        words = cut(words, way, n, rng)
    return " ".join(_filled(words, program.filler, program.every, rng)) + "."


def cut(words: Words, way: str, n: int, rng: Random) -> Words:
    """A sentence cut up in one way; n is the length of a piece, or every how many words."""
    pieces = [words[i : i + n] for i in range(0, len(words), n)] if n else [words]
    if way == "drop":
        return [word for i, word in enumerate(words) if i % n != n - 1]
    if way == "exchange":
        return _exchanged(words, n)
    if way == "telegram":
        return [word for word in words if word not in STOP_WORDS or rng.random() < 0.5]
    if way == "shuffled":
        rng.shuffle(pieces)
    elif way == "reversed":
        pieces.reverse()
    elif way == "paired":
        for i in range(0, len(pieces) - 1, 2):
            pieces[i], pieces[i + 1] = pieces[i + 1], pieces[i]
    elif way == "halves":
        pieces = [words[len(words) // 2 :], words[: len(words) // 2]]
    elif way == "sorted":
        pieces = [sorted(words)]
    elif way == "backwards":
        pieces = [words[::-1]]
    elif way != "whole":
        raise ValueError(way)
    return [word for piece in pieces for word in piece]


def _exchanged(words: Words, n: int) -> Words:
    """Every n-th content word in exchanged places with the next."""
    places = [i for i, word in enumerate(words) if word not in STOP_WORDS]
    out = list(words)
    for a, b in zip(places[::n], places[1::n], strict=False):
        out[a], out[b] = out[b], out[a]
    return out


def _filled(words: Words, filler: str, every: int, rng: Random) -> Words:
    if filler == "nothing":
        return words
    if filler == "alike":
        return [
            rng.choice(SAME[word]) if word in SAME and rng.random() < 1.5 / every else word
            for word in words
        ]
    out = []
    for i, word in enumerate(words):
        out += [word, rng.choice(FILLERS[filler])] if i % every == every - 1 else [word]
    return out


def _choose(kind: str, n: int, how: str, rng: Random) -> tuple[Sequence[int], Sequence[int]]:
    """Places of the sentences of both authors: a part and more of it (posts), or two parts."""
    order = list(range(n)) if how == "first" else rng.sample(range(n), n)
    if kind == "post":
        long = min(4, n - 1)
        return order[:1], sorted(order[:long])
    first = 2 if how == "first" else n // 3 + 1
    return sorted(order[:first]), sorted(order[first:])


def _crossed(sentences: Sequence[Words]) -> list[Words]:
    out: list[Words] = []
    for one, other in zip(sentences[::2], sentences[1::2], strict=False):
        a, b = len(one) // 2, len(other) // 2
        out += [one[:a] + other[b:], other[:b] + one[a:]]
    return out + list(sentences[len(out) :])
