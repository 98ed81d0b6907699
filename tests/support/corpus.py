"""Reads the corpus of programs, and adds those that no text file can hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llm_marl_envs.sandbox import STATUSES

HERE = Path(__file__).parent
WRONG = "def solve(xs):\n    return -1"
RIGHT = "def solve(xs):\n    return sum(x * x for x in xs)\n"
FAILING = [status for status in STATUSES if status not in ("pass", "infra_error")]
TESTS = """
import math
def check(candidate):
    assert candidate([1, 2, 3]) == 14
    assert candidate([]) == 0
    assert abs(candidate([0.5]) - 0.25) < 1e-9
    assert candidate([-1, 1]) == 2
    assert math.isclose(candidate([2, 2]), 8)
    assert candidate(list(range(10))) == 285
    assert all([candidate([x]) == x * x for x in (3, 4, 5)])
"""


@dataclass(frozen=True)
class Case:
    """A program and the statuses that it may get."""

    id: str
    what: str
    source: str
    expected: tuple[str, ...]


def hostile() -> list[Case]:
    """Every hostile program."""
    return _read("hostile.txt") + _generated()


def legitimate() -> list[Case]:
    """Every legitimate program."""
    return _read("legitimate.txt")


def _read(name: str) -> list[Case]:
    cases = []
    for block in (HERE / name).read_text(encoding="utf-8").split("\n=== ")[1:]:
        head, _, source = block.partition("\n")
        case_id, what, *expected = (part.strip() for part in head.split(" | "))
        words = expected[0].split() if expected else ["pass"]
        statuses = tuple(FAILING if "any" in words else words)
        cases.append(Case(case_id, what, source.replace("@wrong", WRONG), statuses))
    return cases


def _generated() -> list[Case]:
    load = ("load_error",)
    nothing = ("no_entry_point",)
    deep = ("load_error", "memory", "died")
    big = "# " + "x" * (1 << 20) + "\n"
    return [
        Case("N01", "NUL byte", WRONG + "\n\0", load),
        Case("N02", "lone surrogate in a string", f"x = '\ud800'\n{WRONG}", load),
        Case("N03", "lone surrogate in a name", "\udcff = 1", load),
        Case("N04", "50,000 nested parentheses", "(" * 50000 + ")" * 50000, deep),
        Case("N05", "1 MB of unary operators", "x = " + "-" * (1 << 20) + "1", deep),
        Case("N06", "50,000 nested lists", "x = " + "[" * 50000, deep),
        Case("N07", "50,000 attributes in a row", "x = a" + ".a" * 50000, ("load_error", *deep)),
        Case("N08", "empty text", "", nothing),
        Case("N09", "comments only", "# solve\n" * 3, nothing),
        Case("N10", "1 MB, wrong", big + WRONG, ("wrong",)),
        Case("N11", "byte order mark in the middle", "def solve(xs):\n    return \ufeff1", load),
        Case("N12", "form feeds and line separators", "\f\u2028" + WRONG, (*load, "wrong")),
        Case("N13", "900 nested blocks", "\n".join(" " * i + "if 1:" for i in range(900)), load),
        Case("N14", "an integer of 100,000 digits", "x = " + "9" * 100000, load),
        Case("N15", "10,000 nested f-strings", "x = " + "f'{" * 10000, load),
        Case(
            "N16", "deep string concatenation", "x = " + "+".join(["1"] * 200000), (*deep, *nothing)
        ),
        Case("N17", "carriage returns only", WRONG.replace("\n", "\r"), ("wrong", *load)),
        Case("N18", "prompt text, no code", "I cannot help with that. " * 1000, load),
    ]
