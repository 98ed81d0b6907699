"""Rows in the schema of HumanEval, of MBPP or of a contest (see `contest`) -> tasks.

Owns column names, what a row must hold and the reading of its problem statement. Nothing is run
here, so a row whose tests are wrong is found by whoever checks its references; names that its tests
leave free are found here, for no program may supply them.

A task's `data` holds:

| key | meaning |
|---|---|
| prompt | the problem statement, as given |
| entry_point | the function that the tests call |
| signature | `name(parameters)` where the statement shows it, else `name(...)` |
| preamble | imports and functions that the statement defines around the entry point |
| tests | source that defines `check(candidate)`, or bare asserts |
| helper, main | reference programs, "" where the row has none |
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache

from llm_marl_envs.core.tasks import Row, Task, split_of_row
from llm_marl_envs.envs.coding.contest import with_tests
from llm_marl_envs.sandbox import Contract, units_of
from llm_marl_envs.sandbox.jail.source import ERRORS, free_names, parse

NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("task_id", "id", "name"),
    "prompt": ("prompt", "text", "question", "problem"),
    "entry_point": ("entry_point", "function_name"),
    "signature": ("signature",),
    "tests": ("test", "tests", "test_list"),
    "setup": ("test_imports", "test_setup_code"),
    "code": ("code", "canonical_solution"),
    "helper": ("helper", "aux"),
    "main": ("main",),
}
"""What a row is asked for -> the column names under which it may be, first found first."""


def task_of_row(row: Row) -> Task:
    """The task that a row describes.

    Args:
        row: needs a problem statement, tests and, unless the tests show it, an entry point; see
            `NAMES` for the accepted columns. An id is made from the statement where there is none.

    Raises:
        ValueError: something is missing, the tests are no Python with a test in it, or they use
            names that neither they nor the statement define or import.
    """
    row = with_tests(row)
    prompt = _text(row, "prompt")
    tests = _text(row, "tests")
    if tests and (setup := _text(row, "setup")):
        tests = f"{setup}\n{tests}"
    if not prompt or not tests:
        missing = "prompt" if not prompt else "tests"
        raise ValueError(
            f"no {missing}: expected one of the columns {NAMES[missing]}, got {sorted(row)}"
        )
    entry_point = _text(row, "entry_point") or _called_by(tests, _text(row, "code"))
    if not entry_point.isidentifier():
        raise ValueError(
            f"entry_point {entry_point!r:.200}: expected a function name in one of the columns "
            f"{NAMES['entry_point']}, or tests that call one function; got {sorted(row)}"
        )
    preamble, signature = _read_statement(prompt, entry_point)
    tests = f"{preamble}\n\n{tests}" if preamble else tests
    read_tests(tests, entry_point)  # raises where there is no test
    return Task(
        id=_text(row, "id") or f"{entry_point}/{len(prompt)}",
        # Rows that ask the same fall into one split, whatever their ids and wording.
        split=split_of_row(row, f"{entry_point}\n{''.join(tests.split())}"),
        data={
            "prompt": prompt,
            "entry_point": entry_point,
            "signature": signature
            or _text(row, "signature")
            or _signature(_text(row, "code"), entry_point)
            or f"{entry_point}(...)",
            "preamble": preamble,
            "tests": tests,
            "helper": _text(row, "helper"),
            "main": _text(row, "main"),
        },
    )


@lru_cache(maxsize=4096)
def read_tests(tests: str, entry_point: str) -> tuple[str, ...]:
    """The source of each test that is counted; raises as `sandbox.units_of`."""
    return units_of(tests, entry_point)


@lru_cache(maxsize=4096)
def contract_of(tests: str) -> Contract:
    """The calls of `aux` that a row's problem statement allows, as far as a machine can tell.

    Any plain values, ten times as much of them as the whole tests hold (at least 20,000 values and
    characters), and numbers of three digits more than the longest in the tests (7 to 22 digits).
    """
    digits = max(map(len, re.findall(r"\d+", tests)), default=0) + 3
    return Contract(largest=10 ** min(max(digits, 7), 22), size=max(20_000, 10 * len(tests)))


def with_preamble(source: str, preamble: str) -> str:
    """A program behind what its problem statement defines, which it may rely on.

    Imports from `__future__`, which may stand nowhere else, stay first.
    """
    if not preamble:
        return source
    end = _end_of_future(source)
    if not end:
        return f"{preamble}\n\n{source}"
    rest = source[end:].lstrip(" \t;")
    return f"{source[:end]}\n{preamble}\n\n{rest}"


def own_line(source: str, preamble: str, line: int) -> int:
    """Where a line of `with_preamble(source, preamble)` stands in `source`, from 1."""
    end = _end_of_future(source)
    if end and line <= 1 + source.count("\n", 0, end):
        return line
    added = with_preamble(source, preamble).count("\n") - source.count("\n")
    return max(1, line - added)


def _end_of_future(source: str) -> int:
    """Characters up to the end of a program's last import from `__future__`, 0 without one."""
    if "__future__" not in source:
        return 0
    last: ast.stmt | None = None
    for statement in _tree(source):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            last = statement
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
    if last is None:
        return 0
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    lines = list(io.StringIO(source, newline=""))  # split as Python does, ends kept
    row = lines[last.end_lineno - 1].encode()[: last.end_col_offset]  # columns count bytes
    return sum(map(len, lines[: last.end_lineno - 1])) + len(row.decode())


def _text(row: Row, what: str) -> str:
    for name in NAMES[what]:
        value = row.get(name)
        if isinstance(value, (str, int)) and str(value).strip():
            return textwrap.dedent(str(value)).strip("\n").rstrip()
        if isinstance(value, Sequence) and value and not isinstance(value, str):
            return "\n".join(str(line) for line in value)
    return ""


def _called_by(tests: str, code: str) -> str:
    """The function that the first assert calls: one that `code` defines, else that nothing does."""
    names = {n.name for n in _tree(code) if isinstance(n, ast.FunctionDef)}
    names = names or _free_names(tests)
    for statement in _tree(tests):
        if not isinstance(statement, ast.Assert):
            continue
        for node in ast.walk(statement):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in names:
                return called.id
    return ""


def _tree(source: str) -> list[ast.stmt]:
    try:
        return parse(source).body
    except ERRORS:
        return []  # a statement in prose is the usual case


def _free_names(tests: str) -> set[str]:
    try:
        return free_names(tests) - vars(builtins).keys()
    except ERRORS:
        return set()  # which `read_tests` names


def _read_statement(prompt: str, entry_point: str) -> tuple[str, str]:
    """(preamble, signature) of a problem statement that is Python, else ("", "")."""
    body = _tree(prompt)
    preamble = "\n".join(
        ast.unparse(node)
        for node in body
        if not (isinstance(node, ast.FunctionDef) and node.name == entry_point)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )
    return preamble, _signature(prompt, entry_point)


def _signature(source: str, entry_point: str) -> str:
    for node in _tree(source):
        if isinstance(node, ast.FunctionDef) and node.name == entry_point:
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"{entry_point}({ast.unparse(node.args)}){returns}"
    return ""
