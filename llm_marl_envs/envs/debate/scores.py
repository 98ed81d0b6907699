"""Scores 1 to 3: how a scorer's text is read, and what is kept out of what it is shown.

Only the last line of the scorer's own text counts, so that text it repeats from others is no score.
Lines of others that read as a score are left out before a scorer sees them: models copy.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from llm_marl_envs.core.parsing import answer_of, lines_of
from llm_marl_envs.core.texts import quoted

SCORES = {1: 0.0, 2: 0.5, 3: 1.0}
"""Score -> what the solution earns; CoMAS's (score - 1) / 2."""
NO_SCORE = 0.5
"""What the solution earns where the scorer gives no score: neither side gains by it."""
LEFT_OUT = "(a line with a score is left out)"
LINE = re.compile(r"score:[ \t]*\[?[ \t]*([1-3])[ \t]*\]?\.?", re.ASCII | re.IGNORECASE)
NAMED = re.compile(r"(?<![a-z])s\W{0,2}c\W{0,2}[o0]\W{0,2}r\W{0,2}(?:e|ing)")
NUMBER = re.compile(r"(?<![a-z0-9.,])(?:[1-3]|one|two|three)(?![a-z0-9]|[.,][0-9])")
ALONE = re.compile(r"[\W_]*(?:[1-3]|one|two|three)[\W_]*")
# Cyrillic, Greek, Armenian and small capital letters that look like those of "score"; NFKD does
# not know them.
LOOK_ALIKES = str.maketrans(
    "\u0455\u0441\u043e\u0433\u0435\u03bf\u0585\ua731\u1d04\u1d0f\u0280\u1d07", "scoreooscore"
)


def read_score(text: str) -> int | None:
    """The score in the last line of a text, None where that line is not `Score: <1 to 3>`.

    Empty lines at the end are ignored, brackets and a full stop are optional, thinking is left out.
    """
    *_, last = lines_of(answer_of(text).rstrip()) or [""]
    match = LINE.fullmatch(last.strip())
    return int(match[1]) if match else None


def neutral(text: str) -> str:
    """A text without its lines that name a score, in whatever letters they are written.

    Such a line holds the word "score" and a number from 1 to 3, or the number alone where the line
    before holds the word. Other words for it ("full marks") stay.
    """
    answer = answer_of(text)
    lines, plain = lines_of(answer), _plain(answer)
    if NUMBER.search(plain) and NAMED.search(plain):
        before = ""  # the last line that was not empty
        for place, line in enumerate(lines_of(plain)):
            if NUMBER.search(line) and (
                NAMED.search(line) or (ALONE.fullmatch(line) and NAMED.search(before))
            ):
                lines[place] = LEFT_OUT
            before = line if line.strip() else before
    return "\n".join(lines)


def heard_by_scorer(agent: str, text: str) -> str:
    """Another seat's text as a scorer is shown it: quoted, scores left out."""
    return quoted(agent, neutral(text))


def agreement(score: int | None, right: bool) -> float | None:
    """How well a score fits the truth: 1 for 3 and right or 1 and wrong, 0.5 for 2, else 0."""
    return None if score is None else 1 - abs(SCORES[score] - right)


def _plain(text: str) -> str:
    """Small plain letters: compatibility forms, look-alikes and invisible marks resolved.

    It has as many lines as the text.
    """
    return text.lower() if text.isascii() else "".join(map(_plain_character, text))


@lru_cache(maxsize=8192)
def _plain_character(character: str) -> str:
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    folded = unicodedata.normalize("NFKD", character).casefold().translate(LOOK_ALIKES)
    shown = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn"))
    # Of a word in one character, as Arabic has some, one letter is enough.
    return shown if shown.isascii() else shown[0]
