"""The one format of an answer, and when two answers are the same. Pure functions of any text.

A text answers if exactly one of its lines is an answer line, `Answer: <answer>`; lines are those of
`parsing.lines_of`, as readers are quoted them. Brackets are read as spaces, full stops at the end
are ignored, as are case and runs of spaces; right answers are read the same way. Lines inside code
fences are no answer lines, nor are lines that begin with anything else (a quotation mark `>`, a
list dash, a letter of another script that looks like an A). No text is executed or evaluated.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from llm_marl_envs.core.parsing import MAX_FENCE_INDENT, answer_of, lines_of

ANSWER_MARK = "answer:"
MAX_ANSWER_CHARS = 200
"""A longer answer is no answer; reading must not cost more than the text is worth."""
# The lines that can matter, found in one go: others may be thousands.
LINE = re.compile(r"^([^\S\n]*)(`{3,}|~{3,}|answer:)(.*)$", re.IGNORECASE | re.MULTILINE)
BRACKETS = str.maketrans("[]", "  ")
# Digits are ASCII and few, so that no answer is an arithmetic bomb.
NUMBER = re.compile(r"([+-]?)([0-9]{1,30})(?:\.([0-9]{1,30}))?")
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3}){1,9}(?:\.[0-9]{1,30})?")


def answer_lines(text: str) -> Iterator[str]:
    """What stands behind the mark of every answer line, stripped; thinking is left out."""
    answer = answer_of(text)
    if ANSWER_MARK not in answer.lower():
        return
    fence = ""  # the marker that is open; fences as in `parsing.code_of`
    for indent, mark, rest in LINE.findall("\n".join(lines_of(answer))):
        if fence:
            if mark.startswith(fence) and len(indent) <= MAX_FENCE_INDENT and not rest.strip():
                fence = ""
        elif mark[0] in "`~":
            fence = "" if "`" in rest else mark  # else it is inline code
        elif mark.lower() == ANSWER_MARK:
            yield rest.strip()


def read_answer(text: str) -> str | None:
    """The answer that a text gives; None where there is no answer line or more than one.

    Brackets become spaces, a final full stop is removed; spaces are squeezed.
    """
    lines = list(islice(answer_lines(text), 2))
    if len(lines) != 1:
        return None
    if len(lines[0]) > 2 * MAX_ANSWER_CHARS:
        return None
    answer = " ".join(lines[0].removesuffix(".").translate(BRACKETS).split())
    return answer if 0 < len(answer) <= MAX_ANSWER_CHARS else None


def number_of(text: str) -> Fraction | None:
    """The number a text is, exactly, None where it is none: `42`, `-3.50`, `1,234`, `-$5`."""
    bare = text.strip()
    if bare[:2] in ("-$", "+$"):
        bare = bare[0] + bare[2:].lstrip()
    else:
        bare = bare.removeprefix("$").lstrip()
    if THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    if not NUMBER.fullmatch(bare):
        return None
    return Fraction(bare)


def canonical(answer: str) -> str:
    """One text for all ways to write the same answer; what votes are counted by.

    Numbers are compared exactly (`42`, `42.0` and `$42` are one), other texts by their letters
    (Unicode NFC; case, brackets, runs of spaces and full stops at the end ignored). Look-alikes of
    another script stay different. The canonical text of a canonical text is itself.
    """
    bare = " ".join(answer.translate(BRACKETS).split()).rstrip(" .")
    number = number_of(bare)
    if number is not None:
        return str(number)
    # Taken apart before case is dropped: some marks stand for letters then (U+0345).
    folded = unicodedata.normalize("NFD", bare).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def same_answer(answer: str | None, other: str | None) -> bool:
    """Whether two answers are the same; None, no answer, equals nothing."""
    return answer is not None and other is not None and canonical(answer) == canonical(other)


def can_be_given(answer: str) -> bool:
    """Whether an answer line can give this answer; `[]` or a full stop alone cannot be read."""
    reading = read_answer(f"Answer: {answer}")
    return bool(reading and canonical(reading)) and same_answer(reading, answer)
