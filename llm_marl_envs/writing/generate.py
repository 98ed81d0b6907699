"""Which documents are tasks: document i of a split, a function of (seed, split, i).

Owns how facts, outlines and knowledge are drawn, and the splits. A document belongs to the split
that a hash of its facts names, so no document is in two splits; `ood` has names and parts that
occur nowhere else and more facts per section.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from llm_marl_envs.tasks import split_of_row
from llm_marl_envs.writing import vocabulary
from llm_marl_envs.writing.divisions import PLANS
from llm_marl_envs.writing.documents import Document, Fact, Kind, Section, identity

SIZES = {"train": 4096, "val": 512, "test": 512, "ood": 512}
"""Split -> number of documents."""

TOPICS = 6
NEGATIVE_SHARE = 0.25
LEFT_OUT = (7, 2, 1)
"""How often none, one or two sections are left out (posts) or told to one seat only (abstracts)."""

FACTS_PER_SECTION = {"ood": 2}
"""Facts that a seat is told of one section, where it is more than one."""


def document_at(kind: Kind, seed: int, split: str, index: int) -> Document:
    """Document `index` of a split."""
    rng = Random(f"{kind}/{seed}/{split}/{index}")
    draw = _post if kind == "post" else _abstract
    while True:
        document = draw(rng, split)
        if split == "ood" or split_of(document) == split:
            return document


def split_of(document: Document) -> str:
    """The split that a document's facts belong to, "ood" aside."""
    return split_of_row({}, identity(document))


def _draw(
    rng: Random, used: set[tuple[str, ...]], pools: tuple[tuple[str, ...], ...], n: int
) -> tuple[Fact, ...]:
    """`n` facts of (subjects, relations, objects) whose triples are new to the document."""
    facts: list[Fact] = []
    while len(facts) < n:
        subject, relation, thing = (rng.choice(pool) for pool in pools)
        # The reverse of a fact must be no fact either, or swapped roles could be true.
        if subject == thing or {(subject, relation, thing), (thing, relation, subject)} & used:
            continue
        used.add((subject, relation, thing))
        facts.append(Fact(subject, relation, thing, rng.random() >= NEGATIVE_SHARE))
    return tuple(facts)


def _post(rng: Random, split: str) -> Document:
    words = vocabulary.HELD_OUT_POSTS if split == "ood" else vocabulary.POSTS
    n = FACTS_PER_SECTION.get(split, 1)
    used: set[tuple[str, ...]] = set()
    left_out = _left_out(rng)
    sections = []
    for i, topic in enumerate(_topics(rng, words)):
        gist = _draw(rng, used, (words.actors, tuple(topic.verbs), words.actors), 1)
        details = _draw(rng, used, (words.actors, tuple(words.detail_verbs), topic.things), n)
        sections.append(Section(topic.label, (gist, details), i not in left_out))
    return Document("post", tuple(sections))


def _topics(rng: Random, words: vocabulary.Words) -> Sequence[vocabulary.Topic]:
    return rng.sample(words.topics, TOPICS) if words.free_order else words.topics


def _left_out(rng: Random) -> set[int]:
    """Topics that the outline leaves out: none, one or two.

    They are drawn from those that a plan, which is drawn too, does not treat, so that this one plan
    at least stays possible.
    """
    plan = PLANS["post"][rng.choice(sorted(PLANS["post"]))]
    rest = [i for i in range(TOPICS) if i not in plan[0]]
    return set(rng.sample(rest, rng.choices((0, 1, 2), LEFT_OUT)[0]))


def _abstract(rng: Random, split: str) -> Document:
    words = vocabulary.HELD_OUT_ABSTRACTS if split == "ood" else vocabulary.ABSTRACTS
    n = FACTS_PER_SECTION.get(split, 1)
    used: set[tuple[str, ...]] = set()
    sections = []
    for topic, seats in zip(_topics(rng, words), _knowledge(rng), strict=True):
        pools = (words.actors, tuple(topic.verbs), (*words.actors, *words.effects))
        facts = _draw(rng, used, pools, n)
        told = (facts if 0 in seats else (), facts if 1 in seats else ())
        sections.append(Section(topic.label, told))
    return Document("abstract", tuple(sections))


def _knowledge(rng: Random) -> list[tuple[int, ...]]:
    """Which seats are told each section.

    The first is told to the first seat, the last to the second and the four between to both. In
    three of ten documents one or two of those four are told to one seat only, in agreement with a
    plan that is drawn, so that one plan at least stays possible.
    """
    knows: list[tuple[int, ...]] = [(0,), (0, 1), (0, 1), (0, 1), (0, 1), (1,)]
    plan = PLANS["abstract"][rng.choice(sorted(PLANS["abstract"]))]
    for place in rng.sample((1, 2, 3, 4), rng.choices((0, 1, 2), LEFT_OUT)[0]):
        knows[place] = (0,) if place in plan[0] else (1,)
    return knows
