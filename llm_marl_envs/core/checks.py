"""What people write by hand: names that nobody knows, and values of the wrong type.

Owns the words of these errors. Which names and types there are is known where they are read.
"""

from __future__ import annotations

import difflib
import inspect
import operator
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

MOST_SUGGESTIONS = 5
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def suggestion(name: Any, choices: Iterable[str], also: Iterable[str] = ()) -> str:
    """What to add to an error: at most five names that are near, or all where they are few.

    Empty where none is near and there are many.

    Args:
        name: what was written.
        choices: what there is.
        also: names that are known to be mistaken for `name`, shown first.
    """
    names = [str(choice) for choice in choices]
    text = str(name).lower()
    near = difflib.get_close_matches(text, names, n=MOST_SUGGESTIONS)
    parts = [part for part in names if len(text) > 2 and text in part]
    suggestions = list(dict.fromkeys([*also, *near, *parts]))[:MOST_SUGGESTIONS]
    if suggestions:
        return f"; did you mean {' or '.join(map(repr, suggestions))}?"
    return f"; known: {sorted(names)}" if len(names) <= MOST_SUGGESTIONS else ""


def refuse_unknown(
    where: Any,
    mapping: Mapping[Any, Any],
    keys: Iterable[str],
    mistaken: Mapping[str, str] | None = None,
    listed: str = "",
) -> None:
    """Raise where a key is unknown.

    Args:
        where: begins the message.
        mapping: its keys are looked at.
        keys: the keys that there are.
        mistaken: what people write -> the key that they mean.
        listed: where all are listed; said where none is near.

    Raises:
        ValueError: names the first unknown key and at most five near ones.
    """
    names = list(keys)
    for key in mapping:
        if key not in names:
            meant = [mistaken[key]] if mistaken and key in mistaken else []
            hint = suggestion(key, names, meant) or (listed and f"; {listed} lists them")
            raise ValueError(f"{where}: unknown key {key!r:.200}{hint}")


def refuse_other(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise `ValueError` where the argument `name` is none of the values `choices`."""
    if value not in choices:
        raise ValueError(f"{name}={value!r:.200}: expected one of {tuple(choices)}")


def seed_of(value: Any, name: str = "seed") -> int:
    """A seed as `int`: a whole number of any type, numpy's too.

    Raises:
        TypeError: True, 1.0, "3", or what else is no whole number.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name}={value!r:.80}: expected a whole number, got {type(value).__name__}"
        )
    try:
        return operator.index(value)
    except TypeError as error:  # an array of several, of floats or of truth values
        raise TypeError(f"{name}={value!r:.80}: expected a whole number ({error})") from error


def check_whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise `ValueError` where an argument is no whole number from `low` to `high` (None: any)."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"{low} to {high}"
        raise ValueError(f"{name}={value!r:.60}: expected a whole number, {expected}")


def check_types(where: str, values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise where a value cannot be of the type that stands in a hint.

    Looks at numbers, texts, truth values, lists and maps, and at the unions of them; any other
    hint accepts everything. A whole number is a number, a truth value is none.

    Args:
        where: begins the message; may be empty.
        values: name -> value.
        hints: name -> its type; names without one are not looked at.

    Raises:
        TypeError: names the first value that cannot be right.
    """
    for name, value in values.items():
        accepted = _words(hints[name], value) if name in hints else None
        if accepted is not None:
            begin = f"{where}: " if where else ""
            hint = ", without quotes" if isinstance(value, str) and _is_number(value) else ""
            raise TypeError(
                f"{begin}{name}={value!r:.80}: expected {' or '.join(accepted)}{hint}, "
                f"got {type(value).__name__}"
            )


def check_maker(what: str, make: Any, arguments: Iterable[Any], expected: str) -> None:
    """Raise where what a name stands for cannot be called as it will be.

    Args:
        what: begins the message.
        make: what the name stands for.
        arguments: what it will be called with.
        expected: what it should be, in words.

    Raises:
        TypeError: it is nothing to call, or takes other arguments.
    """
    try:
        inspect.signature(make).bind(*arguments)
    except TypeError as error:
        raise TypeError(f"{what}: expected {expected}, got {make!r:.80} ({error})") from error
    except ValueError:  # built in: it does not say what it takes
        return


def _words(hint: Any, value: Any) -> list[str] | None:
    """What a hint accepts, in words, where `value` is none of it; None where it may be."""
    accepted: dict[str, None] = {}
    for member in _members(hint):
        fits, words = _fit(member, value)
        if fits:
            return None
        accepted |= dict.fromkeys(words)
    return list(accepted)


def _fit(hint: Any, value: Any) -> tuple[bool, list[str]]:
    """Whether a hint that is no union accepts `value`, and what it accepts, in words."""
    kind = typing.get_origin(hint) or hint
    if kind is typing.Literal:
        options = typing.get_args(hint)
        return value in options, [repr(option) for option in options]
    if kind is type(None):
        return value is None, ["nothing"]
    if kind in (list, tuple):
        return isinstance(value, (list, tuple)), ["a list"]
    if kind in (dict, Mapping):
        return isinstance(value, Mapping), ["a map"]
    if kind in _WORDS:
        return _is_a(value, kind), [_WORDS[kind]]
    if isinstance(kind, type) and issubclass(kind, Enum) and issubclass(kind, str):
        return isinstance(value, str), ["text"]
    return True, []


def _members(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def _is_a(value: Any, kind: type) -> bool:
    if kind is str or kind is bool:
        return isinstance(value, kind)
    if isinstance(value, (bool, str)):
        return False
    name = "__index__" if kind is int else "__float__"  # of numpy, too
    return hasattr(value, name)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
