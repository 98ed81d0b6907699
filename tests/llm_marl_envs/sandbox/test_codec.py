"""The codec and the wire under random and malformed input."""

from __future__ import annotations

import json
import socket
import threading
from collections import OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_marl_envs.sandbox.jail import codec
from llm_marl_envs.sandbox.jail.wire import Channel, ProtocolError

QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PLAIN = (
    type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset,
    range, Decimal, Fraction, deque, OrderedDict, type, codec.Opaque, type(iter([])),
)  # fmt: skip
TAGS = [*codec._READERS, "z", ""]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.complex_numbers(allow_nan=False), st.fractions(), st.decimals(allow_nan=False),
    st.dates(), st.datetimes(), st.times(), st.timedeltas(),
)  # fmt: skip
hashable = st.recursive(
    scalars, lambda s: st.one_of(st.tuples(s, s), st.frozensets(s)), max_leaves=5
)
values = st.recursive(
    st.one_of(hashable, st.sets(hashable), st.binary().map(bytearray)),
    lambda s: st.one_of(
        st.lists(s), st.lists(s).map(tuple), st.dictionaries(hashable, s), st.lists(s).map(deque)
    ),
    max_leaves=8,
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda s: st.one_of(
        st.lists(s, max_size=4),
        st.dictionaries(st.sampled_from(TAGS), s, max_size=2),
        st.sampled_from(TAGS).flatmap(lambda tag: s.map(lambda body: {tag: body})),
    ),
    max_leaves=40,
)


def roundtrip(value: Any) -> None:
    text = json.dumps(codec.encode(value))
    back = codec.decode(json.loads(text))
    assert back == value
    assert type(back) is type(value)
    assert codec.canonical(codec.encode(back)) == codec.canonical(codec.encode(value))


def malformed(data: Any) -> None:
    """Whatever is decoded, the outcome is a plain value or a CodecError."""
    try:
        value = codec.decode(data)
    except codec.CodecError:
        return
    assert_plain(value)


def assert_plain(value: Any) -> None:
    assert type(value) in PLAIN or type(value).__module__ == "datetime", type(value)
    if isinstance(value, dict):
        for key, item in value.items():
            assert_plain(key)
            assert_plain(item)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        for item in value:
            assert_plain(item)


@settings(QUICK, max_examples=60)
@given(values)
def test_plain_values_survive(value: Any) -> None:
    roundtrip(value)


@QUICK
@given(json_values)
def test_malformed_values_are_refused_or_plain(data: Any) -> None:
    malformed(data)


@QUICK
@given(st.binary(max_size=200))
def test_malformed_bytes_end_a_conversation(data: bytes) -> None:
    converse(data)


@pytest.mark.long
@LONG
@given(json_values)
def test_malformed_values_at_length(data: Any) -> None:
    malformed(data)


@pytest.mark.long
@LONG
@given(st.one_of(st.binary(max_size=400), json_values.map(lambda v: framed(v))))
def test_malformed_bytes_at_length(data: bytes) -> None:
    converse(data)


def framed(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return len(body).to_bytes(4, "big") + body


def converse(data: bytes) -> None:
    """Read messages until the bytes end: only the three documented outcomes occur."""
    ours, theirs = socket.socketpair()
    try:
        theirs.sendall(data)
        theirs.close()
        channel = Channel(ours.fileno())
        channel.cap = 1 << 16
        for _ in range(1000):
            malformed(channel.receive())
        pytest.fail("the conversation does not end")
    except (EOFError, ProtocolError):
        pass
    finally:
        ours.close()


def test_hard_cases_are_refused() -> None:
    deep: Any = 1
    for _ in range(codec.MAX_DEPTH + 1):
        deep = [deep]
    for data in (
        deep,
        [0] * (codec.MAX_NODES + 1),
        {"i": "0x" + "f" * 4},
        {"i": "12 34"},
        {"s": [[1]]},
        {"d": [[[1], 2]]},
        {"d": [[1]]},
        {"F": [1, 0]},
        {"r": [1, 2, 0]},
        {"r": [1, 2]},
        {"c": ["1", 2]},
        {"b": "zz"},
        {"D": "9" * 2000},
        {"D": "x"},
        {"ymd": "2020-99-99"},
        {"span": [10**12, 0, 0]},
        {"y": "Exception"},
        {"y": []},
        {"x": 5},
        {"t": 1, "s": 1},
        {},
        {"unknown": 1},
    ):
        with pytest.raises(codec.CodecError):
            codec.decode(data)


def test_encoder_flattens_subclasses_and_names_the_rest() -> None:
    class Liar(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert type(codec.decode(codec.encode(Liar(3)))) is int
    value, opaque = codec.decode_checked(codec.encode([object(), 1]))
    assert opaque
    assert isinstance(value[0], codec.Opaque)
    assert value[0] != value[0]
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(codec.CodecError):
        codec.encode(loop)
    assert codec.encode_any(loop) == {"x": "the value is too deep"}
    texts = {codec.canonical(codec.encode(v)) for v in (1, 1.0, True, "1", (1,), [1], {1}, b"1")}
    assert len(texts) == 8


def test_a_slow_sender_and_a_huge_message() -> None:
    ours, theirs = socket.socketpair()
    data = framed(["x" * 300_000])

    def drip() -> None:
        for start in range(0, len(data), 7919):
            theirs.sendall(data[start : start + 7919])
        theirs.sendall((1 << 30).to_bytes(4, "big"))

    thread = threading.Thread(target=drip)
    thread.start()
    channel = Channel(ours.fileno())
    assert channel.receive() == ["x" * 300_000]
    with pytest.raises(ProtocolError, match="1073741824 bytes"):
        channel.receive()
    thread.join()
    ours.close()
    theirs.close()
