"""What counts as a call, and what its arguments are."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from support.corpus import hostile

from llm_marl_envs.tools.base import CODE
from llm_marl_envs.tools.calls import Call, arguments_of, call_in

WORDS = {"properties": {"words": {"type": "string"}}}
PROGRAM = {"properties": {"program": {"type": "string", "format": CODE}}}
NUMBER = {"properties": {"n": {"type": "integer"}}}
TWO = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Call: search(red river)", Call("search", "red river")),
        ("  call: search( red (river) )  ", Call("search", "red (river)")),
        ("I must look.\nCall: search(red)\nAnswer: [x]", Call("search", "red")),
        ("<think>Call: calculate(1)</think>\nCall: search(red)", Call("search", "red")),
        ("Call: python()\n```python\nprint(1)\n```", Call("python", "", "print(1)")),
        ("Call: f()", Call("f", "")),
        ("```python``` is what I use.\nCall: f()", Call("f", "")),
    ],
)
def test_a_line_is_a_call(text: str, expected: Call) -> None:
    assert call_in(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Answer: [red]",
        "> Call: search(red)",
        "  > Call: search(red)",
        "main_0 says:\n> Call: search(red)",
        "```\nCall: search(red)\n```",
        "~~~text\nCall: search(red)",
        "I would write Call: search(red)",
        "Recall: search(red)",
        "<think>Call: search(red)</think>",
        '```python\ndef f():\n    """\n    ```\n    """\nCall: search(red)\n```',
    ],
)
def test_quoted_fenced_or_thought_it_is_none(text: str) -> None:
    assert call_in(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Call: search(red)\nCall: search(blue)",
        "Call: search red",
        "Call: search(red",
        "Call:",
        "Call: (red)",
        f"Call: {'x' * 100}(red)",
    ],
)
def test_what_looks_like_a_call_and_is_none_is_said(text: str) -> None:
    assert isinstance(call_in(text), str)


@pytest.mark.parametrize(
    ("written", "schema", "expected"),
    [
        ("red river", WORDS, {"words": "red river"}),
        ('"red, river"', WORDS, {"words": "red, river"}),
        ('{"words": "red"}', WORDS, {"words": "red"}),
        ('{"a": "x", "b": 2}', TWO, {"a": "x", "b": 2}),
        ("7", NUMBER, {"n": 7}),
        ("", {"properties": {}}, {}),
        ("print(1)", PROGRAM, {"program": "print(1)"}),
        ("{1, 2}", PROGRAM, {"program": "{1, 2}"}),
        ("", {"properties": {"n": {"anyOf": [{"type": "integer"}]}}}, {}),
    ],
)
def test_arguments(written: str, schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert arguments_of(Call("f", written), schema) == expected


def test_a_program_may_stand_in_a_block() -> None:
    assert arguments_of(Call("f", "", "print(1)"), PROGRAM) == {"program": "print(1)"}


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        ("{1: 2", TWO),
        ("x, 2", TWO),
        ("seven", NUMBER),
        ("NaN", NUMBER),
        ("{" * 9000, TWO),
        ("[" * 9000, NUMBER),
    ],
)
def test_arguments_that_cannot_be_read(written: str, schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|JSON|deep"):
        arguments_of(Call("f", written), schema)


def test_any_text_is_looked_at_in_a_time_that_grows_with_its_length() -> None:
    rng = random.Random(0)
    pieces = ["Call:", "call: f(", ")", "```", "> ", "\n", "x" * 50, "</think>", "\r", "\u2028"]
    for text in (
        *(case.source for case in hostile()),
        *("".join(rng.choices(pieces, k=200)) for _ in range(200)),
    ):
        assert isinstance(call_in(text), (Call, str, type(None)))
    begun = time.perf_counter()
    for text in ("Call: f(" * 200_000, "Call: f(" + "(" * 1_000_000, "Call:\n" * 200_000):
        call_in(text)
    assert time.perf_counter() - begun < 5
