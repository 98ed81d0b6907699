"""Rows of a file, a list or a data set -> questions.

A row needs `question` and `answer`; columns of GSM8K are understood (`answer` ends in `#### 42`).
It may bring `also` (a list of further right answers), `choices`, `evidence` (a list of texts, one
per part), `shared` (a list of texts), `lure`, `kind`, `level`, `id` and `split`. Questions with
`evidence` can be divided over seats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from llm_marl_envs.core.answers import MAX_ANSWER_CHARS, can_be_given, number_of, same_answer
from llm_marl_envs.core.tasks import Row, Task, split_of_row
from llm_marl_envs.envs.questions.question import Question, task_of
from llm_marl_envs.envs.questions.vocabulary import choices_line

GSM_MARK = "####"
TEXT_COLUMNS = ("question", "text", "prompt", "problem")


def task_of_row(row: Row) -> Task:
    """The task that a row describes; its id is made from the question where it brings none.

    Raises:
        ValueError: a column is missing or of the wrong kind; the message names it.
    """
    text = next((row[c] for c in TEXT_COLUMNS if isinstance(row.get(c), str)), "").strip()
    if not text:
        raise ValueError(f"no question: expected one of {TEXT_COLUMNS}, got {sorted(row)}")
    answer, kind = _answer(row)
    level = row.get("level", 0)
    if isinstance(level, bool) or not isinstance(level, int):
        raise ValueError(f"level {level!r:.200}: expected an integer")
    choices = _texts(row, "choices")
    question = Question(
        kind=str(row.get("kind") or kind),
        level=level,
        text=f"{text}\n{choices_line(choices)}" if choices else text,
        answer=answer,
        also=tuple(map(_line, _texts(row, "also"))),
        choices=choices,
        evidence=_texts(row, "evidence"),
        shared=_texts(row, "shared"),
        lure=str(row.get("lure") or ""),
    )
    for right in question.right if choices else ():
        if not any(same_answer(right, choice) for choice in choices):
            raise ValueError(f"answer {right!r:.200} is none of the choices {list(choices)}")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    task_id = str(row.get("task_id") or row.get("id") or digest)
    return task_of(question, task_id, split_of_row(row, question.identity()))


def _answer(row: Row) -> tuple[str, str]:
    """The answer, and the kind where the row names none."""
    answer: Any = row.get("answer")
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        answer = str(answer)
    if not isinstance(answer, str) or not answer.strip():
        raise ValueError(f"answer {answer!r:.80}: expected a text or a number")
    kind = "given"
    if GSM_MARK in answer:
        kind = "gsm8k"
        answer = answer.rpartition(GSM_MARK)[2]
        if number_of(answer) is None:
            raise ValueError(f"answer behind {GSM_MARK!r}: expected a number, got {answer!r:.80}")
    return _line(answer), kind


def _line(text: str) -> str:
    """An answer that can be given: one line, not empty, not too long, not brackets alone."""
    answer = text.strip()
    if not 0 < len(answer) <= MAX_ANSWER_CHARS or "\n" in answer:
        raise ValueError(
            f"answer of {len(answer)} characters: expected one line of 1 to {MAX_ANSWER_CHARS}"
        )
    if not can_be_given(answer):
        raise ValueError(
            f"answer {answer!r:.80}: no line 'Answer: ...' is read as it; expected a text that is "
            "more than brackets and full stops"
        )
    return answer


def _texts(row: Row, column: str) -> tuple[str, ...]:
    entry = row.get(column)
    if entry is None:
        return ()
    listed = isinstance(entry, Sequence) and not isinstance(entry, (str, bytes))
    if not listed or not all(isinstance(text, str) for text in entry):
        raise ValueError(f"{column}: expected a list of texts, got {entry!r:.80}")
    return tuple(entry)
