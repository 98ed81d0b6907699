"""The reward `grounded` for texts from outside, whose facts nobody has written down.

Owns the numbers. Everything is a factor in [0, 1] and all factors multiply: nothing is paid for a
text that loses one of them. What is paid for is what an author adds: words that the source does
not have beside each other, set beside each other as English does. A copy adds nothing, a salad of
copies adds joins that English does not make, and neither earns anything; shuffling the words loses
all. `evidence.py` says what is measured. A factor is linear between its two numbers.

| factor of each text | full | zero |
|---|---|---|
| grounded: content words that the source has | from 0.5 | at 0.3 |
| foreign: names, numbers and letters that it does not have | none | at 3 |
| inverted: neighbours that it has in the other order only | up to 0.08 | at 0.16 |
| copied: mean length of the run that a word stands in | up to 8 | at 10.5 |
| ... of content words alone | up to 8.5 | at 10.5 |
| own: worth of the joins that the source does not have, for each word | from -0.07 | at -0.12 |
| connectives: words that only connect, or are loose | up to 0.18 | at 0.28 |
| function words | 0.22 to 0.7 | at 0.1 and 0.85 |
| distinct: distinct runs of three words | from 0.85 | at 0.6 |
| words | from 8 | at 4 |
| length, share of the source's words | see `LENGTHS` | |

| factor of the pair | full | zero |
|---|---|---|
| own: as above, of both texts | from 0.035 | at 0.015 |
| near: neighbours brought together that the source has near | from 0.7 | at 0.5 |
| contradicted: sentences with swapped actors or a changed negation | none | at 0.3 |
| TLDR: source sentences of which the detailed text says a third | from 0.5 | at 0.15 |
| TLDR: content words of the brief that the detailed text has | from 0.5 | at 0.2 |
| TLDR: words of the detailed text / of the brief | from 1.5 | at 1.0 |
| arXiv: source sentences of which both together say a third | from 0.7 | at 0.3 |
| arXiv: content words of the shorter text that the other has | up to 0.4 | at 0.7 |
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from llm_marl_envs.writing.documents import Kind
from llm_marl_envs.writing.evidence import Evidence, Source, read_source, weigh
from llm_marl_envs.writing.factual import ramp

LENGTHS: Mapping[Kind, tuple[tuple[float, float], tuple[float, float]]] = {
    "post": ((0.75, 0.4), (1.15, 1.0)),
    "abstract": ((0.85, 0.6), (0.95, 0.8)),
}
"""Kind -> seat -> (zero, full) for the share of the source's words."""

GRANTED = 3
"""Pairs brought together that every pair of texts is granted, so that one pair decides nothing."""

SAID = 1 / 3
"""Share of a source sentence's content words from which it counts as said."""


def grounded_terms(kind: Kind, text: str, texts: tuple[str, str]) -> dict[str, float]:
    """The terms of the reward, which sum to the score in [0, 1].

    `supported` >= 0: what the source bears out. The others are <= 0 and say what is lost, in this
    order: `contradicted`, `copied`, `order` (which words the authors set beside each other),
    `form` (the texts themselves), `together` (the pair).
    """
    source = read_source(text)
    first, second = weigh(source, texts[0]), weigh(source, texts[1])
    both = (first, second)
    lengths = LENGTHS[kind]
    stages = {
        "supported": prod(map(supported, both)) * near(first, second),
        "contradicted": unspoilt(first, second),
        "copied": prod(map(own_words, both)),
        "order": in_order(first, second),
        "form": prod(map(form, both, lengths)),
        "together": together(kind, source, first, second),
    }
    terms: dict[str, float] = {}
    left = 1.0
    for name, factor in stages.items():
        terms[name] = left * factor - (0.0 if name == "supported" else left)
        left *= factor
    return terms


def supported(one: Evidence) -> float:
    """How far the source bears the words of a text out; in [0, 1]."""
    return (
        ramp(one.grounded, 0.3, 0.5) * ramp(one.foreign, 3.0, 0.0) * ramp(one.inverted, 0.16, 0.08)
    )


def near(first: Evidence, second: Evidence) -> float:
    """How far the source has near each other what the authors brought together; in [0, 1]."""
    pairs = first.pairs + second.pairs + GRANTED
    return ramp((first.near + second.near + GRANTED) / pairs, 0.5, 0.7)


def unspoilt(first: Evidence, second: Evidence) -> float:
    """1 where no sentence contradicts the source, 0 where three of ten do; in [0, 1]."""
    sentences = max(first.sentences + second.sentences, 1)
    return ramp((first.contradicted + second.contradicted) / sentences, 0.3, 0.0)


def own_words(one: Evidence) -> float:
    """1 for a text in words of its own, 0 for a copy."""
    return ramp(one.copied, 10.5, 8.0) * ramp(one.content_copied, 10.5, 8.5)


def in_order(first: Evidence, second: Evidence) -> float:
    """1 where the authors added what reads like English, 0 where they added nothing; in [0, 1]."""
    words = max(first.words + second.words, 1)
    own = (first.own * first.words + second.own * second.words) / words
    each = ramp(first.own, -0.12, -0.07) * ramp(second.own, -0.12, -0.07)
    return ramp(own, 0.015, 0.035) * each


def form(one: Evidence, length: tuple[float, float]) -> float:
    """Whether a text is of the right length and reads like sentences; in [0, 1].

    `length` is the (zero, full) of `LENGTHS`.
    """
    return (
        ramp(one.words, 4, 8)
        * ramp(one.length, *length)
        * ramp(one.connectives, 0.28, 0.18)
        * ramp(one.function_words, 0.1, 0.22)
        * ramp(one.function_words, 0.85, 0.7)
        * ramp(one.distinct, 0.6, 0.85)
    )


def together(kind: Kind, source: Source, first: Evidence, second: Evidence) -> float:
    """What the two texts make of the source as a pair; in [0, 1]."""
    common = len(first.content & second.content)
    if kind == "post":
        covered = _coverage(source, second.content)
        ratio = second.words / max(first.words, 1)
        shared = common / max(len(first.content), 1)
        return ramp(covered, 0.15, 0.5) * ramp(ratio, 1.0, 1.5) * ramp(shared, 0.2, 0.5)
    covered = _coverage(source, first.content | second.content)
    shared = common / max(min(len(first.content), len(second.content)), 1)
    return ramp(covered, 0.3, 0.7) * ramp(shared, 0.7, 0.4)


def _coverage(source: Source, said: frozenset[str]) -> float:
    """Share of the source's sentences of which `SAID` of the content words are said."""
    sentences = [sentence for sentence in source.sentences if sentence]
    reached = sum(len(sentence & said) >= SAID * len(sentence) for sentence in sentences)
    return reached / max(len(sentences), 1)
