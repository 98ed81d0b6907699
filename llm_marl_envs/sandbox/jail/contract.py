"""What a lent function may be called with, as its author was told.

Owns the record and the judgement of arguments in their encoded form. It is data: it travels to the
judge as JSON and no program evaluates it. Whom a failure is charged to is `routing`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

KINDS = ("int", "ints", "pair")
"""Kinds of arguments: an int, a list or tuple of ints, a list or tuple of two ints."""


@dataclass(frozen=True)
class Contract:
    """The calls of a function for whose outcome its author answers; the caller for all others.

    Raises ValueError if a field is out of range.
    """

    forms: tuple[tuple[str, ...], ...] = ()
    """Positional arguments, each one of `KINDS`; any form will do. None: any plain values, by
    position or by keyword."""
    largest: int = 10**9
    """Magnitude of any finite number, at least 0."""
    size: int = 20_000
    """Values and characters in all arguments together, at least 1."""
    calls: int = 1_000
    """Calls in one run, at least 0; those after them are the caller's."""

    def __post_init__(self) -> None:
        unknown = sorted({kind for form in self.forms for kind in form} - set(KINDS))
        if unknown:
            raise ValueError(f"forms name {unknown}; expected kinds of {KINDS}")
        for name, least in (("largest", 0), ("size", 1), ("calls", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")

    @staticmethod
    def of(data: dict[str, Any]) -> Contract:
        """The record that `dataclasses.asdict` and JSON made `data` of."""
        return Contract(**{**data, "forms": tuple(tuple(form) for form in data["forms"])})

    def allows(self, args: Sequence[Any], kwargs: Sequence[Any]) -> bool:
        """Whether one call is allowed. `args` are encoded, `kwargs` pairs of name and encoded."""
        if self.forms and (kwargs or not any(_fits(form, args) for form in self.forms)):
            return False
        return self._holds([*args, *(value for _, value in kwargs)])

    def _holds(self, waiting: list[Any]) -> bool:
        """Whether encoded values, plain all of them, keep to `largest` and `size`."""
        size = 0
        while waiting:
            data = waiting.pop()
            size += 1
            if type(data) is dict:
                ((tag, body),) = data.items()
                if tag == "i":  # an int of 2**62 or more
                    data = int(body, 16)
                elif tag == "D":
                    data = Decimal(body)
                elif tag == "r" and all(type(part) is int for part in body):
                    size += len(range(*body))
                else:
                    waiting.append(body)
            if type(data) is list:
                waiting += data
            elif type(data) is str:
                size += len(data)
            elif not _is_small(data, self.largest):
                return False
            if size > self.size:
                return False
        return True


def _is_small(data: Any, largest: int) -> bool:
    """Whether no finite number of magnitude above `largest`; infinities and NaN are small."""
    if type(data) is Decimal:
        return not data.is_finite() or -largest <= data <= largest
    if type(data) is float and data - data != 0:
        return True
    return type(data) not in (int, float) or -largest <= data <= largest


def _fits(form: Sequence[str], args: Sequence[Any]) -> bool:
    return len(form) == len(args) and all(map(_is_a, args, form))


def _is_a(data: Any, kind: str) -> bool:
    if kind == "int":
        return type(data) is int
    items = data["t"] if type(data) is dict and "t" in data else data
    if type(items) is not list or not all(type(item) is int for item in items):
        return False
    return kind == "ints" or len(items) == 2
