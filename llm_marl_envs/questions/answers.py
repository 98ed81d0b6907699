"""The one format of an answer, and when two answers are the same. Pure functions of any text.

A text answers if exactly one of its lines is an answer line, `Answer: <answer>`. Brackets are read
as spaces, a full stop at the end is ignored, as are case and runs of spaces. Lines inside code
fences are no answer lines, nor are lines that begin with anything else (a quotation mark `>`, a
list dash, a letter of another script that looks like an A). No text is executed or evaluated.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from llm_marl_envs.parsing import answer_of

ANSWER_MARK = "answer:"
MAX_ANSWER_CHARS = 200
"""A longer answer is no answer; reading must not cost more than the text is worth."""
# Digits are ASCII and few, so that no answer is an arithmetic bomb.
NUMBER = re.compile(r"([+-]?)([0-9]{1,30})(?:\.([0-9]{1,30}))?")
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3}){1,9}(?:\.[0-9]{1,30})?")


def answer_lines(text: str) -> list[str]:
    """What stands behind the mark of every answer line, stripped; thinking is left out."""
    found: list[str] = []
    fenced = False
    for line in answer_of(text).split("\n"):
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        elif not fenced and bare[: len(ANSWER_MARK)].lower() == ANSWER_MARK:
            found.append(bare[len(ANSWER_MARK) :].strip())
    return found


def read_answer(text: str) -> str | None:
    """The answer that a text gives; None where there is no answer line or more than one.

    Brackets become spaces, a final full stop is removed; spaces are squeezed.
    """
    lines = answer_lines(text)
    if len(lines) != 1:
        return None
    if len(lines[0]) > 2 * MAX_ANSWER_CHARS:
        return None
    answer = " ".join(lines[0].removesuffix(".").replace("[", " ").replace("]", " ").split())
    return answer if 0 < len(answer) <= MAX_ANSWER_CHARS else None


def number_of(text: str) -> Fraction | None:
    """The number a text is, exactly, None where it is none: `42`, `-3.50`, `1,234`, `$5`."""
    bare = text.strip().removeprefix("$").strip()
    if THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    if not NUMBER.fullmatch(bare):
        return None
    return Fraction(bare)


def canonical(answer: str) -> str:
    """One text for all ways to write the same answer; what votes are counted by.

    Numbers are compared exactly (`42`, `42.0` and `$42` are one), other texts by their letters
    (Unicode NFC, case and runs of spaces ignored). Look-alikes of another script stay different.
    """
    number = number_of(answer)
    if number is not None:
        return str(number)
    return " ".join(unicodedata.normalize("NFC", answer).casefold().split())


def same_answer(answer: str | None, other: str | None) -> bool:
    """Whether two answers are the same; None, no answer, equals nothing."""
    return answer is not None and other is not None and canonical(answer) == canonical(other)
