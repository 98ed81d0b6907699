"""Cards: answers and bounds by hand, splits that share no deal, answers as they are read."""

from __future__ import annotations

from fractions import Fraction

import pytest

from llm_marl_envs.envs.math.answers import read_line, same_value, value_of
from llm_marl_envs.envs.math.card_tasks import card_tasks, cards_of, dealt
from llm_marl_envs.envs.math.cards import (
    FORMS,
    Asked,
    alone,
    best_guess,
    by_text,
    questions,
)
from llm_marl_envs.envs.math.rows import boxed, math_task_of_row
from llm_marl_envs.envs.questions import question_of


@pytest.mark.parametrize(
    ("level", "text", "answer"),
    [
        (1, "red + white", "7"),
        (1, "blue - red", "-3"),
        (1, "red x green", "10"),
        (1, "blue / red", "2/5"),
        (2, "red x blue + white", "12"),
        (2, "blue x green - red", "-1"),
        (2, "(red + green) / blue", "7/2"),
        (2, "green - white / red", "8/5"),
        (3, "red x white - blue x green", "6"),
        (3, "(red + blue) x (white - green)", "0"),
        (3, "(red - white) / (blue + green)", "3/4"),
        (3, "red / blue - white / green", "3/2"),
    ],
)
def test_answers_by_hand(level: int, text: str, answer: str):
    assert by_text(level)[text].answer((5, 2, 2, 2)) == Fraction(answer)


def test_every_formula_is_asked_and_none_twice():
    # Of two from four: 6 pairs in one order, 12 in both.
    assert [len(questions(level)) for level in (1, 2, 3)] == [36, 60, 54]
    for level, asked in ((level, questions(level)) for level in FORMS):
        assert len({one.text for one in asked}) == len(asked)
        assert {one.form for one in asked} == set(FORMS[level])
        for place, one in enumerate(asked):
            for other in asked[:place]:
                if one.form == other.form and sorted(one.cards) == sorted(other.cards):
                    probes = ((2, 3, 5, 7), (11, 2, 13, 3))
                    assert any(one.answer(deal) != other.answer(deal) for deal in probes)


def test_alone_by_hand():
    plus, minus = (Asked(FORMS[1][at], (0, 1)) for at in (0, 1))
    # Answers to plus 2, 3, 3 and to minus 0, -1, 1: two of three and one of three are known.
    found = alone([(1, 1, 1, 1), (1, 2, 1, 1), (2, 1, 1, 1)], [plus, minus])
    assert found.question == pytest.approx((2 + 1) / 6)
    assert found.cards == pytest.approx(3 / 6)  # one of both questions, with each deal
    assert found.random == pytest.approx(1 / 5)  # -1, 0, 1, 2, 3


def test_the_best_guess_is_the_most_frequent_answer():
    asked = by_text(1)
    assert best_guess(asked["red + blue"], 1, 6) == 7
    assert best_guess(asked["red - blue"], 1, 6) == 0
    assert best_guess(asked["red / blue"], 1, 6) == 1
    assert best_guess(asked["red x blue"], 1, 6) == 6  # as 12, four times


def test_no_deal_of_a_split_is_one_of_another_with_numbers_exchanged():
    found = [
        {tuple(sorted(deal)) for deal in dealt(split)} for split in ("train", "val", "test", "ood")
    ]
    assert sum(map(len, found)) == len(set.union(*found))
    assert sum(len(dealt(split)) for split in ("train", "val", "test")) == 6**4


def test_neither_prompt_of_ood_is_known():
    for level in (1, 2):
        known, ood = card_tasks("train", level), card_tasks("ood", level)
        assert not {one.text for one in known.questions} & {one.text for one in ood.questions}
        assert min(map(min, ood.deals)) > max(map(max, known.deals))


def test_tasks_are_all_pairs_each_once():
    source = card_tasks("val", 1)
    pairs = {(one.deal, one.asked) for one in map(cards_of, source)}
    assert len(pairs) == len(source) == len(source.deals) * len(source.questions)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", "7"),
        ("-7/2", "-7/2"),
        ("2 / 4", "1/2"),
        ("2.5", "5/2"),
        ("1,000", "1000"),
        ("1/0", None),
        ("9" * 31, None),
        ("2+2", None),
        ("9**9**9", None),
        ("seven", None),
        ("\u0667", None),  # a digit of another script
    ],
)
def test_values(text: str, value: str | None):
    assert value_of(text) == (None if value is None else Fraction(value))


def test_equal_answers():
    assert same_value("5/2", "2.5")
    assert same_value(" [at noon]. ", "At  noon")
    assert not same_value("1/0", "1")
    assert not same_value("2", "-2")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("It is so.\nAnswer: 5/2.", "5/2"),
        ("answer: \\frac{1}{2}", "\\frac{1}{2}"),
        ("Answer: 1</think>Answer: 2", "2"),
        ("Answer: 1\nAnswer: 1", None),
        ("> Answer: 1", None),
        ("```\nAnswer: 1\n```", None),
        ("Answer:", None),
        ("Answer: .", None),
        ("Answer: " + "1" * 201, None),
        ("1", None),
        ("", None),
    ],
)
def test_answers_are_read_from_one_line(text: str, read: str | None):
    assert read_line(text) == read


def test_rows_of_math():
    row = {
        "problem": "What is $\\frac{2}{4}$?",
        "solution": "First \\boxed{3}. No: $\\boxed{\\frac{1}{2}}$.",
        "level": "Level 5",
        "type": "Algebra",
    }
    task = math_task_of_row(row)
    question = question_of(task)
    assert (question.answer, question.level) == ("\\frac{1}{2}", 5)
    given = {
        "problem": "?",
        "answer": "3",
        "solution": "\\boxed{4}",
        "unique_id": "a/1",
        "level": 2,
    }
    assert question_of(math_task_of_row(given)).answer == "3"
    assert math_task_of_row(given).id == "a/1"
    assert question_of(math_task_of_row({**row, "level": "Level ?"})).level == 0
    with pytest.raises(ValueError, match="boxed"):
        math_task_of_row({**row, "solution": "\\boxed{3"})


def test_boxes():
    assert boxed("\\boxed{a{b}c}") == "a{b}c"
    assert boxed("\\fbox{1} \\boxed {2}") == "2"
    assert boxed("none") is None
