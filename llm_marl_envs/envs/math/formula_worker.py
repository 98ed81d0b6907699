"""The process that compares formulas: lines of JSON come in, `true` or `false` goes out.

Run as a program by `formulas.py`. It imports nothing of this library.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from importlib import import_module
from typing import Any

CPU_S = 3.0
"""Processor seconds for one comparison; the system ends the process after them."""
MEMORY_BYTES = 2 * 1024**3
NEAR = 1e-5
"""The library takes decimals that are equal to six digits for equal."""


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """End this process after so much processor time; 0 ends the limit.

    SIGPROF's default ends a process at once, also within one long operation in C.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _differ(ours: Any, theirs: Any) -> bool:
    """Whether two formulas have different values where their letters stand for some numbers.

    That is quick where a proof that they differ is not: `((x+1)^{12}+1)^{12}` and `x`.
    """
    sympy: Any = import_module("sympy")

    if not all(isinstance(formula, sympy.Expr) for formula in (ours, theirs)):
        return False
    if any(formula.has(sympy.UnevaluatedExpr) for formula in (ours, theirs)):
        return False  # `50\\%` is 50 to the library, and a half
    if any(formula.is_Symbol and len(formula.name) > 1 for formula in (ours, theirs)):
        return False  # a word, which the library compares with a product of letters
    letters = sorted(ours.free_symbols | theirs.free_symbols, key=str)
    numbers = {letter: sympy.Float(1.2345 + n / 7) for n, letter in enumerate(letters)}
    first, second = (formula.evalf(subs=numbers) for formula in (ours, theirs))
    if not all(formula.is_number and formula.is_finite for formula in (first, second)):
        return False
    return bool(abs(first - second) > NEAR * (1 + abs(second)))


def _same(right: str, answer: str) -> bool:
    library: Any = import_module("math_verify")
    latex = [library.LatexExtractionConfig()]  # the other reader calls a parser of Python
    ours, theirs = (
        library.parse(f"${text}$", latex, parsing_timeout=None) for text in (answer, right)
    )
    if not ours or not theirs or _differ(ours[0], theirs[0]):
        return False
    return bool(library.verify(theirs, ours, timeout_seconds=None))


def main() -> None:
    """Compare until nobody asks any more."""
    logging.disable(logging.CRITICAL)
    try:
        _same("1", "1")  # loads everything
    except ImportError as error:
        print(error, flush=True)
        return
    _limit_memory()
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        _limit_time(CPU_S)
        try:
            same = _same(asked["right"], asked["answer"])
        except Exception:  # noqa: BLE001 - whatever a text does to the library, it is wrong
            same = False
        _limit_time(0)
        print("true" if same else "false", flush=True)


if __name__ == "__main__":
    main()
