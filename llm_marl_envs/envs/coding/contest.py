"""Contest-style rows, which have inputs and outputs instead of tests -> rows with tests.

Owns the columns of such rows. A contest's program reads standard input and prints. Two authors need
a function that one of them writes, so the program becomes `solve(stdin)`, which returns what would
be printed. The outputs stay in the tests, which run apart from the programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.core.tasks import Row
from llm_marl_envs.files.foreign import json_of

ENTRY_POINT = "solve"
COLUMNS = ("input_output", "public_tests", "private_tests", "public_test_cases", "test_cases")
"""Columns that may hold pairs: {"inputs": [...], "outputs": [...]}, {"input": [...], "output":
[...]} or [{"input": ..., "output": ...}, ...], as JSON text or as objects; beside them the columns
`inputs` and `outputs`."""
STATEMENT = """{problem}

Do not read or print. Write the function solve(stdin: str) -> str: it takes the whole standard input
as one text and returns all that is to be printed as one text."""
LINES = """def lines_of(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]
"""


def with_tests(row: Row) -> Row:
    """The row itself, or, if it has inputs and outputs and no tests, one that has tests.

    Each pair becomes an assert. Outputs agree if their lines do, up to white space at line ends and
    empty last lines.

    Raises:
        ValueError: inputs and outputs that do not pair up, that are no texts, or that belong to a
            function (`fn_name`, `testtype` "functional") rather than to standard input.
    """
    if any(row.get(name) for name in ("test", "tests", "test_list")):
        return row
    pairs = _pairs(row)
    if not pairs:
        return row
    asserts = [f"assert lines_of({ENTRY_POINT}({i!r})) == {_lines(o)!r}" for i, o in pairs]
    problem = next(
        (row[k] for k in ("prompt", "question", "description", "text") if row.get(k)), ""
    )
    return {
        **row,
        "prompt": STATEMENT.format(problem=str(problem).strip()) if problem else "",
        "entry_point": ENTRY_POINT,
        "signature": f"{ENTRY_POINT}(stdin: str) -> str",
        "test": LINES + "\n".join(asserts),
    }


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _pairs(row: Row) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    if row.get("inputs") and row.get("outputs"):
        pairs += _read("inputs and outputs", {"inputs": row["inputs"], "outputs": row["outputs"]})
    for name in COLUMNS:
        if row.get(name):
            pairs += _read(name, row[name])
    return list(dict.fromkeys(pairs))


def _read(name: str, tests: Any) -> list[tuple[str, str]]:
    if isinstance(tests, str):
        try:
            tests = json_of(tests)
        except ValueError as error:
            raise ValueError(f"{name}: expected JSON, got {tests[:60]!r} ({error})") from None
    if isinstance(tests, Mapping):
        if tests.get("fn_name"):
            raise ValueError(
                f"{name}: tests of the function {tests['fn_name']!r:.80}, not of standard input; "
                "give such rows asserts in a column `test` and the name in `entry_point`"
            )
        inputs = tests.get("inputs", tests.get("input", ()))
        outputs = tests.get("outputs", tests.get("output", ()))
    elif isinstance(tests, Sequence) and all(isinstance(case, Mapping) for case in tests):
        if any(case.get("testtype", "stdin") != "stdin" for case in tests):
            raise ValueError(f"{name}: holds tests that are not of standard input")
        inputs = [case.get("input") for case in tests]
        outputs = [case.get("output") for case in tests]
    else:
        raise ValueError(f"{name}: expected inputs and outputs, got {type(tests).__name__}")
    if len(inputs) != len(outputs):
        raise ValueError(f"{name}: {len(inputs)} inputs and {len(outputs)} outputs")
    for text in (*inputs, *outputs):
        if not isinstance(text, str):
            raise ValueError(f"{name}: expected texts, got {type(text).__name__}")
    return list(zip(inputs, outputs, strict=True))
