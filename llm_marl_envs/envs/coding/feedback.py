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
from collections.abc import Mapping, Sequence

from llm_marl_envs.envs.coding.attempt import Work
from llm_marl_envs.envs.coding.rows import own_line
from llm_marl_envs.sandbox import TestOutcome, Verdict
from llm_marl_envs.sandbox.jail.source import ERRORS, parse

REVISE = "Revise your code. Reply with code only."
MAX_TEST_CHARS = 200
MAX_ERROR_CHARS = 200
MAX_PARTNER_CHARS = 4000


def feedback(
    work: Work,
    verdict: Verdict,
    role: str,
    mode: str,
    private: bool,
    heard: Mapping[str, str],
    values: bool = True,
) -> str:
    """What the author `role` is told.

    Args:
        work: the programs of this turn.
        verdict: what came of them.
        role: who is told.
        mode: "plain", "diagnostics" or "partner".
        private: quote nothing that a partner's program can choose (`info="split"`); the mode
            "partner" shows the partners' code all the same.
        heard: role -> what the mode "partner" shows of its code.
        values: whether it may be told what a test returned or raised, which programs choose.
    """
    if mode == "plain":
        own = work.programs[role]
        return REVISE if own.parses else f"{_program_line(work, role, role)}\n{REVISE}"
    partners = [name for name in work.programs if name != role]
    lines = [_program_line(work, name, role) for name in (role, *partners)]
    lines.append(_tests_line(work, verdict, role, private, values))
    if mode == "partner":
        lines += [
            f"{_code_of(work, name, role)}:\n{heard.get(name) or '(nothing)'}" for name in partners
        ]
    lines.append(REVISE)
    return "\n".join(lines)


def _code_of(work: Work, role: str, reader: str) -> str:
    """What a program is called before `reader`: of several partners, by their functions."""
    if role == reader:
        return "Your code"
    return "Your partner's code" if len(work.programs) == 2 else f"The code for {work.names[role]}"


def _program_line(work: Work, role: str, reader: str) -> str:
    program, name, code = work.programs[role], work.names[role], _code_of(work, role, reader)
    if not program.parses:
        why = f": {program.error}" if role == reader else ""
        return f"{code} does not parse{why}{program.place}."
    if not work.defined[role]:
        return f"{code} defines no function {name} that returns a value."
    return f"{code} defines {name}."


def _tests_line(work: Work, verdict: Verdict, role: str, private: bool, values: bool) -> str:
    index, error = _first_failure(verdict.outcomes)
    if verdict.author and not error:
        if role == verdict.author:
            detail = _own_line(verdict.detail, work, role)
            detail = public_load_error(detail) if private else detail
            return f"Your code failed: {detail[:MAX_ERROR_CHARS]}."
        return f"{_code_of(work, verdict.author, role)} failed, so no test was run."
    passed = f"{verdict.passed} of {len(work.units)} tests passed."
    if not error:
        return passed
    shown = public_error(error) if private else error
    failing = work.units[index][:MAX_TEST_CHARS]
    why = f": {shown[:MAX_ERROR_CHARS]}" if values else ""
    return f"{passed} First failing test: {failing}{why}."


def _first_failure(outcomes: Sequence[TestOutcome]) -> tuple[int, str]:
    """Index and error of the first failing test that was reached; error "" if none was."""
    for index, outcome in enumerate(outcomes):
        if not outcome.passed and outcome.error:
            return index, outcome.error
    return 0, ""


def _own_line(detail: str, work: Work, author: str) -> str:
    """A load error with its line counted in the author's own text, not behind the preamble."""
    program = work.programs[author]
    if program.tree is None:
        return detail

    def line(match: re.Match[str]) -> str:
        own = own_line(program.source, work.task.data["preamble"], int(match[1]))
        return f", line {own}"

    return re.sub(r", line (\d+)", line, detail, count=1)


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
