"""How seats of a society are read: the only line of a text that is an amount, or another form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from llm_marl_envs.core.actions import MARK
from llm_marl_envs.core.parsing import answer_of, lines_of

AMOUNT = re.compile(r"[0-9]{1,1000}")
"""A whole number; signs and fractions are no amounts."""
T = TypeVar("T")


def only(text: str, form: Callable[[str], T | None]) -> T | None:
    """What the only line of a text that has a form says; None where none or several have it.

    Case is ignored, as are `Action:` before it and a full stop at its end. What stands before
    `</think>` is not read.

    Args:
        text: of a seat.
        form: a line in small letters -> what it says, or None.
    """
    forms = [
        said for line in lines_of(answer_of(text)) if (said := form(bare_of(line))) is not None
    ]
    return forms[0] if len(forms) == 1 else None


def bare_of(line: str) -> str:
    """A line in small letters, without the mark of an action and the full stop at its end."""
    return line.strip().lower().removeprefix(MARK).strip().removesuffix(".")


def number_of(line: str) -> int | None:
    """The amount that a line is."""
    return int(line) if AMOUNT.fullmatch(line) else None


def amount_of(text: str) -> int | None:
    """The amount that a text names; None where not exactly one of its lines is an amount."""
    return only(text, number_of)
