"""How an answer is read from a text, and when it is a right one. Nothing is executed.

Generated questions are compared exactly; `formulas.py` compares formulas with a library.
`worked.py` says whether an answer to a row is worked out.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import islice

from llm_marl_envs.core.answers import MAX_ANSWER_CHARS, answer_lines, number_of, same_answer

FRACTION = re.compile(r"([+-]?[0-9]{1,30})\s*/\s*([0-9]{1,30})")


def read_line(text: str) -> str | None:
    """The answer that a text gives; None for no answer line, several, or one that is too long."""
    lines = list(islice(answer_lines(text), 2))
    if len(lines) != 1 or not 0 < len(lines[0]) <= MAX_ANSWER_CHARS:
        return None
    return lines[0].removesuffix(".").strip() or None


def value_of(answer: str) -> Fraction | None:
    """The number that an answer is, exactly: `-3`, `2.5`, `5/2`; None for any other text."""
    bare = answer.strip()
    found = FRACTION.fullmatch(bare)
    if found is None:
        return number_of(bare)
    return Fraction(int(found[1]), int(found[2])) if int(found[2]) else None


def same_value(answer: str, right: str) -> bool:
    """Whether two answers are the same number, or else the same text (`questions.canonical`)."""
    ours, theirs = value_of(answer), value_of(right)
    if ours is None or theirs is None:
        return same_answer(answer, right)
    return ours == theirs
