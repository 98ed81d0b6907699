"""Votes and what they show: the majority, who was pivotal, who changed sides, what talking gained.

Pure functions. Answers are canonical texts (`questions.canonical`) or None for no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

FLIPS = ("right_right", "right_wrong", "wrong_right", "wrong_wrong")


def majority(answers: Sequence[str | None]) -> str | None:
    """The answer of more than half of all debaters, the silent ones counted; None on a tie."""
    counts = Counter(answer for answer in answers if answer is not None)
    for answer, votes in counts.most_common(1):
        if 2 * votes > len(answers):
            return answer
    return None


def pivotal(right: Sequence[str | None], seat: int) -> bool:
    """Whether this seat can make the majority right and can keep it from that.

    Args:
        right: each debater's answer where it is right, else None. Right answers may differ.
        seat: whose vote is asked about.
    """
    counts = Counter(a for i, a in enumerate(right) if a is not None and i != seat)
    others = max(counts.values(), default=0)
    return 2 * others <= len(right) < 2 * (others + 1)


def flips(right: Sequence[bool]) -> dict[str, int]:
    """How often one debater went from right or wrong to right or wrong, over its rounds."""
    names = ("wrong", "right")
    table: dict[str, int] = dict.fromkeys(FLIPS, 0)
    for before, after in zip(right, right[1:], strict=False):
        table[f"{names[before]}_{names[after]}"] += 1
    return table


def deliberation_gain(majorities: Sequence[bool]) -> int:
    """Last majority minus first: 1 where talking made it right, -1 where it made it wrong."""
    return int(majorities[-1]) - int(majorities[0])
