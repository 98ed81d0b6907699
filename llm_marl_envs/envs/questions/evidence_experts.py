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
        if not self.divided:
            return (DIRECT,)
        question = question_of(task)
        return KINDS[question.kind].conventions_of(question) if self._in_parts(question) else ()

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """Which convention a report follows; None for none and where nothing is reported."""
        question, place = question_of(task), self.shares[agent]
        if not self.divided or place is None or not self._in_parts(question):
            return None
        kind = KINDS[question.kind]
        return kind.followed(question, question.parts[place], words_of(action))

    def _in_parts(self, question: Question) -> bool:
        return len(question.parts) == self.parts

    def asked(self, task: Task, convention: str) -> Question:
        """The question of a task that has this convention; raises `ValueError` for another."""
        question, names = question_of(task), self.conventions(task)
        if convention not in names:
            raise ValueError(
                f"convention {convention!r:.200}: this question of kind {question.kind!r:.200} has "
                f"{names}; "
                "experts know generated questions in as many parts as seats hold evidence, and "
                "all questions under info='full'"
            )
        return question


def answer_line(answer: str) -> str:
    """The documented format."""
    return f"Answer: {listed(answer.split())}"
