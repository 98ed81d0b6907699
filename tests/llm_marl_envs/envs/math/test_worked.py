"""Answers must be worked out: copies of the question earn nothing, other forms are right."""

from __future__ import annotations

import importlib.util
import time
from fractions import Fraction
from typing import Any

import pytest
from support.math_rows import COSTLY, FORMULAS, HONEST, STEPS, WRAPS

from llm_marl_envs import make
from llm_marl_envs.envs.math import formulas
from llm_marl_envs.envs.math.readings import UnreadableError, read
from llm_marl_envs.envs.math.worked import bare, plain, same_number, worked_out
from llm_marl_envs.envs.questions import question_of

pytestmark = pytest.mark.full  # `make test-all` runs it

INSTALLED = importlib.util.find_spec("math_verify") is not None
needs_library = pytest.mark.skipif(not INSTALLED, reason="the extra `math` is not installed")
ROWS = [{"problem": question, "answer": right} for _, question, _, right in FORMULAS]


def right_of(env: Any, task: int, answer: str) -> bool:
    """Whether a team that says this answer succeeds."""
    env.reset(seed=0, options={"task": task})
    env.step("")
    env.step(f"Answer: {answer}")
    return bool(env.infos["actor_0"]["success"])


@needs_library
@pytest.mark.parametrize("dollars", [True, False])
def test_no_way_to_say_the_question_again_is_right(dollars: bool):
    rows = [row if dollars else {**row, "problem": row["problem"].replace("$", "")} for row in ROWS]
    env = make("math_team", tasks=rows, split="all")
    told = [question_of(task).text for task in env.source]
    order = [told.index(row["problem"]) for row in rows]
    earned = {
        name: sum(
            right_of(env, at, wrap(formula))
            for at, (_, _, formula, _) in zip(order, FORMULAS, strict=True)
        )
        / len(rows)
        for name, wrap in WRAPS.items()
    }
    assert {name: share for name, share in earned.items() if share > 0} == {}
    assert all(right_of(env, at, row["answer"]) for at, row in zip(order, rows, strict=True))


@needs_library
def test_one_step_of_work_is_seldom_an_answer():
    """What passes is algebra: as short as the right answer, and no formula of the question."""
    asked = {formula: (question, right) for _, question, formula, right in FORMULAS}
    passed = [
        step
        for formula, steps in STEPS
        for step in steps
        if agrees(step, asked[formula][1], asked[formula][0])
    ]
    assert set(passed) == {
        "x(x-5)+3(x-5)", "(x-1)^2-16", "2x(2x+1)+2x+1", "x(x+5)+6", "x(x+2)+3(x+2)",
    }  # fmt: skip
    assert len(passed) < 0.1 * sum(len(steps) for _, steps in STEPS)


def agrees(answer: str, right: str, question: str = "What is it?") -> bool:
    env = make("math_team", tasks=[{"problem": question, "answer": right}], split="all")
    return right_of(env, 0, answer)


@needs_library
@pytest.mark.parametrize(("right", "answers"), HONEST, ids=[right for right, _ in HONEST])
def test_other_correct_forms_are_right(right: str, answers: list[str]):
    assert [one for one in [right, *answers] if not agrees(one, right)] == []


@needs_library
def test_costly_answers_are_refused_before_a_process_is_asked():
    assert formulas.same_formula("1+x", "x+1")  # begins it
    process = formulas._comparer._process
    assert process is not None
    for right in ("7", "x^2-2x-15", "2^{100}", r"\frac{x^{30}}{30!}", r"4\sqrt{3}", "(1,2)"):
        env = make("math_team", tasks=[{"problem": "?", "answer": right}], split="all")
        for answer in COSTLY:
            before = time.process_time()
            assert not right_of(env, 0, answer)
            assert time.process_time() - before < 0.1  # of this process
    assert formulas._comparer._process is process
    assert process.poll() is None


@pytest.mark.parametrize("text", COSTLY)
def test_reading_costs_little(text: str):
    before = time.process_time()
    worked_out(text, "x+1", text * 10)
    assert time.process_time() - before < 0.2


@pytest.mark.parametrize(
    ("text", "size", "folds"),
    [
        ("7", 1, 0),
        ("3+4", 2, 1),
        (r"\frac{3}{4}", 1, 0),
        (r"\frac{6}{8}", 1, 1),
        (r"\frac{7}{1}", 1, 1),
        (r"1\frac{1}{2}", 1, 0),
        (r"50\%", 1, 0),
        ("x+x", 2, 1),
        ("x*x", 2, 1),
        ("x/x", 2, 1),
        ("(x+1)^2", 3, 0),
        ("(x+1)^1", 3, 1),
        (r"\sqrt{12}", 2, 0),
        (r"\sqrt{49}", 2, 1),
        (r"\sqrt{2}\sqrt{6}", 4, 1),
        (r"\sqrt[3]{8}", 2, 1),
        ("7!", 2, 1),
        (r"2^{100}", 2, 1),
        (r"\cos 60", 2, 0),
        (r"\max(x)", 2, 1),
        (r"3 \pm \sqrt{2}", 6, 0),
        ("(1, 2+3)", 3, 1),
        ("x = 2+3", 3, 1),
    ],
)
def test_what_stands_in_a_formula_and_what_is_left_to_do(text: str, size: int, folds: int):
    found = read(text)
    assert (found.size, found.folds) == (size, folds)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2x+1", "1+x\\cdot 2".replace("\\cdot", "*")),
        (r"\frac{x+1}{2}", "(1+x)/2"),
        (r"\sqrt{x}", "x^{1/2}"),
        (r"\frac{1}{\sqrt{3}}", r"\sqrt{\frac{1}{3}}"),
        ("(x+3)(x-5)", "(-x-3)(5-x)"),
        (r"\frac{2(x+1)}{2}", "x+1"),
    ],
)
def test_formulas_that_are_one_up_to_folds(text: str, same: str):
    assert read(text).term == read(same).term


@pytest.mark.parametrize(
    "text", ["", "(", "1)", "{}", "3+", "½", "\uff13", "()", "-" * 9 + "1", "|x"]
)
def test_what_is_no_formula(text: str):
    with pytest.raises(UnreadableError):
        read(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{3+4}", "3+4"),
        (r"\left( 3+4 \right)", "3+4"),
        (r"\boxed{\text{(B)}}", "B"),
        ("(1,2)", "(1,2)"),
        ("(1)(2)", "(1)(2)"),
        (r"\{7\}", r"\{7\}"),
        (r"90^{\circ}", "90"),
        (r"$5\text{ cm}^2$.", "5"),
        (r"2 \\ 6", r"2 \\ 6"),
    ],
)
def test_what_only_wraps_is_taken_off(text: str, shown: str):
    assert plain(text) == shown


def test_names_are_taken_off_where_they_say_nothing():
    assert bare("x = 3+4 = 7", "7") == ("7", "7")
    assert bare("x=1, x=2", "1,2") == ("1,2", "1,2")
    assert bare("2x+5", "y=2x+5") == ("2x+5", "2x+5")
    assert bare("2x-y+5=0", "y=2x+5") == ("2x-y+5=0", "y=2x+5")
    assert bare("x=2, y=1", "x=1, y=2") == ("x=2, y=1", "x=1, y=2")
    assert bare(r"x\in[0,1]", "[0,1]") == ("[0,1]", "[0,1]")


def test_a_number_of_the_question_in_another_form_is_no_answer():
    asked = r"Write $0.75$ as a fraction, and $\frac{2}{5}$ as a decimal."
    assert not worked_out("0.75", r"\frac{3}{4}", asked)
    assert not worked_out(r"\frac{2}{5}", "0.4", asked)
    assert worked_out("3/4", r"\frac{3}{4}", asked)
    assert worked_out("0.4", "0.4", asked)
    assert not worked_out("72", r"2^3\cdot 3^2", "Factor 72.")
    assert worked_out(r"3^2\cdot 2^3", r"2^3\cdot 3^2", "Factor 72.")


@pytest.mark.parametrize(
    ("question", "answer", "right"),
    [
        ("Write $8^{20}$ as a power of 2.", "8^{20}", "2^{60}"),
        (r"Write $\binom{10}{7}$ with a smaller $k$.", r"\binom{10}{7}", r"\binom{10}{3}"),
        ("Expand $(x+3)(x-5)$.", "(x^2+3x)(x-5)/x", "x^2-2x-15"),
        ("Expand $(x+3)(x-5)$.", r"(x+3)(x^2-5x)\cdot x^{-1}", "x^2-2x-15"),
    ],
)
def test_a_question_is_no_answer_beside_powers_nor_times_and_over_a_letter(
    question: str, answer: str, right: str
):
    assert not worked_out(answer, right, question)
    assert worked_out(right, right, question)


def test_numbers():
    assert same_number(r"75\%", r"\frac{3}{4}")
    assert same_number(r"1\frac{1}{2}", "1.5")
    assert not same_number("3+4", "7")
    assert not same_number("x", "x")
    assert read(r"-\frac{1}{2}").term == (Fraction(-1, 2), None)
