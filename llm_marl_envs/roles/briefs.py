"""What seats are told: the question, their share of the evidence, what others wrote.

Owns how evidence is divided over seats and how another seat's text is shown. Pure functions.
"""

from __future__ import annotations

import re
from typing import Any

from llm_marl_envs.debate.statements import quoted
from llm_marl_envs.questions import Question, question_of
from llm_marl_envs.tasks import TaskSource

INFOS = ("split", "full")
# Marks that make a reader's screen show a line in another order than it is written.
DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def check_whole(name: str, given: Any, low: int, high: int | None = None) -> None:
    """Raise `ValueError` where an argument is no whole number from `low` to `high` (None: any)."""
    whole = isinstance(given, int) and not isinstance(given, bool)
    if not whole or given < low or (high is not None and given > high):
        expected = f"at least {low}" if high is None else f"{low} to {high}"
        raise ValueError(f"{name}={given!r:.60}: expected a whole number, {expected}")


def info_of(info: str | None, source: TaskSource) -> str:
    """The argument `info`: None takes "split" where the questions bring evidence in parts.

    Raises:
        ValueError: neither "split" nor "full".
    """
    divided = len(question_of(source[0]).evidence) >= 2
    chosen = info or ("split" if divided else "full")
    if chosen not in INFOS:
        raise ValueError(f"info={chosen!r}: expected one of {INFOS}")
    return chosen


def asked(question: Question, everything: bool) -> str:
    """The question and what everybody knows, one line each; with `everything` all evidence too."""
    known = [*question.shared, *(question.evidence if everything else ())]
    lines = [f"Question: {question.text}"]
    if known:
        lines += ["Everybody knows:", *known]
    return "\n".join(lines)


def share(question: Question, seat: int, seats: int) -> tuple[str, ...]:
    """The parts of the evidence that one of `seats` seats is told: every `seats`-th from its own.

    Raises:
        ValueError: the question's evidence is not in parts.
    """
    if len(question.evidence) < 2:
        raise ValueError(
            f"info='split' needs questions with evidence in parts, and {question.text!r:.60} "
            "has none; use info='full'"
        )
    return question.evidence[seat::seats]


def heard(agent: str, text: str) -> str:
    """Another seat's text: a line that names it, then its lines behind `> `.

    Thinking is not shown, and neither are marks that change the direction of writing.
    """
    return quoted(agent, DIRECTION_MARKS.sub("", text))
