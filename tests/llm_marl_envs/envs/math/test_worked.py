"""Answers to rows: honest forms are right, near ones are wrong, copies earn nothing."""

from __future__ import annotations

import time
from random import Random

import pytest
from support.math_answers import HONEST, NEAR, Answers
from support.math_copies import COPIES, RIGHT, drawn_rows, earned, env_of, returns, rows
from support.math_rows import COSTLY, FORMULAS, STEPS, WRAPS

from llm_marl_envs.envs.math.plain import plain, shown
from llm_marl_envs.envs.math.reading import UnreadableError, read
from llm_marl_envs.envs.math.values import interval, worth, written
from llm_marl_envs.envs.math.worked import is_right


# -- honest forms and near ones --------------------------------------------------------------------
def judged(answers: Answers, want: bool) -> list[tuple[str, str]]:
    """The answers that are not judged so."""
    return [
        (right, answer)
        for question, right, given in answers
        for answer in given
        if is_right(answer, right, question) is not want
    ]


def test_honest_forms_are_right():
    assert len(HONEST) > 60
    assert judged(HONEST, True) == []
    assert [right for question, right, _ in HONEST if not is_right(right, right, question)] == []


def test_near_forms_are_wrong():
    assert judged(NEAR, False) == []


def test_the_environment_judges_so():
    for answers, want in ((HONEST[::7], 1.0), (NEAR[::7], 0.0)):
        env, places = env_of([(question, right) for question, right, _ in answers])
        for place, (question, _, given) in zip(places, answers, strict=True):
            assert earned(env, place, given[0]) == want, (question, given[0])


# -- copies ----------------------------------------------------------------------------------------
@pytest.mark.full
@pytest.mark.parametrize("dollars", [True, False])
def test_no_copy_of_a_drawn_question_is_paid(dollars: bool):
    """`the right side` says a right answer where the question holds it: that is no copy's merit."""
    drawn = drawn_rows(7, 1, dollars)
    found = returns(drawn, COPIES)
    assert found.pop(RIGHT) == 1.0
    assert found.pop("the right side") <= 1 / len(drawn)
    assert {name: share for name, share in found.items() if share} == {}


@pytest.mark.parametrize("dollars", [True, False])
def test_no_rewriting_by_a_rule_is_paid(dollars: bool):
    drawn = drawn_rows(8, 10, dollars)
    rules = {(row.kind, name) for row in drawn for name in row.rewrites}
    paid = [
        (row.question, name, answer)
        for row in drawn
        for name, answer in row.rewrites.items()
        if is_right(answer, row.right, row.question)
    ]
    assert len(rules) > 90
    assert paid == []
    assert all(is_right(row.right, row.right, row.question) for row in drawn)


@pytest.mark.full
@pytest.mark.parametrize("dollars", [True, False])
def test_no_way_to_say_the_question_again_is_right(dollars: bool):
    questions = [(q if dollars else q.replace("$", ""), f, right) for _, q, f, right in FORMULAS]
    paid = [
        (name, wrap(formula))
        for question, formula, right in questions
        for name, wrap in WRAPS.items()
        if is_right(wrap(formula), right, question)
    ]
    assert paid == []
    assert all(is_right(right, right, question) for question, _, right in questions)


def test_one_step_of_work_is_no_answer():
    asked = {formula: (question, right) for _, question, formula, right in FORMULAS}
    for formula, steps in STEPS:
        question, right = asked[formula]
        assert [step for step in steps if is_right(step, right, question)] == []


@pytest.mark.parametrize(
    ("question", "copy", "right"),
    [
        ("Factor xy+xz.", "xy+xz", "x(y+z)"),
        ("Factor ab + ac, please.", "ab + ac", "a(b+c)"),
        ("Simplify a + (b + c) a bit.", "a + (b + c)", "a+b+c"),
        (r"$\text{Write } 0.75 \text{ as a fraction}$", "0.75", r"\frac{3}{4}"),
        ("It costs $0.75. Write that as a fraction of $1.", "0.75", r"\frac{3}{4}"),
        (
            r"\[\begin{align*} y &= 0.75 \\ z &= 1 \end{align*}\] Write $y$ as a fraction.",
            "0.75",
            "3/4",
        ),
        (r"$\ldots 0.75 \ldots$ as a fraction", "0.75", "3/4"),
        ("What is 5 percent of 100?", "5 percent", "5"),
        (r"What is $5\%$ of $100$?", r"5\%", "5"),
        (r"Write $1{,}000{,}000$ in scientific notation.", "1,000,000", r"1\times 10^6"),
        ("Solve $9x=0$.", "9x=0", "0"),
        ("Write $-8 < x$ as an interval.", "-8 < x", r"(-8,\infty)"),
        ("Write -8 < x as an interval.", "-8 < x", r"(-8,\infty)"),
    ],
)
def test_a_formula_of_the_question_is_seen_wherever_it_stands(question: str, copy: str, right: str):
    assert not is_right(copy, right, question)
    assert is_right(right, right, question)


# -- one reader, exact -----------------------------------------------------------------------------
def test_an_identity_of_reading():
    """A formula agrees with itself in any order of terms, and with no other drawn one."""
    drawn = list(rows(3, 4))
    trees = {row.right: read(plain(row.right)) for row in drawn if "=" not in row.right}
    for text, tree in trees.items():
        again = read(plain(f"  {{{text.replace('+', ' + ')}}}  "))
        assert (worth(tree), written(tree)) == (worth(again), written(again)), text
    for text, tree in trees.items():
        for other, there in trees.items():
            if written(tree) == written(there):
                assert worth(tree) == worth(there), (text, other)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        *(("7", 0), ("3+4", 1), (r"\frac{3}{4}", 0), (r"\frac{6}{8}", 1), (r"\frac{7}{1}", 1)),
        *((r"1\frac{1}{2}", 0), (r"50\%", 0), ("x+x", 1), ("xx", 1), ("(x+1)^2", 0), ("x^1", 1)),
        *((r"\sqrt{12}", 1), (r"\sqrt{3}", 0), (r"\sqrt{2}\sqrt{6}", 1), (r"\sqrt[4]{x^2}", 1)),
        *(("2^{100}", 1), ("10^{12}", 0), (r"4.2\cdot 10^{-4}", 0), (r"42\cdot 10^{-5}", 2)),
        *(("(1, 2+3)", 1), ("x = 2+3", 1), ("x+0", 1), ("y-(x+1)", 1), (r"\frac{1}{\sqrt{3}}", 0)),
        *((r"\frac{6}{\sqrt{3}}", 1), ("(2x+2)(x+3)", 1), ("(1-x)^2", 0), ("0x", 2)),
    ],
)
def test_the_steps_that_are_left(text: str, steps: int):
    assert worth(read(plain(text))).steps == steps


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2x+1", r"1+x\cdot 2"),
        (r"\frac{x+1}{2}", r"\frac{x}{2}+\frac12"),
        (r"\sqrt{x}", "x^{1/2}"),
        (r"\frac{1}{\sqrt{3}}", r"\sqrt{\frac{1}{3}}"),
        (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"),
        (r"\sqrt{8x^3}", r"2\sqrt{2}x\sqrt{x}"),
        ("(x+3)(x-5)", "(-x-3)(5-x)"),
        (r"\frac{2(x+1)}{2}", "x+1"),
        (r"\log_2 3", r"\frac{\ln 3}{\ln 2}"),
        (r"0.\overline{27}", r"\frac{3}{11}"),
        (r"\frac{a}{b/c}", r"\frac{ac}{b}"),
        ("2x=6", "x-3=0"),
        ("-2x<6", "-x<3"),
    ],
)
def test_one_value(text: str, same: str):
    assert worth(read(plain(text))).value == worth(read(plain(same))).value


def test_tiny_numbers_are_exact():
    for n in range(1, 300, 7):
        ours, theirs = f"2^{{-{n}}}", rf"\frac{{1}}{{2^{{{n + 1}}}}}"
        assert not is_right(ours, theirs)
        assert is_right(ours, rf"\frac{{1}}{{2^{{{n}}}}}")
        assert not is_right(f"1-{ours}", f"1-{theirs}")
        assert not is_right("0", theirs)


def test_an_inequality_is_an_interval():
    assert interval(read("0<x<12.5")) == ("x", read("(0,12.5)"))
    assert interval(read(r"x\ge 3")) == ("x", read(r"[3,\infty)"))
    for text in ("x<y", "2x<6", "x=3", "x<3<y", "3<x<1", "x^2<4"):
        assert interval(read(text)) is None


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *(("12 cm", "cm"), (r"12\text{ cm}^2", "cm^2"), ("12 square centimeters", "cm^2")),
        *(("20 miles per hour", "mph"), ("20 km/h", "kph"), (r"\$5", "dollar"), ("5 ab", "")),
        *((r"90^\circ", "degree"), ("12 inches", "inch"), ("3 feet", "ft"), ("2x", ""), ("7", "")),
    ],
)
def test_units(text: str, unit: str):
    assert shown(text).unit == unit


@pytest.mark.parametrize(
    ("text", "left"),
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
def test_what_only_wraps_is_taken_off(text: str, left: str):
    assert plain(text) == left


@pytest.mark.parametrize(
    "text",
    [
        *("", "(", "1)", "{}", "3+", "½", "\uff13", "()", "--1", "|x", "Evelyn", "x and y", "[1)"),
        *(r"\ldots x", r"\thinspace 3", r"\phantom{3}", r"\hfil 3", r"\color{red} 3", r"\foo"),
        *(r"\begin{array}3\end{array}", r"\begin{pmatrix}3", r"\sqrt[y]{x}", "9_2", "0^{-1/2}"),
        *("1/0", "9^{9^9}", r"\sqrt{-2}", "x" * 1001, "x" + "!" * 900),
    ],
)
def test_what_is_no_formula(text: str):
    with pytest.raises(UnreadableError):
        worth(read(text))


# -- any text --------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", COSTLY)
def test_costly_answers_are_wrong_and_cost_little(text: str):
    before = time.process_time()
    for right in ("7", "x^2-2x-15", "2^{100}", r"\frac{x^{30}}{30!}", r"4\sqrt{3}", "(1,2)"):
        assert not is_right(text, right, text * 10)
        assert isinstance(is_right(right, text, f"${text}$ {text}"), bool)
    assert time.process_time() - before < 1


@pytest.mark.parametrize("begins", [r"\(", r"\[", "$$", "$x", r"\begin{"])
def test_a_question_of_beginnings_costs_little(begins: str):
    before = time.process_time()
    assert is_right("5", "5.0", begins * 9000)
    assert time.process_time() - before < 0.5


@pytest.mark.full
def test_no_text_raises_or_takes_long():
    rng = Random(5)
    texts = [answer for _, right, given in HONEST + NEAR for answer in (right, *given)]
    texts += [*COSTLY, *(copy("x+1") for copy in COPIES.values())]
    for _ in range(1500):
        one, other, third = (mixed(rng, texts) for _ in range(3))
        before = time.process_time()
        assert is_right(one, other, f"{third} ${one}$") in (True, False)
        assert time.process_time() - before < 1, (one, other, third)


def mixed(rng: Random, texts: list[str]) -> str:
    """A text with pieces of others in it, cut anywhere."""
    text = rng.choice(texts)
    for _ in range(rng.randint(0, 5)):
        at, piece = rng.randint(0, len(text)), rng.choice(texts)
        start = rng.randint(0, len(piece))
        kind = rng.randrange(3)
        if kind == 0:
            text = text[:at] + piece[start : start + 6] + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + 1 :]
        else:
            text = f"{{{text}}}^{{{piece}}}"
    return text[:200]


def test_a_long_question_costs_little():
    for piece in ("(", "$x$ ", "x!", "((x+1)^{12})", "1/", "word 0.5 ", "\\frac"):
        before = time.process_time()
        is_right("x+2", "x+1", piece * (30_000 // len(piece)))
        assert time.process_time() - before < 3, piece
    before = time.process_time()
    is_right("x+2", "x+1", "(" * 15_000 + "x" + ")" * 15_000)
    assert time.process_time() - before < 3


def test_exact_answers_are_numbers_in_the_form_that_was_asked():
    questions = [("Write $0.75$ as a fraction.", "3/4"), ("How much?", "3/4"), ("Who?", "Evelyn")]
    env, (write, much, who) = env_of(questions, compare="exact")
    for task, answer, paid in (
        (write, "3/4", 1.0),
        (write, "0.75", 0.0),
        (write, "6/8", 0.0),
        (much, "0.75", 1.0),
        (much, "6/8", 0.0),
        (much, r"\frac{3}{4}", 0.0),
        (who, "evelyn", 1.0),
    ):
        assert earned(env, task, answer) == paid, answer
