"""What texts earn for a document whose facts are known: the reward `grounded` of such tasks.

Owns the numbers. Every statement is true (a fact of the document), false, or a repeat of an earlier
one of the same text; each false statement and each repeat costs as much as a fact is worth.

Post: a topic counts where the brief states its gist and the detailed text its details (the share of
them stated; of two detailed texts with details of their own, the product of the shares). value =
(topics that count - false and repeated statements - a quarter of the topics that one text treats
and the other does not) / 3. Of three texts these topics are counted in each pair, and the mean over
the pairs costs. It only costs, so two texts that agree gain nothing without the third.

Abstract: value = (facts stated by any - false and repeated statements) / all facts, times one minus
the duplicated share (facts stated by more than one / facts stated by any). A fact that a pair of
three texts states is duplicated as much as one that all state, so no pair is cheaper than another.

Values are cut to [0, 1]. The score is the value times the form of all texts, each in [0, 1]:

| form | full | falls linearly | zero |
|---|---|---|---|
| sections treated | up to the quota | | at twice that |
| words | up to 12 for each fact of the quota (a detailed text: and its gist) | | at twice that |
| share of the words that stand in stating sentences | from 0.65 | | at 0.35 |
| share of its verbs that have a subject and an object | from 0.75 | | at 0.25 |
| a word, a sign or a use of "not" that the reader does not know, or nothing stated | | | zero |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from llm_marl_envs.envs.writing.documents import Document, Fact
from llm_marl_envs.envs.writing.reader import Reading, read_claims

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
        ramp(treated, 2 * document.quota, document.quota)
        * ramp(reading.words, 2 * budget, budget)
        * ramp(stating, STATING_ZERO, STATING_FULL)
        * ramp(reading.stating_verbs / reading.verbs, VERBS_ZERO, VERBS_FULL)
    )


def word_budget(document: Document, seat: int) -> int:
    """Most words of a text before it loses."""
    if document.kind == "post":
        knowledge = document.sections[0].told
        per_section = len({*knowledge[0], *knowledge[seat]})
    else:
        per_section = len(document.sections[1].facts)
    return WORDS_PER_FACT * per_section * document.quota


def grounded_terms(document: Document, texts: Sequence[str]) -> dict[str, float]:
    """The terms of the reward, which sum to the score in [0, 1].

    `supported` >= 0: what the true statements are worth. `contradicted` <= 0: what false and
    repeated ones cost, at most what there is. `together` <= 0: what topics in one text only (post)
    or facts in several (abstract) cost. `form` <= 0: what the form of the texts costs.
    """
    accounts = [account(document, seat, text) for seat, text in enumerate(texts)]
    faults = sum(account.false + account.repeats for account in accounts)
    stated = Counter(fact for account in accounts for fact in account.true)
    if document.kind == "post":
        unit = document.quota
        supported = min(1.0, _topics(document, accounts) / unit)
    else:
        unit = len(document.facts)
        supported = len(stated) / unit
    contradicted = min(supported, faults / unit)
    value = supported - contradicted
    if document.kind == "post":
        pairs = [len(a.sections ^ b.sections) for a, b in combinations(accounts, 2)]
        apart = min(value, ALONE * (sum(pairs) / len(pairs)) / unit)
    else:
        duplicated = sum(times > 1 for times in stated.values())
        apart = value * duplicated / max(len(stated), 1)
    value -= apart
    return {
        "supported": supported,
        "contradicted": 0.0 - contradicted,
        "together": 0.0 - apart,
        "form": prod((account.form for account in accounts), start=value) - value,
    }


def _topics(document: Document, accounts: Sequence[Account]) -> float:
    """Topics that all texts treat: gist in the brief, share of the own details in each other."""
    brief, *detailed = accounts
    total = 0.0
    for section in document.sections:
        gist, *details = section.told
        if section.open and brief.true.issuperset(gist):
            total += prod(
                sum(fact in account.true for fact in own) / len(own)
                for account, own in zip(detailed, details, strict=True)
            )
    return total
