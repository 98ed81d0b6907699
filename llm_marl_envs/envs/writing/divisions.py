"""Plans: the conventions by which authors can divide or share a document.

Owns the plans of each kind of document, which of them a document allows, what an expert writes
under each, and the reading of a plan from a text. Numbers are indices of sections, from 0.

| kind | plan | first seat | second seat | of three: first | second | third |
|---|---|---|---|---|---|---|
| post | first | 0, 1, 2 | 0, 1, 2 | 0, 1, 2 | 0, 1, 2 | 0, 1, 2 |
| | odd | 0, 2, 4 | 0, 2, 4 | 0, 2, 4 | 0, 2, 4 | 0, 2, 4 |
| | last | 3, 4, 5 | 3, 4, 5 | 3, 4, 5 | 3, 4, 5 | 3, 4, 5 |
| abstract | near | 0, 1, 2 | 3, 4, 5 | 0, 1 | 2, 3 | 4, 5 |
| | far | 0, 3, 4 | 1, 2, 5 | 0, 2 | 1, 4 | 3, 5 |
| | odd | 0, 1, 3 | 2, 4, 5 | 0, 3 | 2, 4 | 1, 5 |

The authors of a post must treat the same topics, those of an abstract must not treat the same
sections. All plans of a kind are equally good where they are possible; between plans that differ,
some fit better than others ("first" and "odd" share two topics, "first" and "last" none). Of three
authors of an abstract the first under "near", the second under "odd" and the third under "far"
happen to fit, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_marl_envs.core.outcome import Bounds
from llm_marl_envs.envs.writing.documents import Document, Kind, line
from llm_marl_envs.envs.writing.reader import read_claims

Plan = tuple[tuple[int, ...], ...]
"""Sections that each seat treats."""

_TOPICS = {"first": (0, 1, 2), "odd": (0, 2, 4), "last": (3, 4, 5)}
PLANS: Mapping[tuple[Kind, int], Mapping[str, Plan]] = {
    ("post", 2): {name: (topics,) * 2 for name, topics in _TOPICS.items()},
    ("post", 3): {name: (topics,) * 3 for name, topics in _TOPICS.items()},
    ("abstract", 2): {
        "near": ((0, 1, 2), (3, 4, 5)),
        "far": ((0, 3, 4), (1, 2, 5)),
        "odd": ((0, 1, 3), (2, 4, 5)),
    },
    ("abstract", 3): {
        "near": ((0, 1), (2, 3), (4, 5)),
        "far": ((0, 2), (1, 4), (3, 5)),
        "odd": ((0, 3), (2, 4), (1, 5)),
    },
}
"""Kind and number of authors -> plans by name."""

AUTHORS = (2, 3)
"""Fewest and most authors of a document."""


def plans(document: Document) -> tuple[str, ...]:
    """Names of the plans that a document allows.

    A plan needs every section open and every author told what it assigns to him.
    """
    sections = document.sections
    return tuple(
        name
        for name, plan in PLANS[document.kind, document.seats].items()
        if all(
            sections[i].open and sections[i].told[seat]
            for seat, treated in enumerate(plan)
            for i in treated
        )
    )


def write(document: Document, seat: int, plan: str) -> str:
    """The text of an expert: a line for each section, in the order of the document.

    Raises:
        ValueError: the document does not allow that plan.
    """
    if plan not in plans(document):
        raise ValueError(f"plan {plan!r}: this document allows {plans(document)}")
    own = PLANS[document.kind, document.seats][plan][seat]
    sections = [document.sections[i] for i in own]
    return "".join(line(document.kind, section.label, section.told[seat]) for section in sections)


def read_plan(document: Document, seat: int, text: str) -> str | None:
    """The plan whose sections the true statements of `text` treat, None where there is none.

    An impossible plan can be followed too: the name says what the author did, not that it was wise.
    """
    treated = {
        document.section_of(fact)
        for fact in read_claims(text, document.lexicon).claims
        if fact in document.facts
    }
    for name, plan in PLANS[document.kind, document.seats].items():
        if set(plan[seat]) == treated:
            return name
    return None


def bounds(document: Document) -> Bounds:
    """Returns that are known to be possible under `info="split"` and `reward="grounded"`.

    A topic of a post counts only where all texts treat it, so one author alone earns nothing. The
    author of an abstract can state the facts of as many sections as one text may treat; that is an
    upper bound, for his partners' texts cost nothing in it.
    """
    if document.kind == "post":
        return Bounds(random=0.0, solo=0.0, team=1.0)
    counts = sorted((len(section.facts) for section in document.sections), reverse=True)
    return Bounds(random=0.0, solo=sum(counts[: document.quota]) / sum(counts), team=1.0)
