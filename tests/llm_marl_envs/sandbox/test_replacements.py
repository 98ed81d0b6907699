"""What main gets in place of a helper's values."""

from __future__ import annotations

import datetime as dt
import itertools
import sys
from collections import OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from support.jobs import EXPORTS, HELPER, MAIN, TESTS

from llm_marl_envs.sandbox import Replacement, Sandbox
from llm_marl_envs.sandbox.jail import codec, replacements

pytestmark = pytest.mark.full  # `make test-all` runs it

WRONG = [Replacement("wrong", way=way) for way in range(Replacement.WAYS)]
VALUES: list[Any] = [
    *(True, 0, -7, 10**30, 2.5, float("inf"), float("nan"), 1e300, 3 + 1j, None),
    *("text", "", "!", "7", "Zoë 5", b"ab", b"", bytearray(b"x"), range(3), range(0)),
    *([], [1], [1, 1], [3, 1, 2], ["a", "b"], [[1, 2], [3, 4]], [[], []], [None], (1,), (1, "a")),
    *({1, 2}, set(), frozenset({"a"}), {"k": 1}, {}, OrderedDict(a=[1]), deque([1, 2])),
    *(Decimal("1.5"), Decimal("sNaN"), Decimal("1e999"), Fraction(1, 3)),
    *(dt.date(2024, 2, 28), dt.date.max, dt.datetime(2024, 1, 1), dt.timedelta(1)),
]


def given(replacement: Replacement, value: Any, *args: Any, **kwargs: Any) -> Any:
    """The encoded value that main gets for `aux(*args, **kwargs)`."""
    pairs = [[name, codec.encode(value)] for name, value in kwargs.items()]
    return replacement.answer([codec.encode(arg) for arg in args], pairs, codec.encode(value))


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("args", [(), (1,), ([4, 5],)])
def test_wrong_values_are_wrong_and_of_the_same_type(value: Any, args: tuple[Any, ...]) -> None:
    wrongs = [given(replacement, value, *args)["value"] for replacement in WRONG]
    right = codec.encode(value)
    for wrong in wrongs:
        assert codec.canonical(wrong) != codec.canonical(right)
        if value is not None:
            assert type(codec.decode(wrong)) is type(value)
    if type(value) in (int, float, Fraction, str) and value == value and len(str(value)) > 1:
        assert len({codec.canonical(wrong) for wrong in wrongs}) == 3


@pytest.mark.parametrize("value", ["text", [1, 2, 3], (1, 2), [[1], [2, 3]], {"a": 1}, b"ab"])
def test_the_first_way_keeps_lengths(value: Any) -> None:
    assert len(codec.decode(given(WRONG[0], value)["value"])) == len(value)


def test_an_iterator_stays_one() -> None:
    for replacement in WRONG:
        iterator = codec.decode(replacement.answer([], [], codec.encode(iter([1, 2])))["value"])
        assert hasattr(iterator, "__next__")
        assert list(iterator) != [1, 2]


def test_wrong_values_depend_on_the_arguments() -> None:
    drawn = {given(WRONG[0], 10, x)["value"] for x in range(20)}
    assert len(drawn) > 1
    assert given(WRONG[0], 10, 3) == given(WRONG[0], 10, 3)


def test_no_value_grows_beyond_twice_its_size() -> None:
    """Nested doubling would exhaust the tests' process, which a helper would be paid for."""
    deep: Any = "x" * 100
    for _ in range(codec.MAX_DEPTH - 2):
        deep = [deep, deep[:3] if type(deep) is str else 1]
    wide = [[] for _ in range(codec.MAX_NODES // 2 + 10)]
    for value in (deep, wide, [deep] * 3, "y" * 100_000, 10**4000):
        size = len(codec.canonical(codec.encode(value)))
        for replacement in WRONG:
            assert len(codec.canonical(given(replacement, value)["value"])) <= 2 * size + 20
    assert given(WRONG[0], wide) == {"value": codec.encode(wide)}  # nothing longer can be sent


def test_other_replacements() -> None:
    first, length, error = map(Replacement, ("argument", "length", "error"))
    assert given(first, 9, [1], 2) == {"value": [1]}
    assert given(first, 9, n=3) == {"value": 3}
    assert given(first, 9) == {"value": None}
    assert [
        given(length, 9, argument)["value"] for argument in ([1, 2], "abc", (1,), {1: 2}, 5)
    ] == [*(2, 3, 1, 1, 0)]
    assert given(length, 9) == {"value": 0}
    assert given(length, 9, range(10**30)) == {"value": 0}
    assert given(error, 9)["raised"] == ["ValueError"]
    constant = Replacement.constant((1, "a"))
    assert constant is not None
    assert given(constant, 9, 1) == {"value": {"t": [1, "a"]}}


def test_what_is_no_replacement_is_refused() -> None:
    with pytest.raises(ValueError, match="kind='right'"):
        Replacement("right")
    with pytest.raises(ValueError, match="way=3"):
        Replacement("wrong", way=3)


def test_trivial_uses() -> None:
    uses = {codec.canonical(u) for v in ([1, 2], "12", 1.5) for u in replacements.trivial_uses(v)}
    assert uses == {"1", '{"t":[1,2]}', '"1"', "12"}
    odd = [*VALUES, Decimal(1), dt.time(1), "9" * 5000, iter([1]), int, codec.Opaque("a")]
    for value in itertools.chain(odd, [True]):
        for use in replacements.trivial_uses(codec.encode(value)):
            codec.decode(use)


@pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")
def test_both_programs_run_and_main_gets_another_value(sandbox: Sandbox) -> None:
    def verdict(replaced: dict[str, Any]) -> Any:
        programs = {"helper": HELPER, "main": MAIN}
        return sandbox.check(
            programs, entry_point="solve", tests=TESTS, exports=EXPORTS, replaced=replaced
        )

    assert verdict({}).ok
    assert verdict({"aux": Replacement("argument")}).passed == 0
    assert verdict({"aux": WRONG[0]}).helper_trace == verdict({}).helper_trace
    assert "ValueError: no value" in verdict({"aux": Replacement("error")}).detail
    with pytest.raises(ValueError, match="replacements name 'other'; exported are"):
        verdict({"other": WRONG[0]})
    with pytest.raises(TypeError, match="replacement of 'aux' must be a Replacement"):
        verdict({"aux": "wrong"})
