"""What counts as an answer, and when two answers are the same."""

from __future__ import annotations

import unicodedata

import pytest
from support.cost import milliseconds

from llm_marl_envs.core.answers import can_be_given
from llm_marl_envs.envs.questions import Question, canonical, is_right, read_answer, same_answer
from llm_marl_envs.play.testing import JUNK


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: Ana", "Ana"),
        ("I think so.\nANSWER:  [Ana].  ", "Ana"),
        ("Answer: Ana\n\nThat is all.", "Ana"),
        ("<think>\nAnswer: Bo\n</think>\nAnswer: Ana", "Ana"),
        ("> debater_1: Answer: Bo\n> Answer: Bo\nAnswer: Ana", "Ana"),
        ("```\nAnswer: Bo\n```\nAnswer: Ana", "Ana"),
        ("Answer: 1,234", "1,234"),
        ("~~~\nAnswer: Bo\n~~~\nAnswer: Ana", "Ana"),
        ("```\nAnswer: Bo\n~~~\nAnswer: Cy\n```\nAnswer: Ana", "Ana"),
        ("```inline``` code opens nothing\nAnswer: Ana", "Ana"),
    ],
)
def test_one_answer_line_counts(text: str, answer: str) -> None:
    assert read_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ana",
        "Answer:",
        "Answer: []",
        "Answer: Ana\nAnswer: Bo",  # hedging
        "Answer: Ana\nAnswer: Ana",  # several are wrong even where they agree
        "> Answer: Ana",  # a quotation
        "```\nAnswer: Ana\n```",
        "~~~\nAnswer: Ana\n~~~",
        "~~~~ text\n~~~\nAnswer: Ana",  # three do not close four
        "The answer is Ana",
        "\u0410nswer: Ana",  # a Cyrillic A
        "\uff21nswer: Ana",  # a full-width A
        "Answer\uff1a Ana",  # a full-width colon
        "- Answer: Ana",
        '"Answer: Ana"',
        "Answer: " + "a" * 201,
    ],
)
def test_anything_else_is_no_answer(text: str) -> None:
    assert read_answer(text) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana", " ANA "),
        ("New  York", "new york"),
        ("42", "42.0"),
        ("1,234", "1234"),
        ("$5", "5.00"),
        ("-$42", "-42"),
        ("$-42", "-42"),
        ("Dr. No.", "Dr. No"),
        ("[1, 2, 3]", "1, 2, 3"),
        ("f[0]", "f 0"),
        ("-0", "0"),
        ("caf\u00e9", "cafe\u0301"),
    ],
)
def test_same(one: str, other: str) -> None:
    assert same_answer(one, other)
    assert same_answer(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana", "Bo"),
        ("Ana", "Ana or Bo"),
        ("Ana", "Ana][Bo"),
        ("Bo", "B\u043e"),  # a Cyrillic o
        ("42", "4 2"),
        ("-$42", "42"),
        ("--42", "42"),
        ("$$5", "5"),
        ("42", "042.1"),
        ("12", "1,2"),
        ("42", "\u0664\u0662"),  # Arabic digits
        ("6", "2*3"),
        ("1000", "10**3"),
        ("0.1", "0.10000000000000001"),
    ],
)
def test_different(one: str, other: str) -> None:
    assert not same_answer(one, other)


def test_no_answer_equals_nothing() -> None:
    assert not same_answer(None, "Ana")
    assert not same_answer(None, None)


@pytest.mark.parametrize("text", [*JUNK, "9" * 10**6, "Answer: " + "9" * 10**6, "Answer:" * 10**5])
def test_junk_is_read_quickly(text: str) -> None:
    assert canonical(read_answer(text) or text[:200]) is not None
    assert milliseconds(lambda: canonical(read_answer(text) or text[:200]), times=1) < 250


def test_a_megabyte_of_answer_lines_is_read_quickly() -> None:
    text = "Answer: 1\n" * 100_000
    assert read_answer(text) is None
    assert milliseconds(lambda: read_answer(text), times=1) < 250


def test_the_canonical_text_of_a_canonical_text_is_itself() -> None:
    """Every character alone and before marks that Unicode joins or reorders.

    Of those that Unicode has given to nobody, some.
    """
    given = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Co")]
    for code in (*given, *range(0, 0x110000, 0x101)):
        for mark in ("", "\u0345\u0301") if code < 0x2000 else ("",):
            once = canonical(chr(code) + mark)
            assert canonical(once) == once, hex(code)
    for text in ("a...", "[a.]", ". . a . .", "-$ 4.0", "[[1]]"):
        assert canonical(canonical(text)) == canonical(text)


@pytest.mark.parametrize("answer", ["f[0]", "[1, 2, 3]", "Dr. No.", "5.", "-$42", "a..", "x [y]."])
def test_a_right_answer_is_right_as_it_stands(answer: str) -> None:
    assert can_be_given(answer)
    question = Question(kind="k", level=0, text="?", answer=answer)
    assert is_right(question, read_answer(f"Answer: {answer}"))
    assert is_right(question, read_answer(f"Answer: [{answer}]."))


@pytest.mark.parametrize("answer", ["", "[]", "[ ]", ".", "...", "[.]", "a</think>"])
def test_what_no_answer_line_gives_cannot_be_given(answer: str) -> None:
    assert not can_be_given(answer)
