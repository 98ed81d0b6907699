"""What agents are told between turns about the code they wrote.

Owns the words and what they may reveal. "plain" tells an agent about its own syntax alone, which it
could have found out itself. The other modes tell more: under `info="split"` a text that the
partner's program can choose (an exception's message, a returned string) is never quoted, yet
expected values, and even the number of tests that passed, hint at the private operation.
"""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass

from llm_marl_envs.coding.syntax import Program
from llm_marl_envs.sandbox.jail.source import ERRORS, parse

MODES = ("plain", "diagnostics", "partner")
REVISE = "Revise your code. Reply with code only."
MAX_TEST_CHARS = 200
MAX_ERROR_CHARS = 200
MAX_PARTNER_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one turn showed, before it is put into words.

    Attributes:
        programs: role -> program.
        defined: role -> whether it defines its function with a returned value.
        names: role -> the function it is to define.
        passed, total: tests.
        failing: source of the first failing test, "" where none was reached.
        error: what went wrong in it.
        charged: the role to which a load error or a crash is charged, "" for none.
        detail: that error, its line counted in the author's own text.
    """

    programs: dict[str, Program]
    defined: dict[str, bool]
    names: dict[str, str]
    passed: int
    total: int
    failing: str
    error: str
    charged: str
    detail: str


def feedback(report: Report, role: str, mode: str, private: bool) -> str:
    """What the author `role` is told.

    Args:
        report: the turn.
        role: who is told.
        mode: one of `MODES`.
        private: quote nothing that the partner's program can choose (`info="split"`); the mode
            "partner" shows the partner's code all the same.

    Raises:
        ValueError: unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"feedback={mode!r}: expected one of {MODES}")
    if mode == "plain":
        own = report.programs[role]
        return REVISE if own.parses else f"{_program_line(report, role, 'Your')}\n{REVISE}"
    partner = next(name for name in report.programs if name != role)
    lines = [_program_line(report, role, "Your"), _program_line(report, partner, "Your partner's")]
    lines.append(_tests_line(report, role, private))
    if mode == "partner":
        code = report.programs[partner].source[:MAX_PARTNER_CHARS]
        lines.append(f"Your partner's code:\n{code or '(nothing)'}")
    lines.append(REVISE)
    return "\n".join(lines)


def _program_line(report: Report, role: str, whose: str) -> str:
    program, name = report.programs[role], report.names[role]
    own = whose == "Your"
    if not program.parses:
        where = f", line {program.line}, column {program.column}" if program.line else ""
        why = f": {program.error}" if own else ""
        return f"{whose} code does not parse{why}{where}."
    if not report.defined[role]:
        return f"{whose} code defines no function {name} that returns a value."
    return f"{whose} code defines {name}."


def _tests_line(report: Report, role: str, private: bool) -> str:
    if report.charged and not report.failing:
        if role == report.charged:
            detail = public_load_error(report.detail) if private else report.detail
            return f"Your code failed: {detail[:MAX_ERROR_CHARS]}."
        return "Your partner's code failed, so no test was run."
    if not report.failing:
        return f"{report.passed} of {report.total} tests passed."
    error = public_error(report.error) if private else report.error
    return (
        f"{report.passed} of {report.total} tests passed. First failing test: "
        f"{report.failing[:MAX_TEST_CHARS]}: {error[:MAX_ERROR_CHARS]}."
    )


def public_error(error: str) -> str:
    """A test's error without any text that a program chose: numbers and built-in names only."""
    _, returned, value = error.rpartition(" returned ")
    if returned:
        return f"returned {value}" if _is_numbers(value) else "returned something else"
    name = _builtin_name(error.rpartition(" raised ")[2])
    return f"raised {name}" if name else "an error"


def public_load_error(detail: str) -> str:
    """A load error without its message, which may quote what the partner's function returned."""
    place = re.search(r", line \d+(, column \d+)?$", detail)
    return (_builtin_name(detail) or "an error") + (place[0] if place else "")


def _builtin_name(text: str) -> str:
    """The name of a built-in class that a text starts with, "" if it starts with none."""
    name = text.split(":")[0].split(",")[0].strip()
    return name if isinstance(getattr(builtins, name, None), type) else ""


def _is_numbers(text: str) -> bool:
    """Whether a text is the repr of None, numbers, or (possibly cut) lists of them."""
    try:
        tree = parse(text, mode="eval")
    except ERRORS:
        return False
    return all(
        isinstance(node.value, (int, float, complex, type(None), type(...)))
        if isinstance(node, ast.Constant)
        else isinstance(
            node,
            (ast.Expression, ast.List, ast.Tuple, ast.Set, ast.Load, ast.UnaryOp, ast.USub),
        )
        for node in ast.walk(tree)
    )
