r"""Rows of mathematics -> tasks: columns of GSM8K and MATH, and all that `questions/rows.py` reads.

MATH has `problem`, `solution` (its answer stands in the last `\boxed{}`), `level` ("Level 5") and
`type`; MATH-500 has `answer` as well.
"""

from __future__ import annotations

import re

from llm_marl_envs.core.tasks import Row, Task
from llm_marl_envs.envs.questions.rows import task_of_row

BOXED = re.compile(r"\\f?boxed\s*\{")
LEVEL = re.compile(r"Level ([0-9?])")


def math_task_of_row(row: Row) -> Task:
    """The task of a row.

    Raises:
        ValueError: a column is missing or of the wrong kind; the message names it.
    """
    columns = dict(row)
    solution, level = row.get("solution"), row.get("level")
    if "answer" not in row and isinstance(solution, str):
        answer = boxed(solution)
        if answer is None:
            raise ValueError(f"solution {solution!r:.80}: expected a last \\boxed{{answer}}")
        columns["answer"] = " ".join(answer.split())
    if isinstance(level, str) and (match := LEVEL.fullmatch(level)):
        columns["level"] = int(match[1]) if match[1] != "?" else 0
    if "unique_id" in row and not (row.get("id") or row.get("task_id")):
        columns["id"] = row["unique_id"]
    return task_of_row(columns)


def boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{}` of a text, None where there is none that closes."""
    starts = [match.end() for match in BOXED.finditer(text)]
    if not starts:
        return None
    depth = 1
    for at in range(starts[-1], len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[starts[-1] : at]
    return None
