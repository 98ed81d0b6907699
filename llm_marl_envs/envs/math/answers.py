"""Who is in a team of mathematics, and how its answers and verdicts are read. Nothing is executed.

Owns the two forms of a team, when an answer is a right one, and when a text only says an answer
again. `worked.py` says whether a formula is the right answer to a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from llm_marl_envs.core.answers import (
    ANSWER_MARK,
    MAX_ANSWER_CHARS,
    answer_lines,
    number_of,
    same_answer,
)
from llm_marl_envs.core.parsing import QUOTE, answer_of, lines_of
from llm_marl_envs.core.texts import told

REASONER, ACTOR = "reasoner_0", "actor_0"
SOLVER, VERIFIER = "solver_0", "verifier_0"


@dataclass(frozen=True, slots=True)
class Team:
    """A form of a team.

    Attributes:
        seats: in the order in which they act.
        answers: whose answer counts; it is told the question where knowledge is divided.
        tells: the other one.
        turns: how often the answering seat acts unless somebody says so; at least so often.
    """

    seats: tuple[str, str]
    answers: str
    tells: str
    turns: int


TEAMS = {
    "reasoner_actor": Team((REASONER, ACTOR), ACTOR, REASONER, 1),
    "solver_verifier": Team((SOLVER, VERIFIER), SOLVER, VERIFIER, 2),
}
TELLERS = tuple(team.tells for team in TEAMS.values())
APPROVAL = "Verdict: right"
VERDICT = re.compile(r"verdict:[ \t]*(right|wrong)[ \t]*\.?", re.IGNORECASE)
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
    match = FRACTION.fullmatch(bare)
    if match is None:
        return number_of(bare)
    return Fraction(int(match[1]), int(match[2])) if int(match[2]) else None


def same_value(answer: str, right: str) -> bool:
    """Whether two answers are the same number, or else the same text (`questions.canonical`)."""
    ours, theirs = value_of(answer), value_of(right)
    if ours is None or theirs is None:
        return same_answer(answer, right)
    return ours == theirs


def approves(text: str) -> bool:
    """Whether a verifier approves: exactly one line is a verdict, and it is `right`.

    Thinking is left out; a quoted line is no verdict.
    """
    matches = [VERDICT.fullmatch(line.strip()) for line in lines_of(answer_of(text))]
    verdicts = [match[1].lower() for match in matches if match]
    return verdicts == ["right"]


def copied(text: str, heard: str) -> bool:
    """Whether a text says the answer again that `heard` gave, in a line of its own or quoted."""
    answer = read_line(heard)
    if answer is None:
        return False
    for line in lines_of(told(text)):
        bare = line.strip().removeprefix(QUOTE.strip()).strip()
        if bare[: len(ANSWER_MARK)].lower() == ANSWER_MARK:
            bare = bare[len(ANSWER_MARK) :]
        if same_value(bare, answer):
            return True
    return False
