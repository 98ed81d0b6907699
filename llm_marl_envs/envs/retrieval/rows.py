"""Rows of HotpotQA's shape -> tasks: a question, its answer, paragraphs.

A row has `question`, `answer` and either `documents` (a list of texts) or `context`: the data set's
`{"title": [...], "sentences": [[...]]}`, or a list of `[title, sentences]` as in its files.
`supporting_facts` (`{"title": [...]}`, or a list of `[title, number]`) is optional.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.core.answers import can_be_given
from llm_marl_envs.core.tasks import Row, Task, split_of_row
from llm_marl_envs.envs.retrieval.scores import answer_words

MOST_DOCUMENTS = 10_000


def task_of_row(row: Row) -> Task:
    """The task of a row; its id is made from the question where it brings none.

    Raises:
        ValueError: a column is missing or of the wrong kind; the message names it.
    """
    question, answer = _text(row, "question"), _text(row, "answer")
    if not answer_words(answer) or not can_be_given(answer):
        raise ValueError(f"answer {answer!r:.80}: expected a short text with a word in it")
    paragraphs = _paragraphs(row)
    if not 0 < len(paragraphs) <= MOST_DOCUMENTS:
        raise ValueError(
            f"documents: got {len(paragraphs)}, expected 1 to {MOST_DOCUMENTS} in `documents` or "
            "`context`"
        )
    titles = _supporting(row)
    data = {
        "question": question,
        "answer": answer,
        "documents": tuple(text for _, text in paragraphs),
        "needed": tuple(n for n, (title, _) in enumerate(paragraphs) if title in titles),
    }
    digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    named = row.get("id") or row.get("_id") or row.get("task_id") or digest
    return Task(str(named), split_of_row(row, question), data)


def _text(row: Row, column: str) -> str:
    given = row.get(column)
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{column} {given!r:.80}: expected a text, got columns {sorted(row)}")
    return " ".join(given.split())


def _paragraphs(row: Row) -> list[tuple[str, str]]:
    """Title and text of each document, in one line; without titles, an empty one."""
    listed, context = row.get("documents"), row.get("context")
    if _texts(listed):
        return [("", " ".join(text.split())) for text in listed or () if text.strip()]
    pairs: Any = context
    if isinstance(context, Mapping):
        columns = [context.get(column) for column in ("title", "sentences")]
        pairs = [*zip(*columns, strict=False)] if all(map(_listed, columns)) else None
    if not _listed(pairs) or not all(map(_is_paragraph, pairs)):
        raise ValueError(
            f"context {context!r:.80}: expected titles with sentences, or `documents`, a list of "
            "texts"
        )
    return [(title, " ".join(f"{title}: {' '.join(said)}".split())) for title, said in pairs]


def _is_paragraph(pair: Any) -> bool:
    """Whether it is a title and its sentences."""
    return _listed(pair) and len(pair) == 2 and isinstance(pair[0], str) and _texts(pair[1])


def _listed(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes))


def _texts(given: Any) -> bool:
    """Whether it is a list of texts."""
    return _listed(given) and all(isinstance(text, str) for text in given)


def _supporting(row: Row) -> set[str]:
    """The titles of the paragraphs that are needed, where the row names them."""
    facts: Any = row.get("supporting_facts") or ()
    if isinstance(facts, Mapping):
        titles: Any = facts.get("title")
    else:
        titles = [fact[0] for fact in facts if _listed(fact) and fact] if _listed(facts) else ()
    return {title for title in titles if isinstance(title, str)} if _listed(titles) else set()
