"""What DoctorAgent-RL (arXiv 2505.19630) pays an asker, in small. Pure functions.

An answer is paid five times its likeness to the right one, a question that is answered 1, one that
is not -1. So asking pays as such, and naming everything is never worth nothing: use it to see what
this teaches. The numbers are those of the released environment, read in a public copy of its code.

Deviations:

1. Likeness is F1 of counts of words, as there. Words are runs of letters and digits; there a
   segmenter for Chinese makes them, and spaces count.
2. No advice is asked for, which would be paid five times its likeness, too.
3. The form is this library's: an answer line, or a text with exactly one question mark. There it is
   a pair of tags, and an answer is any text that says "Diagnosis".
4. Whether a question is a repeated one, and whether it is answered, is decided by the fact that it
   names. There a language model decides.
5. The number of turns is fixed. There it is drawn from 2 to 10.
"""

from __future__ import annotations

import re
from collections import Counter

ANSWERED, UNANSWERED, REPEATED, BROKEN, LATE = 1.0, -1.0, -2.0, -2.0, -5.0
"""A question that names a fact; one that names none; one that was asked before; no answer, and not
one question; no answer in the last turn."""
SCALE = 5.0
MARKS = "?\uff1f"
WORD = re.compile(r"\w+")


def likeness(answer: str, right: str) -> float:
    """F1 of the words of two texts, in [0, 1]."""
    ours, theirs = (Counter(WORD.findall(text.lower())) for text in (answer, right))
    common = (ours & theirs).total()
    return 2 * common / (ours.total() + theirs.total()) if common else 0.0


def paid_question(text: str, *, named: bool, repeated: bool, last: bool) -> float:
    """What a text without an answer is paid.

    Args:
        text: of the asker.
        named: it names a fact.
        repeated: one that was asked for or told before.
        last: it is the asker's last.
    """
    if last:
        return LATE
    if sum(text.count(mark) for mark in MARKS) != 1:
        return BROKEN
    if repeated:
        return REPEATED
    return ANSWERED if named else UNANSWERED


def reward_range(turns: int) -> tuple[float, float]:
    """Smallest and largest return."""
    return BROKEN * (turns - 1) + LATE, ANSWERED * (turns - 1) + SCALE
