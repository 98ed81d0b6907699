"""Which documents are tasks: document i of a split, a function of (seed, split, i).

Owns how facts, outlines and knowledge are drawn for two or three authors, and the splits. A
document belongs to the split that a hash of its facts names, so no document is in two splits; `ood`
has names and parts that occur nowhere else and more facts per section.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from llm_marl_envs.core.tasks import split_of_row
from llm_marl_envs.envs.writing import vocabulary
from llm_marl_envs.envs.writing.divisions import PLANS, Plan
from llm_marl_envs.envs.writing.documents import Document, Fact, Kind, Section, identity

SIZES = {"train": 4096, "val": 512, "test": 512, "ood": 512}
"""Split -> number of documents."""

TOPICS = 6
NEGATIVE_SHARE = 0.25
LEFT_OUT = (7, 2, 1)
"""How often none, one or two sections are left out (posts) or told to one seat only (abstracts)."""

FACTS_PER_SECTION = {"ood": 2}
"""Facts that a seat is told of one section, where it is more than one."""


def document_at(kind: Kind, seed: int, split: str, index: int, seats: int = 2) -> Document:
    """Document `index` of a split."""
    team = "" if seats == 2 else f"{seats} authors/"
    rng = Random(f"{kind}/{team}{seed}/{split}/{index}")
    draw = _post if kind == "post" else _abstract
    while True:
        document = draw(rng, split, seats)
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


def _post(rng: Random, split: str, seats: int) -> Document:
    words = vocabulary.HELD_OUT_POSTS if split == "ood" else vocabulary.POSTS
    n = FACTS_PER_SECTION.get(split, 1)
    used: set[tuple[str, ...]] = set()
    left_out = _left_out(rng)
    sections = []
    for i, topic in enumerate(_topics(rng, words)):
        gist = _draw(rng, used, (words.actors, tuple(topic.verbs), words.actors), 1)
        about = (words.actors, tuple(words.detail_verbs), topic.things)
        details = [_draw(rng, used, about, n) for _ in range(seats - 1)]
        sections.append(Section(topic.label, (gist, *details), i not in left_out))
    return Document("post", tuple(sections))


def _topics(rng: Random, words: vocabulary.Words) -> Sequence[vocabulary.Topic]:
    return rng.sample(words.topics, TOPICS) if words.free_order else words.topics


def _left_out(rng: Random) -> set[int]:
    """Topics that the outline leaves out: none, one or two.

    They are drawn from those that a plan, which is drawn too, does not treat, so that this one plan
    at least stays possible.
    """
    plans = PLANS["post", 2]
    plan = plans[rng.choice(sorted(plans))]
    rest = [i for i in range(TOPICS) if i not in plan[0]]
    return set(rng.sample(rest, rng.choices((0, 1, 2), LEFT_OUT)[0]))


def _abstract(rng: Random, split: str, seats: int) -> Document:
    words = vocabulary.HELD_OUT_ABSTRACTS if split == "ood" else vocabulary.ABSTRACTS
    n = FACTS_PER_SECTION.get(split, 1)
    used: set[tuple[str, ...]] = set()
    sections = []
    for topic, knowing in zip(_topics(rng, words), _knowledge(rng, seats), strict=True):
        pools = (words.actors, tuple(topic.verbs), (*words.actors, *words.effects))
        facts = _draw(rng, used, pools, n)
        knowledge = tuple(facts if seat in knowing else () for seat in range(seats))
        sections.append(Section(topic.label, knowledge))
    return Document("abstract", tuple(sections))


def _knowledge(rng: Random, seats: int) -> list[tuple[int, ...]]:
    """Which seats are told each section.

    Sections that every plan gives to the same seat are told to that one alone: the first to the
    first, the last to the last. All others are told to all. In three of ten documents one or two of
    these are told to one seat only, in agreement with a plan that is drawn, so that one plan at
    least stays possible.
    """
    plans = PLANS["abstract", seats]
    owners = [{_owner(plan, place) for plan in plans.values()} for place in range(TOPICS)]
    everybody = tuple(range(seats))
    knows = [tuple(owner) if len(owner) == 1 else everybody for owner in owners]
    plan = plans[rng.choice(sorted(plans))]
    shared = [place for place in range(TOPICS) if knows[place] == everybody]
    for place in rng.sample(shared, rng.choices((0, 1, 2), LEFT_OUT)[0]):
        knows[place] = (_owner(plan, place),)
    return knows


def _owner(plan: Plan, section: int) -> int:
    """The seat that treats a section of an abstract."""
    return next(seat for seat, treated in enumerate(plan) if section in treated)
