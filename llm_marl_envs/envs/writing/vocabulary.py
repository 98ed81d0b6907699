"""The vocabulary of the generated documents: who and what facts are about, in all their forms.

Owns words only. Every entity and every verb form is one lower-case word, no word has two roles in
one lexicon, and a subject or object can be told from a verb by the word alone: so what a text
states can be read without guessing (`reader.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

Verbs = Mapping[str, tuple[str, str]]
"""Base -> (past, participle)."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words that facts of one family of documents are made of.

    Attributes:
        entities: every subject and object.
        forms: any form of a verb -> its base.
        past: base -> past tense.
        third: base -> third person singular.
        participles: past participles, which may stand in a passive.
        labels: names of topics and sections in outlines.
    """

    entities: frozenset[str]
    forms: Mapping[str, str]
    past: Mapping[str, str]
    third: Mapping[str, str]
    participles: frozenset[str]
    labels: frozenset[str]


def _forms(base: str, past: str, participle: str) -> tuple[str, ...]:
    stem = base[:-1] if base.endswith("e") else base
    return (base, third_of(base), past, participle, f"{stem}ing")


def third_of(base: str) -> str:
    """Third person singular of a verb of these tables."""
    return base + ("es" if base[-1] in "xs" or base.endswith(("ch", "sh")) else "s")


def _lexicon(entities: frozenset[str], verbs: Verbs, labels: frozenset[str]) -> Lexicon:
    forms = {
        form: base
        for base, (past, participle) in verbs.items()
        for form in _forms(base, past, participle)
    }
    return Lexicon(
        entities,
        MappingProxyType(forms),
        MappingProxyType({base: past for base, (past, _) in verbs.items()}),
        MappingProxyType({base: third_of(base) for base in verbs}),
        frozenset(participle for _, participle in verbs.values()),
        labels,
    )


@dataclass(frozen=True, slots=True)
class Topic:
    """What one topic of a post, or one section of an abstract, is about.

    Attributes:
        label: its name in outlines.
        verbs: what its actors do to each other (posts) or to each other and to effects (abstracts).
        things: what details of a post are about.
    """

    label: str
    verbs: Verbs
    things: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """What the documents of one kind are about.

    Attributes:
        actors: who or what does things.
        effects: what nothing is done by.
        detail_verbs: what actors of a post do to things.
        topics: in the order of the outline; `free_order`: drawn, in any order.
        free_order: whether a document draws its topics and their order.
    """

    actors: tuple[str, ...]
    effects: tuple[str, ...]
    detail_verbs: Verbs
    topics: tuple[Topic, ...]
    free_order: bool = False


def _regular(*bases: str) -> Verbs:
    def past(base: str) -> str:
        return base + ("d" if base.endswith("e") else "ed")

    return {base: (past(base), past(base)) for base in bases}


# -- posts ----------------------------------------------------------------------------------------
POSTS = Words(
    actors=("mia", "tom", "leo"),
    effects=(),
    detail_verbs={"sell": ("sold", "sold"), **_regular("fix")},
    topics=(
        Topic("rent", {"pay": ("paid", "paid")}, ("key",)),
        Topic("kitchen", {"feed": ("fed", "fed")}, ("pan",)),
        Topic("garden", _regular("help"), ("hose",)),
        Topic("car", _regular("follow"), ("map",)),
        Topic("office", _regular("blame"), ("desk",)),
        Topic("band", _regular("join"), ("amp",)),
    ),
)
"""Of the splits train, val and test. Small, so that a small model can learn every word."""

HELD_OUT_POSTS = Words(
    actors=("ruth", "omar", "nina", "paul", "vera", "hugo", "eva", "ann"),
    effects=(),
    detail_verbs={
        "break": ("broke", "broken"),
        "find": ("found", "found"),
        "keep": ("kept", "kept"),
        "buy": ("bought", "bought"),
        "steal": ("stole", "stolen"),
        **_regular("clean"),
    },
    topics=(
        Topic("party", _regular("invite", "ignore"), ("cake", "drum", "lantern")),
        Topic("dog", _regular("warn", "trust"), ("collar", "cage", "leash")),
        Topic("school", _regular("visit", "ignore"), ("book", "bag", "pen")),
        Topic("wedding", _regular("invite", "greet"), ("ring", "veil", "suit")),
        Topic("harbour", _regular("warn", "rescue"), ("boat", "anchor", "net")),
        Topic("library", _regular("visit", "trust"), ("novel", "shelf", "lamp")),
        Topic("stable", _regular("rescue", "scold"), ("saddle", "bucket", "cart")),
        Topic("studio", _regular("scold", "admire"), ("easel", "brush", "guitar")),
    ),
    free_order=True,
)
"""Of the split `ood`; it shares no actor, verb, topic or thing with the others."""


def _lexicon_of(*tables: Words) -> Lexicon:
    verbs: dict[str, tuple[str, str]] = {}
    entities: set[str] = set()
    for table in tables:
        verbs |= table.detail_verbs
        entities |= {*table.actors, *table.effects}
        for topic in table.topics:
            verbs |= topic.verbs
            entities |= {*topic.things}
    labels = frozenset(topic.label for table in tables for topic in table.topics)
    return _lexicon(frozenset(entities), verbs, labels)


POST_LEXICON = _lexicon_of(POSTS, HELD_OUT_POSTS)
PEOPLE = frozenset({*POSTS.actors, *HELD_OUT_POSTS.actors})


# -- abstracts ------------------------------------------------------------------------------------
ABSTRACTS = Words(
    actors=("encoder", "sampler", "parser"),
    effects=("noise", "drift"),
    detail_verbs={},
    topics=(
        Topic("problem", _regular("slow")),
        Topic("gap", _regular("ignore")),
        Topic("data", _regular("need")),
        Topic("model", _regular("reduce")),
        Topic("result", _regular("improve")),
        Topic("use", _regular("support")),
    ),
)
"""Of the splits train, val and test."""

HELD_OUT_ABSTRACTS = Words(
    actors=("ranker", "critic", "tracker", "splitter", "merger", "planner", "solver", "router"),
    effects=("error", "variance", "memory", "energy", "latency", "overlap"),
    detail_verbs={},
    topics=(
        Topic("problem", _regular("distort", "delay")),
        Topic("gap", _regular("overlook", "require")),
        Topic("data", _regular("contain", "measure")),
        Topic("model", _regular("predict", "replace", "remove")),
        Topic("result", _regular("correct", "double", "explain")),
        Topic("use", _regular("enable", "restrict")),
    ),
)
"""Of the split `ood`; it shares no actor, verb or effect with the others."""

EFFECTS = frozenset({*ABSTRACTS.effects, *HELD_OUT_ABSTRACTS.effects})
ABSTRACT_LEXICON = _lexicon_of(ABSTRACTS, HELD_OUT_ABSTRACTS)
