"""Partners that know nothing: other answers in place of a helper's, and uses that need no main.

Owns pure functions of values. They run in the judge, on what crosses between two programs that stay
as they are: nothing in the process of either tells that its partner is replaced, and nothing that
one of them is made of can stop the replacement. Who replaces what, and why, is not known here.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from . import codec

KINDS = ("wrong", "argument", "length", "constant", "error")
DRAWN_FROM = 2_000  # characters of the arguments
ERROR = {"raised": ["ValueError"], "message": "no value"}


@dataclass(frozen=True)
class Replacement:
    """What main gets in place of each value that a lent function returns.

    The function is called as ever, and what it raises arrives as ever. Raises ValueError if a field
    is out of range.
    """

    kind: str
    """One of `KINDS`: a plausible wrong value, the first argument, its length, one value every
    time, a ValueError."""
    way: int = 0
    """Of "wrong": which of `WAYS`. A wrong value depends on the way, the arguments and the
    value alone; the first way keeps lengths."""
    value: str = "null"
    """Of "constant": the encoded value as JSON."""
    WAYS: ClassVar[int] = 3
    """Ways of being wrong, numbered from 0."""

    @staticmethod
    def constant(value: Any) -> Replacement | None:
        """That by one value; None for a value that is not plain."""
        data = codec.encode_any(copy.deepcopy(value))  # encoding eats iterators
        opaque = codec.decode_checked(data)[1]
        return None if opaque else Replacement("constant", value=codec.canonical(data))

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: expected one of {KINDS}")
        if type(self.way) is not int or not 0 <= self.way < self.WAYS:
            raise ValueError(f"way={self.way!r}: expected a whole number from 0 to {self.WAYS - 1}")

    def answer(self, args: Sequence[Any], kwargs: Sequence[Any], value: Any) -> dict[str, Any]:
        """What is sent to main in place of `value`; all encoded, `kwargs` as pairs."""
        if self.kind == "error":
            return ERROR
        if self.kind == "constant":
            return {"value": json.loads(self.value)}
        arguments = [*args, *(argument for _, argument in kwargs)]
        if self.kind == "wrong":
            return {"value": _wrong(value, codec.canonical(arguments)[:DRAWN_FROM], self.way)}
        first = arguments[0] if arguments else None
        return {"value": first if self.kind == "argument" else _length(first)}


def trivial_uses(value: Any) -> list[Any]:
    """What a main that leaves all work to a helper makes of its value: an item, another type.

    Args:
        value: encoded, as are the items of the answer.
    """
    if type(value) is str:
        return [*value[:1], *_tried(int, value)]
    if type(value) is float:
        return _tried(int, value)
    if type(value) is bool or type(value) is int:
        return [str(value)]
    if type(value) is list:
        return [*value[:1], {"t": value}]
    if type(value) is not dict:
        return []
    ((tag, body),) = value.items()
    if tag in ("d", "o"):
        return [*(item for _, item in body[:1]), [key for key, _ in body]]
    return [*body[:1], body] if type(body) is list and tag in "tsfgq" else []


def _tried(convert: Callable[[Any], Any], value: Any) -> list[Any]:
    try:
        return [codec.encode(convert(value))]
    except (ValueError, OverflowError):
        return []


def _length(value: Any) -> int:
    plain = codec.decode(value)
    try:
        return len(plain) if hasattr(plain, "__len__") else 0
    except OverflowError:  # a very long range
        return 0


def _wrong(value: Any, arguments: str, way: int) -> Any:
    draw = zlib.crc32(arguments.encode("utf-8", "surrogatepass"))
    try:
        return codec.encode(_Wrong(way).of(codec.decode(value), draw))
    except codec.CodecError:  # so many empty lists that one item in each is too much to send
        return value


class _Wrong:
    """Plausible wrong values of one way. No two ways give the same number.

    Only the outermost sequence grows, so a value of any nesting becomes at most twice as long.
    """

    def __init__(self, way: int) -> None:
        self.way = way
        self.depth = 0

    def of(self, value: Any, draw: int) -> Any:
        """A wrong value of the same type; `value` itself where nothing is known of its type."""
        self.depth += 1
        wrong = self._of(value, draw)
        self.depth -= 1
        return wrong

    def _of(self, value: Any, draw: int) -> Any:
        near = 1 + draw % 3
        step = (near, -near, near + 3)[self.way]
        kind = type(value)
        if kind is bool:
            return not value
        if value is None:
            return step
        if kind in _MOVES:
            return _moved(value, _MOVES[kind](step))
        if kind is str:
            return self._text(value, step)
        if kind in (bytes, bytearray):
            wrong = [(byte + step) % 256 for byte in value]
            return kind(self._sequence(wrong, step % 256))
        return self._container(value, kind, step, draw)

    def _container(self, value: Any, kind: Any, step: int, draw: int) -> Any:
        """A container of wrong items, under the same keys."""
        if kind in (list, tuple, deque) or hasattr(value, "__next__"):
            wrong = self._sequence([self.of(x, draw + i) for i, x in enumerate(value)], step)
            return kind(wrong) if kind in (list, tuple, deque) else iter(wrong)
        if kind in (set, frozenset):
            return kind(self.of(item, draw) for item in value) or kind([step])
        if kind in (dict, OrderedDict):
            wrong = {key: self.of(item, draw) for key, item in value.items()}
            return kind(wrong or {step: step})
        if kind is range:
            return range(value.start + step, value.stop + step, value.step)
        return value

    def _sequence(self, wrong: list[Any], filler: Any) -> list[Any]:
        """Wrong items, by the way as they are, turned by one and longer, or reversed and longer."""
        if not wrong:
            return [filler]
        turned = (wrong, wrong[1:] + wrong[:1], wrong[::-1])[self.way]
        return [*turned, turned[0]] if self.way and self.depth == 1 else turned

    def _text(self, value: str, step: int) -> str:
        """As `_sequence`, with other digits for digits and other letters for letters."""
        wrong = "".join(_letter(character, step) for character in value)
        if wrong == value:
            wrong = value[:-1] + chr(100 + step)
        return "".join(self._sequence(list(wrong), ""))


def _letter(character: str, step: int) -> str:
    if character.isdigit():
        return chr(48 + (ord(character) + step) % 10)
    return chr(97 + (ord(character) + step) % 26) if character.isalpha() else character


_MOVES: dict[type, Callable[[int], Any]] = {
    int: int,
    complex: int,
    float: lambda step: step / 2,
    Decimal: Decimal,
    Fraction: int,
    dt.date: lambda step: dt.timedelta(days=step),
    dt.datetime: lambda step: dt.timedelta(days=step),
    dt.timedelta: lambda step: dt.timedelta(days=step),
}
"""Type of a number or a date -> what a step adds to it."""


def _moved(value: Any, by: Any) -> Any:
    """`value + by`; where that is none, or no other value, a small one of the type."""
    try:
        moved = value + by
        if moved == moved and moved != value:
            return moved
    except ArithmeticError:  # a date at the end of time, a Decimal that signals
        pass
    return type(value)(by) if isinstance(value, (float, complex, Decimal)) else value - by
