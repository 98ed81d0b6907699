"""Values that may cross between processes, as JSON.

Owns the encoding of exact built-in types and a decoder that yields nothing else. `decode` runs no
code that a program wrote: what comes out are plain values, however the bytes were made. Does not
own framing (`wire`). Everything that is not plain becomes an `Opaque`, which equals nothing.

Scalars and lists are themselves; any other type is an object with one key, its tag.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

MAX_NODES = 200_000  # values in one message
MAX_DEPTH = 80  # nesting of one value
MAX_ITEMS = 20_000  # items taken from an iterator
MAX_DIGITS = 1_000  # characters of a Decimal
MAX_NAME = 60
_SCALARS = frozenset((type(None), bool, int, float, str))
JSON_INT = 1 << 62  # larger integers travel as hexadecimal text

BUILTIN_TYPES = {
    t.__name__: t
    for t in (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
} | {"NoneType": type(None), "range": range, "object": object, "type": type}


class CodecError(ValueError):
    """A value that cannot be sent, or a message that is no encoded value."""


class Opaque:
    """Stands for a value that is not plain. Equal to nothing, not even to itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


class _Encoder:
    """Encodes one value. Runs beside untrusted code; its output is believed by nobody."""

    def __init__(self) -> None:
        self.nodes = 0
        self.depth = 0

    def encode(self, value: Any) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise CodecError("the value is too large")
        kind = type(value)
        if value is None or kind is bool or kind is str or kind is float:
            return value
        if kind is int:
            return value if -JSON_INT < value < JSON_INT else {"i": hex(value)}
        if self.depth >= MAX_DEPTH:
            raise CodecError("the value is too deep")
        self.depth += 1
        writer = _WRITERS.get(kind)
        encoded = writer(self, value) if writer is not None else self.other(value, kind)
        self.depth -= 1
        return encoded

    def items(self, values: Any) -> list[Any]:
        return [self.encode(v) for v in values]

    def pairs(self, mapping: Any) -> list[Any]:
        return [[self.encode(k), self.encode(v)] for k, v in mapping]

    def unordered(self, values: Any) -> list[Any]:
        """Items of a set in an order that depends on the items alone."""
        return sorted(self.items(values), key=canonical)

    def other(self, value: Any, kind: type) -> Any:
        """Flatten subclasses through the methods of their base; name whatever is left."""
        for base, flatten in _BASES:
            if issubclass(kind, base):
                return self.encode(flatten(value))
        if issubclass(kind, type):
            name = value.__name__
            return {"y": name} if BUILTIN_TYPES.get(name) is value else {"x": name[:MAX_NAME]}
        if kind.__module__ == "numpy":
            return self.encode(value.tolist() if getattr(value, "ndim", 0) else value.item())
        if hasattr(value, "__next__") or kind in _VIEWS:
            return {"g": self.iterator(value)}
        return {"x": kind.__name__[:MAX_NAME]}

    def iterator(self, value: Any) -> list[Any]:
        items = self.items(islice(value, MAX_ITEMS + 1))
        if len(items) > MAX_ITEMS:
            raise CodecError("the iterator is too long")
        return items


_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_BASES: list[tuple[type, Callable[[Any], Any]]] = [
    (int, int.__index__),
    (float, float.__float__),
    (complex, complex.__complex__),
    (str, str.__str__),
    (bytes, bytes.__bytes__),
    (OrderedDict, lambda v: OrderedDict(OrderedDict.items(v))),
    (dict, lambda v: dict(dict.items(v))),
    (list, lambda v: list(list.__iter__(v))),
    (tuple, lambda v: tuple(tuple.__iter__(v))),
    (set, lambda v: set(set.__iter__(v))),
    (frozenset, lambda v: frozenset(frozenset.__iter__(v))),
    (deque, lambda v: deque(deque.__iter__(v))),
]
_WRITERS: dict[type, Callable[[_Encoder, Any], Any]] = {
    list: lambda e, v: e.items(v),
    tuple: lambda e, v: {"t": e.items(v)},
    dict: lambda e, v: {"d": e.pairs(v.items())},
    set: lambda e, v: {"s": e.unordered(v)},
    frozenset: lambda e, v: {"f": e.unordered(v)},
    bytes: lambda e, v: {"b": v.hex()},
    bytearray: lambda e, v: {"B": v.hex()},
    complex: lambda e, v: {"c": [v.real, v.imag]},
    range: lambda e, v: {"r": e.items((v.start, v.stop, v.step))},
    OrderedDict: lambda e, v: {"o": e.pairs(v.items())},
    deque: lambda e, v: {"q": e.items(v)},
    Decimal: lambda e, v: {"D": str(v)},
    Fraction: lambda e, v: {"F": e.items((v.numerator, v.denominator))},
    dt.date: lambda e, v: {"ymd": v.isoformat()},
    dt.datetime: lambda e, v: {"at": v.isoformat()},
    dt.time: lambda e, v: {"hms": v.isoformat()},
    dt.timedelta: lambda e, v: {"span": [v.days, v.seconds, v.microseconds]},
    Opaque: lambda e, v: {"x": str(v.name)[:MAX_NAME]},
}


def encode(value: Any) -> Any:
    """The JSON form of `value`. Raises CodecError if it is too large or too deep.

    Items of sets are sorted, so equal plain values have equal texts. A value that is not plain
    becomes an opaque token.
    """
    if type(value) in _SCALARS and (type(value) is not int or -JSON_INT < value < JSON_INT):
        return value
    return _Encoder().encode(value)


def encode_any(value: Any) -> Any:
    """Like `encode`, but a value that is too large or too deep becomes an opaque token."""
    try:
        return encode(value)
    except CodecError as error:
        return {"x": str(error)}


canonical = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""One text per encoded, type-strict value: 1, 1.0 and True differ. The sole key of an object needs
no sorting."""


class _Decoder:
    def __init__(self) -> None:
        self.nodes = 0
        self.depth = 0
        self.opaque = False

    def decode(self, data: Any) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise CodecError("the value is too large")
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        if self.depth >= MAX_DEPTH:
            raise CodecError("the value is too deep")
        self.depth += 1
        value = self.items(data) if type(data) is list else self.tagged(data)
        self.depth -= 1
        return value

    def tagged(self, data: Any) -> Any:
        if type(data) is not dict or len(data) != 1:
            raise CodecError("not an encoded value")
        ((tag, body),) = data.items()
        if tag not in _READERS:
            raise CodecError("unknown tag")
        return _READERS[tag](self, body)

    def items(self, body: Any) -> list[Any]:
        if type(body) is not list:
            raise CodecError("expected a list")
        return [self.decode(item) for item in body]

    def pairs(self, body: Any) -> list[tuple[Any, Any]]:
        if type(body) is not list:
            raise CodecError("expected a list of pairs")
        if any(type(pair) is not list or len(pair) != 2 for pair in body):
            raise CodecError("expected a pair")
        return [(self.decode(key), self.decode(value)) for key, value in body]

    def integers(self, body: Any, count: int) -> list[int]:
        values = self.items(body)
        if len(values) != count or any(type(v) is not int for v in values):
            raise CodecError(f"expected {count} integers")
        return values

    def floats(self, body: Any, count: int) -> list[float]:
        if type(body) is not list or len(body) != count or any(type(v) is not float for v in body):
            raise CodecError(f"expected {count} floats")
        return body

    def unknown(self, body: Any) -> Opaque:
        self.opaque = True
        return Opaque(_string(body, 4 * MAX_NAME)[:MAX_NAME])

    def builtin(self, body: Any) -> type:
        name = _string(body, MAX_NAME)
        if name not in BUILTIN_TYPES:
            raise CodecError("not a built-in type")
        return BUILTIN_TYPES[name]


def _string(body: Any, longest: int) -> str:
    if type(body) is not str or len(body) > longest:
        raise CodecError(f"expected a text of at most {longest} characters")
    return body


def _hexadecimal(body: Any) -> int:
    value = int(_string(body, 16 << 20), 16)
    if -JSON_INT < value < JSON_INT:
        raise CodecError("a small integer in the long form")
    return value


def _naive(value: Any) -> Any:
    if value.tzinfo is not None and type(value.tzinfo) is not dt.timezone:
        raise CodecError("unknown time zone")
    return value


_READERS: dict[str, Callable[[_Decoder, Any], Any]] = {
    "i": lambda d, b: _hexadecimal(b),
    "t": lambda d, b: tuple(d.items(b)),
    "d": lambda d, b: dict(d.pairs(b)),
    "s": lambda d, b: set(d.items(b)),
    "f": lambda d, b: frozenset(d.items(b)),
    "b": lambda d, b: bytes.fromhex(_string(b, 16 << 20)),
    "B": lambda d, b: bytearray.fromhex(_string(b, 16 << 20)),
    "c": lambda d, b: complex(*d.floats(b, 2)),
    "r": lambda d, b: range(*d.integers(b, 3)),
    "o": lambda d, b: OrderedDict(d.pairs(b)),
    "q": lambda d, b: deque(d.items(b)),
    "D": lambda d, b: Decimal(_string(b, MAX_DIGITS)),
    "F": lambda d, b: Fraction(*d.integers(b, 2)),
    "g": lambda d, b: iter(d.items(b)),
    "ymd": lambda d, b: dt.date.fromisoformat(_string(b, MAX_NAME)),
    "at": lambda d, b: _naive(dt.datetime.fromisoformat(_string(b, MAX_NAME))),
    "hms": lambda d, b: _naive(dt.time.fromisoformat(_string(b, MAX_NAME))),
    "span": lambda d, b: dt.timedelta(*d.integers(b, 3)),
    "y": lambda d, b: d.builtin(b),
    "x": lambda d, b: d.unknown(b),
}


def decode(data: Any) -> Any:
    """The plain value that `data` encodes. Raises CodecError for anything malformed."""
    return decode_checked(data)[0]


def decode_checked(data: Any) -> tuple[Any, bool]:
    """Like `decode`; the second item tells whether the value holds an `Opaque`."""
    if type(data) in _SCALARS:
        return data, False
    decoder = _Decoder()
    try:
        value = decoder.decode(data)
    except CodecError:
        raise
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        # A malformed body: bad digits, unhashable members, a zero denominator, an absurd date.
        raise CodecError(f"malformed value: {type(error).__name__}") from None
    return value, decoder.opaque
