"""Scripted experts that each hold a part of the evidence: how they report it and are read.

Owns conventions, reports and answer lines of generated questions. What an expert says when is
`debate/experts.py`'s business.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import words_of
from llm_marl_envs.envs.questions import KINDS, Question, question_of
from llm_marl_envs.envs.questions.vocabulary import listed

DIRECT = "direct"
"""The one convention of those who are told everything."""


class EvidenceExperts(ListeningExperts):
    """What experts share in every environment in which seats hold parts of the evidence.

    Args:
        shares: seat -> which part it holds, counted from 0; None for a seat that holds none.
        parts: in how many parts the evidence is.
        divided: whether each seat is told its own part alone; else all are told everything.
    """

    def __init__(self, shares: Mapping[str, int | None], parts: int, divided: bool) -> None:
        self.shares = shares
        self.parts = parts
        self.divided = divided

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Shorthands in which experts report evidence of this kind; ("direct",) where undivided.

        None for rows, and where generated evidence has not one part per seat.
        """
        question = question_of(task)
        if self.divided and len(question.parts) != self.parts:
            return ()
        return conventions(question, self.divided)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """Which convention a report follows; None for none and where nothing is reported."""
        question, place = question_of(task), self.shares[agent]
        if not self.divided or len(question.parts) != self.parts or place is None:
            return None
        return read_convention(question, place, action)

    def asked(self, task: Task, convention: str) -> Question:
        """The question of a task that has this convention; raises `ValueError` for another."""
        question, known = question_of(task), self.conventions(task)
        if convention not in known:
            raise ValueError(
                f"convention {convention!r}: this question of kind {question.kind!r} has {known}; "
                "experts know generated questions in as many parts as seats hold evidence, and "
                "all questions under info='full'"
            )
        return question


def conventions(question: Question, divided: bool) -> tuple[str, ...]:
    """In which ways experts can talk about a question; none for divided rows of a file."""
    if not divided:
        return (DIRECT,)
    if not question.parts:
        return ()
    kind = KINDS[question.kind]
    # A description that has worn off leaves nothing to say.
    return tuple(
        convention
        for convention in kind.conventions
        if all(kind.say(question, part, convention) for part in question.parts)
    )


def answer_line(answer: str) -> str:
    """The documented format."""
    return f"Answer: {listed(answer.split())}"


def read_convention(question: Question, seat: int, statement: str) -> str | None:
    """Which convention a report of this seat's part follows, None for none or more than one."""
    kind = KINDS[question.kind]
    order = tuple if kind.ordered else sorted
    said = order(words_of(statement))
    found = [
        convention
        for convention in conventions(question, divided=True)
        if said == order(kind.say(question, question.parts[seat], convention))
    ]
    return found[0] if len(found) == 1 else None
