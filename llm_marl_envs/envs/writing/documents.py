"""What a generated document is: facts in sections, and which seat is told what.

Owns the records that all rules of generated tasks read, how a fact is said, and the identity of a
document. How documents are drawn is `generate.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal

from llm_marl_envs.envs.writing.vocabulary import (
    ABSTRACT_LEXICON,
    EFFECTS,
    PEOPLE,
    POST_LEXICON,
    Lexicon,
)

Kind = Literal["post", "abstract"]
KINDS: tuple[Kind, ...] = ("post", "abstract")
TOPICS_OF_A_POST = 3
"""Topics that a text may treat of a post; the sections of an abstract are divided evenly."""
LEXICONS: Mapping[Kind, Lexicon] = {"post": POST_LEXICON, "abstract": ABSTRACT_LEXICON}


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """One statement: `subject` does `relation` to `object`, or does not.

    Attributes:
        subject, object: entities of the lexicon.
        relation: base of a verb of the lexicon.
        holds: polarity.
    """

    subject: str
    relation: str
    object: str
    holds: bool


@dataclass(frozen=True)
class Section:
    """One topic of a post, or one section of an abstract.

    Attributes:
        label: its name in the outline.
        told: seat -> facts that this seat is told under `info="split"`. In a post all seats are
            told different facts; in an abstract a section is told to one seat or the same to all.
        open: False for a topic that the outline leaves out.
    """

    label: str
    told: tuple[tuple[Fact, ...], ...]
    open: bool = True

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """All facts of the section, each once, in order."""
        return tuple(dict.fromkeys(chain(*self.told)))


@dataclass(frozen=True)
class Document:
    """A post or an abstract whose facts are known.

    No two of its facts share subject, relation and object.
    """

    kind: Kind
    sections: tuple[Section, ...]

    @property
    def seats(self) -> int:
        """How many authors it is divided over."""
        return len(self.sections[0].told)

    @property
    def quota(self) -> int:
        """Sections that one text may treat."""
        return TOPICS_OF_A_POST if self.kind == "post" else len(self.sections) // self.seats

    @property
    def lexicon(self) -> Lexicon:
        """The words its facts are made of."""
        return LEXICONS[self.kind]

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """Everything that is true in this document."""
        return frozenset(self._places)

    @cached_property
    def _places(self) -> dict[Fact, int]:
        places: dict[Fact, int] = {}
        for index, section in enumerate(self.sections):
            for fact in section.facts:
                places.setdefault(fact, index)
        return places

    def section_of(self, fact: Fact) -> int:
        """Index of the first section that holds a fact of the document."""
        return self._places[fact]


def say(kind: Kind, fact: Fact) -> str:
    """A fact as a plain sentence, as sources and scripted experts say it.

    >>> say("post", Fact("mia", "blame", "tom", True))
    'Mia blamed Tom.'
    >>> say("abstract", Fact("encoder", "reduce", "noise", False))
    'The encoder does not reduce noise.'
    """
    lexicon = LEXICONS[kind]
    if fact.holds:
        verb = (lexicon.past if kind == "post" else lexicon.third)[fact.relation]
    else:
        verb = f"{'did' if kind == 'post' else 'does'} not {fact.relation}"
    sentence = f"{_named(fact.subject)} {verb} {_named(fact.object)}."
    return sentence[0].upper() + sentence[1:]


def _named(entity: str) -> str:
    if entity in PEOPLE:
        return entity.capitalize()
    return entity if entity in EFFECTS else f"the {entity}"


def line(kind: Kind, label: str, facts: Sequence[Fact]) -> str:
    """The facts of a section on one line, as prompts show them and scripted experts write them."""
    return f"{label.capitalize()}: {' '.join(say(kind, fact) for fact in facts)}\n"


def identity(document: Document) -> str:
    """A hash of what the document says: equal for equal facts, whatever their order and labels."""
    facts = sorted((f.subject, f.relation, f.object, f.holds) for f in document.facts)
    return hashlib.sha256(repr((document.kind, facts)).encode()).hexdigest()


def data_of(document: Document) -> dict[str, Any]:
    """The document as plain JSON values, for `Task.data`."""
    return {
        "kind": document.kind,
        "sections": [
            {
                "label": section.label,
                "open": section.open,
                "told": [
                    [[f.subject, f.relation, f.object, f.holds] for f in facts]
                    for facts in section.told
                ],
            }
            for section in document.sections
        ],
    }


def document_of(data: Mapping[str, Any]) -> Document | None:
    """The document behind a task's data, None for a text from outside."""
    if "sections" not in data:
        return None
    sections = []
    for entry in data["sections"]:
        knowledge = tuple(tuple(Fact(*fact) for fact in facts) for facts in entry["told"])
        sections.append(Section(entry["label"], knowledge, entry["open"]))
    return Document(data["kind"], tuple(sections))
