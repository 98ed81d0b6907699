"""Whose fault it is that a run was cut: from who worked, for whom, and for how long.

Owns pure rules on the seconds of a `ledger`. Failures that the judge sees by itself are charged
where they happen (`jail.routing`).
"""

from __future__ import annotations

from collections.abc import Mapping

from .jail.ledger import JUDGE, NOBODY, Seconds


def of_wall(seconds: Seconds) -> str | None:
    """The author who answers for most of the elapsed time; None where none does."""
    return _most({author: _sum(seconds, author=author) for _, author in seconds})


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


def _sum(seconds: Seconds, author: str) -> float:
    return sum(spent for (_, a), spent in seconds.items() if a == author)


def _most(seconds: Mapping[str, float]) -> str | None:
    author = max(seconds, key=lambda name: seconds[name], default=NOBODY)
    return author if author != NOBODY and seconds[author] > 0 else None
