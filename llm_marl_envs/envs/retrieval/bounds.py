"""What a team can earn at most where some seats' texts ignore what they alone know, by counting.

Seats of which only some use what they know can tell cases apart by that alone. So in each group of
cases that these seats' facts do not tell apart, one answer is given, at best the most frequent.
Whatever codes the texts are, none passes on what its writer does not use. Pure functions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping

REWRITER, SELECTOR, GENERATOR = "rewriter_0", "selector_0", "generator_0"
SEATS = (REWRITER, SELECTOR, GENERATOR)
Facts = tuple[Hashable, Hashable, Hashable]
"""What each seat alone knows, in the order of `SEATS`."""


def ceiling(answers: Mapping[Facts, Hashable], blind: Collection[str]) -> float:
    """The share of cases that the best team answers right, each case as likely.

    Args:
        answers: the right answer to every combination of facts.
        blind: the seats whose texts depend on what they are shown of others alone, and not on
            what they alone know: any of the seven groups of seats, or nobody.

    Raises:
        ValueError: a seat that is none of `SEATS`, or no cases.
    """
    unknown = sorted({*blind} - {*SEATS})
    if unknown or not answers:
        raise ValueError(f"blind={unknown or 'no answers'}: expected seats of {SEATS}, and answers")
    groups: dict[tuple[Hashable, ...], Counter[Hashable]] = defaultdict(Counter)
    for facts, answer in answers.items():
        used = tuple(fact for seat, fact in zip(SEATS, facts, strict=True) if seat not in blind)
        groups[used][answer] += 1
    return sum(max(group.values()) for group in groups.values()) / len(answers)
