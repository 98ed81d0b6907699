"""The record of a question, and its form as a task.

Owns the fields and what makes two questions the same. A question is data; a `Kind` draws it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any

from llm_marl_envs.core.answers import same_answer
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.questions.vocabulary import choices_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question; its right answers are `answer` and those of `also`.

    Attributes:
        kind: a name in `KINDS` for generated questions, else what a row says.
        level: difficulty, 1 is the easiest; 0 where unknown.
        text: what is asked, the choices included, the evidence not.
        answer: the right answer; one of `choices` if there are any.
        also: further answers that are as right; empty in most kinds.
        choices: possible answers; empty for open questions.
        evidence: one text per part; empty where nothing can be divided. Seats get whole parts.
        shared: what everybody is told; lines of text.
        lure: the wrong answer that `shared` points to, "" for none.
        parts: the words that each part of `evidence` states, in the order of the kind; what
            scripted experts read. Empty for rows.
    """

    kind: str
    level: int
    text: str
    answer: str
    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    lure: str = ""
    parts: tuple[tuple[str, ...], ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """All right answers, `answer` first."""
        return (self.answer, *self.also)

    def identity(self) -> str:
        """A fingerprint of what is asked, whatever the order of parts and choices.

        Splits are disjoint by it: two questions with one identity have the same solution.
        """
        # Rows may differ in their text alone, as yes-or-no questions do; generated questions of one
        # kind have one text.
        asked: object = sorted(self.choices) or self.text
        if self.choices and not self.parts:
            asked = [self.text.removesuffix(f"\n{choices_line(self.choices)}"), asked]
        key = [self.kind, asked, sorted(self.evidence), sorted(self.shared)]
        return hashlib.sha256(json.dumps(key).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_right(question: Question, answer: str | None) -> bool:
    """Whether an answer (as `read_answer` gives it) is a right one; None never is."""
    return any(same_answer(answer, right) for right in question.right)


def task_of(question: Question, task_id: str, split: str) -> Task:
    """A question as a task; `question_of` is the inverse."""
    data = {field.name: getattr(question, field.name) for field in fields(Question)}
    return Task(id=task_id, split=split, data=data)


def question_of(task: Task) -> Question:
    """The question behind a task.

    Raises:
        ValueError: the task's data is no question.
    """
    try:
        values: dict[str, Any] = {f.name: task.data[f.name] for f in fields(Question)}
    except KeyError as missing:
        raise ValueError(f"task {task.id!r:.200} is no question: it lacks {missing}") from missing
    for name in ("also", "choices", "evidence", "shared"):
        values[name] = tuple(values[name])
    values["parts"] = tuple(tuple(part) for part in values["parts"])
    return Question(**values)
