"""Facts from the syntax tree and what each scheme pays for them, worked by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_marl_envs.envs.coding.rewards import REWARD_RANGES, TERM_RANGES, TERMS, Facts
from llm_marl_envs.envs.coding.syntax import defines, read_program, use_of
from llm_marl_envs.play.testing import JUNK

GOOD = Facts(
    helper_defined=True,
    main_defined=True,
    helper_parses=True,
    main_parses=True,
    passed=6,
    total=8,
    calls_helper=True,
    helper_contribution=0.5,
    main_contribution=0.75,
)


def changed(**changes: object) -> Facts:
    fields = {name: getattr(GOOD, name) for name in Facts.__slots__}
    return Facts(**{**fields, **changes})  # type: ignore[arg-type]


def reward(scheme: str, facts: Facts) -> float:
    return sum(TERMS[scheme](facts).values())


def test_tests_scheme() -> None:
    assert reward("tests", GOOD) == pytest.approx(0.1 + 0.1 + 0.8 * 0.75)
    assert reward("tests", changed(helper_defined=False)) == pytest.approx(0.05 + 0.1 + 0.6)
    assert reward("tests", changed(helper_parses=False, passed=0)) == pytest.approx(0.15)


def test_contribution_scheme() -> None:
    expected = 0.1 + 0.1 + 0.4 * 0.75 + 0.2 * 0.5 + 0.2 * 0.75
    assert reward("contribution", GOOD) == pytest.approx(expected)


def test_paper_scheme() -> None:
    assert reward("paper", GOOD) == pytest.approx(1.0 + 0.5 + 0.75 + 1.5)
    assert reward("paper", changed(passed=8)) == 4.0
    assert reward("paper", changed(thin_wrapper=True)) == pytest.approx(2.25 + 0.5)
    assert reward("paper", changed(ignores_helper=True)) == pytest.approx(2.25 + 1.0)
    assert reward("paper", changed(calls_helper=False)) == pytest.approx(2.25)
    assert reward("paper", changed(passed=0)) == pytest.approx(1.5)
    # one author alone: 0.6 + 0.5 + 1.0
    assert reward("paper", changed(helper_defined=False, passed=8)) == pytest.approx(2.1)
    # main missing stops
    assert reward("paper", changed(main_defined=False, passed=8)) == pytest.approx(0.4)
    # broken syntax stops
    assert reward("paper", changed(helper_parses=False, helper_defined=False)) == 0.6


@pytest.mark.parametrize("scheme", REWARD_RANGES)
def test_every_term_stays_in_its_range(scheme: str) -> None:
    seen: list[float] = []
    for flags in itertools.product([False, True], repeat=7):
        for passed, share in ((0, 0.0), (3, 0.4), (8, 1.0)):
            names = (
                "helper_defined",
                "main_defined",
                "helper_parses",
                "main_parses",
                "calls_helper",
                "ignores_helper",
                "thin_wrapper",
            )
            facts = changed(
                **dict(zip(names, flags, strict=True)),
                passed=passed,
                helper_contribution=share,
                main_contribution=share,
            )
            terms = TERMS[scheme](facts)
            assert set(terms) == set(TERM_RANGES[scheme])
            for name, value in terms.items():
                low, high = TERM_RANGES[scheme][name]
                assert low <= value <= high
            seen.append(sum(terms.values()))
    assert (min(seen), pytest.approx(max(seen))) == REWARD_RANGES[scheme]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def aux(x):\n    return x", True),
        ("aux = lambda x: x", True),
        ("def aux(xs):\n    for x in xs:\n        yield x", True),
        ("try:\n    import a\nexcept ImportError:\n    def aux(x):\n        return 1", True),
        ("def aux(x):\n    pass", False),
        ("def aux(x):\n    return", False),
        ("def aux(x):\n    return None", False),
        ("def aux(x):\n    def inner():\n        return 1", False),
        ("def other():\n    def aux(x):\n        return 1\n    return aux", False),
        ("class aux:\n    def __call__(self):\n        return 1", False),
        ("def aux(x):\n    return 1\ndef aux(x):\n    pass", False),
        ("# def aux(x): return x", False),
        ('"""def aux(x): return x"""', False),
        ("def aux(x) return x", False),
        ("", False),
    ],
)
def test_what_defines_a_function(source: str, expected: bool) -> None:
    assert defines(read_program(source), "aux") is expected


CALLS, IGNORES, THIN = {"calls"}, {"calls", "ignores_result"}, {"calls", "thin_wrapper"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return sum(aux(x) for x in xs)", CALLS),
        ("return sum(map(aux, xs))", CALLS),
        ("return sorted(xs, key=aux)", CALLS),
        ("return max(xs, key=lambda x: aux(x))", CALLS),
        ("def inner(x):\n    return aux(x)\nreturn [inner(x) for x in xs]", CALLS),
        ("y = aux(xs)\nreturn y[0]", CALLS),
        ("if aux(xs):\n    return 1\nreturn 0", CALLS),
        # the result goes nowhere
        ("aux(xs)\nreturn 1", IGNORES),
        ("aux (xs)\nreturn 1", IGNORES),
        ("y = aux(xs)\nreturn 1", IGNORES),
        ("_ = aux(xs, 1)\nreturn 1", IGNORES),
        # only passes on
        ("return aux(xs)", THIN),
        ("pass\nreturn aux(xs)", THIN),
        ('"""Doc."""\n...\nreturn aux(xs)', THIN),
        ("y = aux(xs)\nz = y\nreturn z", THIN),
        ("n = 0\nreturn aux(xs, n)", THIN),
        ("return aux(*xs)", THIN),
        # no call at all
        ("return 1  # aux(xs)", set()),
        ("'''aux(xs)'''\nreturn 1", set()),
        ("return 'aux(xs)'", set()),
        ("if False:\n    aux(xs)\nreturn 1", set()),
        ("while 0:\n    aux(xs)\nreturn 1", set()),
        ("return 1\naux(xs)", set()),
        ("def never():\n    return aux(xs)\nreturn 1", set()),
        ("aux = len\nreturn aux(xs)", set()),
        ("def aux(x):\n    return x\nreturn aux(xs)", set()),
        ("from math import sqrt as aux\nreturn aux(xs)", set()),
    ],
)
def test_how_main_uses_the_helper(body: str, expected: set[str]) -> None:
    source = "def solve(xs):\n    " + body.replace("\n", "\n    ")
    use = use_of(read_program(source), "solve", "aux")
    assert {name for name in use.__slots__ if getattr(use, name)} == expected


def test_a_call_from_a_function_that_main_calls_counts() -> None:
    source = "def part(x):\n    return aux(x)\n\ndef solve(xs):\n    return [part(x) for x in xs]"
    assert use_of(read_program(source), "solve", "aux").calls
    assert not use_of(read_program(source.replace("[part(x)", "[len(x)")), "solve", "aux").calls


def test_where_the_syntax_broke() -> None:
    program = read_program("def aux(x):\n    return (x")
    assert (program.parses, program.line, program.column) == (False, 2, 12)
    assert "never closed" in program.error


@pytest.mark.parametrize(
    "text",
    [
        *JUNK,
        "x = " + "(" * 2000,
        "x = " + "-" * 50_000 + "1",
        "x = 1" + " + 1" * 20_000,
        "x = a" + ".a" * 20_000,
        "if x:\n pass\n" + "elif x:\n pass\n" * 3000,
        "def aux(x):\n    return '\\d'",
        "x = '\ud800'",
        "a" * 2**20,
        "\x00" * 100,
    ],
)
def test_no_text_raises(text: str) -> None:
    program = read_program(text)
    assert isinstance(program.parses, bool)
    assert program.parses or program.error
    assert defines(program, "aux") in (True, False)
    use_of(program, "aux", "solve")


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=60)
    | st.text(alphabet=st.sampled_from("def aux():\n    return(x)#'"), max_size=60)
)
def test_random_text_does_not_raise(text: str) -> None:
    program = read_program(text)
    defines(program, "aux")
    use_of(program, "aux", "f")
