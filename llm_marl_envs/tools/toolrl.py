"""What ToolRL pays for a call (arXiv 2504.13958): its form, and how near it is to a known one.

    known   calculate(expression="6 / 3")
    called  calculate(expression="6 / 3")   match  3
            calculate(expression="6 - 3")   match  1: tool and parameter, not the value
            search(words="6")               match -3

`match` is `6 R / S - 3`, where R counts what agrees: the name, the share of parameters, and each
value; S is the most that R can be. It lies in [-3, 3]. Pure functions.

Deviations from the paper: (1) a call is a turn here, so each is compared with the known one of its
place, and a set of calls in one answer does not occur; (2) an answer that calls nothing where a
call is known gets what the rules pay; (3) blanks in values do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BEST, WORST = 3.0, -3.0
FORMAT = 1.0
KnownCall = tuple[str, Mapping[str, Any]]
"""Tool and arguments."""


def match(tool: str, arguments: Mapping[str, Any], known: KnownCall | None) -> float:
    """How near a call is to the known one, in [-3, 3]; -3 where none is known."""
    if known is None or tool != known[0]:
        return WORST
    _, right = known
    names = {*right, *arguments}
    shared = len(right.keys() & arguments.keys()) / len(names) if names else 1.0
    values = sum(_same(arguments.get(name), value) for name, value in right.items())
    return (BEST - WORST) * (1 + shared + values) / (2 + len(right)) + WORST


def _same(value: Any, right: Any) -> bool:
    if isinstance(value, str) and isinstance(right, str):
        return value.split() == right.split()
    return type(value) is type(right) and value == right
