"""Whose fault it is that a run was cut: from who worked, for whom, and for how long.

Owns pure rules on the seconds of a `ledger`. Failures that the judge sees by itself are charged
where they happen (`jail.routing`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from .jail.ledger import JUDGE, NOBODY, Seconds


def of_wall(seconds: Seconds) -> str | None:
    """The author who answers for most of the elapsed time; None where none does."""
    totals: dict[str, float] = defaultdict(float)
    for (_, author), spent in seconds.items():
        totals[author] += spent
    return _most(totals)


def of_tests(seconds: Seconds) -> str | None:
    """The author of the values on which the tests spent most time; None where that is nobody."""
    return _most({author: spent for (p, author), spent in seconds.items() if p == JUDGE})


def of_program(seconds: Seconds, program: str, cpu_s: float) -> str:
    """Who answers for a program that used `cpu_s` of processor time.

    Another author does if calls for which that author answers took longer than the program's
    other calls, and than what it used outside of them.
    """
    others = {a: s for (process, a), s in seconds.items() if process == program != a}
    caller = _most(others) or program
    spent = others.get(caller, 0.0)
    own = max(seconds.get((program, program), 0.0), cpu_s - spent)
    return caller if spent > own else program


def _most(seconds: Mapping[str, float]) -> str | None:
    author = max(seconds, key=lambda name: seconds[name], default=NOBODY)
    return author if author != NOBODY and seconds[author] > 0 else None
