"""Answers that are moves: how they are asked for and read. Owns no map."""

from __future__ import annotations

import re
from itertools import islice

from llm_marl_envs.core.answers import answer_lines

ASKED = (
    "End with one line: Answer: and then moves, U (up), D (down), L (left) or R (right), with "
    "spaces between them."
)
UNREAD = "No answer line with moves was found."
MOVED = re.compile(r"[UDLR]+", re.IGNORECASE)
SEPARATORS = re.compile(r"[\s,;\[\]()\"']+")
MAX_ANSWER_CHARS = 2000


def read_moves(text: str) -> str | None:
    """The moves of an answer, as letters of `maps.MOVES`; None for no answer.

    Exactly one line answers. Commas, brackets and quotation marks count as spaces, which may be
    left out between letters; case and a full stop at the end are ignored.
    """
    lines = list(islice(answer_lines(text), 2))
    if len(lines) != 1 or len(lines[0]) > MAX_ANSWER_CHARS:
        return None
    joined = SEPARATORS.sub("", lines[0]).removesuffix(".")
    return joined.upper() if MOVED.fullmatch(joined) else None
