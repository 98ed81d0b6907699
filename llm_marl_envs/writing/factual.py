"""What two texts earn for a document whose facts are known: the reward `grounded` of such tasks.

Owns the numbers. Every statement is true (a fact of the document), false, or a repeat of an earlier
one of the same text; each false statement and each repeat costs as much as a fact is worth.

Post: a topic counts where the brief states its gist and the detailed text its details (the share of
them stated). value = (topics that count - false and repeated statements - a quarter of the topics
that one text treats and the other does not) / 3.

Abstract: value = (facts stated by either - false and repeated statements) / all facts, times one
minus the duplicated share (facts stated by both / facts stated by either).

Values are cut to [0, 1]. The score is the value times the form of both texts, each in [0, 1]:

| form | full | falls linearly | zero |
|---|---|---|---|
| sections treated | up to three | | at six |
| words | up to 12 for each fact of the quota (a detailed text: and its gist) | | at twice that |
| share of the words that stand in stating sentences | from 0.65 | | at 0.35 |
| share of its verbs that have a subject and an object | from 0.75 | | at 0.25 |
| a word, a sign or a use of "not" that the reader does not know, or nothing stated | | | zero |
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_marl_envs.writing.divisions import QUOTA
from llm_marl_envs.writing.documents import Document, Fact
from llm_marl_envs.writing.reader import Reading, read_claims

WORDS_PER_FACT = 12
ALONE = 0.25
"""What a topic of a post costs that only one text treats, in topics."""

STATING_FULL, STATING_ZERO = 0.65, 0.35
VERBS_FULL, VERBS_ZERO = 0.75, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one text states, held against the document.

    Attributes:
        true: the facts it states.
        sections: sections that these belong to.
        false: statements that are no facts.
        repeats: statements made before in the same text.
        form: in [0, 1], see above.
    """

    true: frozenset[Fact]
    sections: frozenset[int]
    false: int
    repeats: int
    form: float


def account(document: Document, seat: int, text: str) -> Account:
    """Hold a text of one seat against the document."""
    reading = read_claims(text, document.lexicon)
    distinct = frozenset(reading.claims)
    true = distinct & document.facts
    sections = frozenset(document.section_of(fact) for fact in true)
    return Account(
        true=true,
        sections=sections,
        false=len(distinct - true),
        repeats=len(reading.claims) - len(distinct),
        form=_form(document, seat, reading, len(sections)),
    )


def ramp(x: float, zero: float, full: float) -> float:
    """0 at `zero` and beyond, 1 at `full` and beyond, linear between them; rising or falling."""
    return min(1.0, max(0.0, (x - zero) / (full - zero)))


def _form(document: Document, seat: int, reading: Reading, treated: int) -> float:
    if not reading.claims or not reading.closed:
        return 0.0
    budget = word_budget(document, seat)
    stating = reading.stating_words / reading.words
    return (
        ramp(treated, 2 * QUOTA, QUOTA)
        * ramp(reading.words, 2 * budget, budget)
        * ramp(stating, STATING_ZERO, STATING_FULL)
        * ramp(reading.stating_verbs / reading.verbs, VERBS_ZERO, VERBS_FULL)
    )


def word_budget(document: Document, seat: int) -> int:
    """Most words of a text before it loses."""
    allowed = document.sections[:1] if document.kind == "post" else document.sections[1:2]
    per_section = max(len(section.facts) for section in allowed)
    if document.kind == "post" and seat == 0:
        per_section = len(allowed[0].told[0])
    return WORDS_PER_FACT * per_section * QUOTA


def grounded_terms(document: Document, texts: tuple[str, str]) -> dict[str, float]:
    """The terms of the reward, which sum to the score in [0, 1].

    `supported` >= 0: what the true statements are worth. `contradicted` <= 0: what false and
    repeated ones cost, at most what there is. `together` <= 0: what topics in one text only (post)
    or facts in both (abstract) cost. `form` <= 0: what the form of the texts costs.
    """
    first, second = (account(document, seat, text) for seat, text in enumerate(texts))
    faults = first.false + first.repeats + second.false + second.repeats
    if document.kind == "post":
        unit = QUOTA
        supported = min(1.0, _topics(document, first, second) / unit)
    else:
        unit = len(document.facts)
        supported = len(first.true | second.true) / unit
    contradicted = min(supported, faults / unit)
    value = supported - contradicted
    if document.kind == "post":
        apart = min(value, ALONE * len(first.sections ^ second.sections) / unit)
    else:
        either = first.true | second.true
        apart = value * len(first.true & second.true) / max(len(either), 1)
    value -= apart
    return {
        "supported": supported,
        "contradicted": 0.0 - contradicted,
        "together": 0.0 - apart,
        "form": value * first.form * second.form - value,
    }


def _topics(document: Document, brief: Account, detailed: Account) -> float:
    """Topics that both texts treat: gist in the brief, share of the details in the other."""
    total = 0.0
    for section in document.sections:
        gist, details = section.told
        if section.open and brief.true.issuperset(gist):
            total += sum(fact in detailed.true for fact in details) / len(details)
    return total
