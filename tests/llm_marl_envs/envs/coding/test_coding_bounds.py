"""What one seat of coop_coding can reach alone: against enumeration, play and attacks."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import fmean

import pytest

from llm_marl_envs.envs.coding import bounds, functions
from llm_marl_envs.envs.coding.composition import Composition, describe_helper, describe_main
from llm_marl_envs.envs.coding.conventions import roles_of
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.envs.coding.functions import TESTS, Answer
from llm_marl_envs.envs.coding.source import composition_of

pytestmark = pytest.mark.full  # `make test-all` runs it

FORM, PAY = 0.2, 0.8
ROLES = roles_of(2)
SPLIT = "test_prompts"


def family(prompt: str, split: str = SPLIT) -> list[Composition]:
    """The tasks of a split that a seat with this prompt cannot tell apart."""
    return [
        task
        for task in functions.compositions(split)
        if prompt in (describe_main(task), describe_helper(task))
    ]


# -- the formula ----------------------------------------------------------------------------------
def by_recursion(tasks: Sequence[Composition], turns: int) -> Fraction:
    """The optimum by the belief's definition: every program of a turn solves one task or none.

    In units of tasks solved, over all tasks of the belief.
    """
    if turns == 1:
        columns = zip(*(functions.answers_of(task) for task in tasks), strict=True)
        agreeing = sum(Counter(column).most_common(1)[0][1] for column in columns) if tasks else 0
        return Fraction(agreeing, len(TESTS))
    rest = [[*tasks[:i], *tasks[i + 1 :]] for i in range(len(tasks))]
    return max([by_recursion(tasks, turns - 1), *(1 + by_recursion(r, turns - 1) for r in rest)])


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
def test_the_bound_is_the_optimum_over_beliefs(turns: int) -> None:
    """With few tasks too, where not all that are ruled out are without loss."""
    tasks = family(describe_main(functions.compositions(SPLIT)[0]))
    assert len(tasks) > 8
    for few in (tasks[:2], tasks[:3], tasks[:5], tasks[3:10]):
        best = by_recursion(few, turns) / len(few)
        assert bounds.optimal_value(few, turns) == pytest.approx(float(best))


def test_enumeration_and_short_cut_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tasks outside every most frequent answer abound, nothing is enumerated."""
    tasks = family(describe_main(functions.compositions("train")[0]), "train")
    short = [bounds.optimal_value(tasks, turns) for turns in (2, 3)]
    monkeypatch.setattr(bounds, "_free", lambda labels: 0)
    assert [bounds.optimal_value(tasks, turns) for turns in (2, 3)] == short


def test_the_better_seat_is_the_same_for_all_tasks_of_a_split() -> None:
    for split, turns in itertools.product(("val", "test", SPLIT), (1, 2)):
        env = CoopCodingEnv(split=split, turns=turns)
        alone = {r: bounds.seat_value(split, turns, r) for r in ROLES}
        mean = fmean(env.bounds(env.source[i]).solo for i in range(len(env.source)))
        assert mean == pytest.approx(FORM + PAY * max(alone.values()))


def test_the_table_of_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs/environments/coop_coding.md").read_text("utf-8")
    for split in ("train", "val", "test", SPLIT):
        values = (bounds.seat_value(split, k, r) for r in ROLES for k in range(1, 5))
        cells = " | ".join(f"{FORM + PAY * value:.3f}" for value in values)
        assert f"| `{split}` | {cells} |" in page


def test_refused() -> None:
    env = CoopCodingEnv(turns=5)
    with pytest.raises(ValueError, match="1 to 4 turns"):
        env.bounds(env.source[0])
    other_words = Composition("fold", ("over 1",), "a plus b", "0")
    assert functions.split_of(other_words) == "train"
    with pytest.raises(ValueError, match="is no task"):
        bounds.solo_share(other_words, 1)
    for feedback in ("diagnostics", "partner"):
        env = CoopCodingEnv(turns=2, feedback=feedback)
        with pytest.raises(ValueError, match=f"feedback='{feedback}' reveals"):
            env.bounds(env.source[0])
        once = CoopCodingEnv(turns=1, feedback=feedback)
        assert once.bounds(once.source[0]).solo < 1.0


# -- played ---------------------------------------------------------------------------------------
FIXED_HELPER = "def aux(*values):\n    return values[0]"
PASSING_MAIN = "def solve(xs):\n    return aux(xs)"
Plan = Callable[[list[Composition], int], list[str]]
"""The tasks that are possible, turns -> the programs of the seat, one a turn."""


def composition(env: CoopCodingEnv, index: int) -> Composition:
    found = composition_of(env.source[index])
    assert found is not None
    return found


def table(answers: Sequence[Answer], name: str) -> str:
    """A program that knows its answers by heart."""
    pairs = dict(zip(TESTS, answers, strict=True))
    known = {xs: list(a) if isinstance(a, tuple) else a for xs, a in pairs.items()}
    return f"def {name}(xs):\n    return {known}[tuple(xs)]"


def optimal(name: str) -> Plan:
    """Rules out tasks at no loss where it can, then answers what most of the rest answer."""

    def plan(tasks: list[Composition], turns: int) -> list[str]:
        def kept(out: tuple[Composition, ...]) -> Fraction:
            return by_recursion([task for task in tasks if task not in out], 1)

        gone = max(itertools.combinations(tasks, min(turns - 1, len(tasks))), key=kept)
        rest = [task for task in tasks if task not in gone] or list(gone)
        columns = zip(*(functions.answers_of(task) for task in rest), strict=True)
        common = [Counter(column).most_common(1)[0][0] for column in columns]
        return [*(table(functions.answers_of(task), name) for task in gone), table(common, name)]

    return plan


def play(seat: str, plan: Plan, turns: int, indices: Sequence[int]) -> list[float]:
    """Returns of episodes that one seat plays alone, by what it sees."""
    env = CoopCodingEnv(split=SPLIT, turns=turns)
    describe = describe_main if seat == MAIN else describe_helper
    returns = []
    for index in indices:
        programs = plan(family(describe(composition(env, index))), turns)
        env.reset(seed=0, options={"task": index})
        total = 0.0
        for program in programs:
            other = {MAIN: PASSING_MAIN, HELPER: FIXED_HELPER}
            total += env.step({**other, seat: program})[1][seat]
            if not env.agents:
                break
        returns.append(total)
    return returns


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
@pytest.mark.parametrize("seat", [MAIN, HELPER])
def test_an_optimal_seat_alone_returns_its_value(seat: str, turns: int) -> None:
    """On all tasks of a prompt the mean return is the value itself: there is no noise."""
    name, role = ("solve", "main") if seat == MAIN else ("aux", "helper")
    describe = describe_main if seat == MAIN else describe_helper
    env = CoopCodingEnv(split=SPLIT, turns=turns)
    indices: dict[str, list[int]] = defaultdict(list)
    for index in range(len(env.source)):
        indices[describe(composition(env, index))].append(index)
    for prompt in sorted(indices, key=lambda prompt: (len(indices[prompt]), prompt))[: 5 - turns]:
        value = FORM + PAY * bounds.optimal_value(family(prompt), turns)
        returns = play(seat, optimal(name), turns, indices[prompt])
        assert fmean(returns) == pytest.approx(value)
        if role == bounds.better_seat(SPLIT, turns):
            assert env.bounds(env.source[indices[prompt][0]]).solo == pytest.approx(value)


# -- attacks --------------------------------------------------------------------------------------
def guesses(tasks: list[Composition], turns: int) -> list[str]:
    """The operation guessed, another one each turn."""
    return [table(functions.answers_of(tasks[i % len(tasks)]), "solve") for i in range(turns)]


def hybrids(tasks: list[Composition], turns: int) -> list[str]:
    """Each test answered by another task, so that each turn tries many at once."""
    rows = [functions.answers_of(task) for task in tasks]
    return [
        table([rows[(i + shift) % len(rows)][i] for i in range(len(TESTS))], "solve")
        for shift in range(turns)
    ]


def stubborn(tasks: list[Composition], turns: int) -> list[str]:
    """The best single answer, said every turn."""
    return optimal("solve")(tasks, 1) * turns


def listening(tasks: list[Composition], turns: int) -> list[str]:
    """A program that keeps what it gets from `aux`, or fails in a way that shows it."""
    asks = [
        "def solve(xs):\n    raise ValueError(repr([aux(x) for x in range(9)]))",
        "def solve(xs):\n    return [aux(x) for x in range(9)]",
        "raise ValueError(str(aux(2)))\ndef solve(xs):\n    return 1",
    ]
    return [*asks[: turns - 1], *optimal("solve")(tasks, 1)]


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
@pytest.mark.parametrize("attack", [guesses, hybrids, stubborn, listening])
def test_no_attack_returns_more_than_the_bound(attack: Plan, turns: int) -> None:
    """On all tasks of two main prompts: their mean value is exact, there is no noise."""
    env = CoopCodingEnv(split=SPLIT, turns=turns)
    prompts = [describe_main(task) for task in functions.compositions(SPLIT)]
    for prompt in (prompts[0], prompts[-1]):
        indices = [
            index
            for index in range(len(env.source))
            if describe_main(composition(env, index)) == prompt
        ]
        returns = play(MAIN, attack, turns, indices)
        assert fmean(returns) <= env.bounds(env.source[indices[0]]).solo + 1e-9


def inverted(env: CoopCodingEnv, index: int) -> float:
    """What main returns alone in two turns if it believes every value that it is told."""
    tasks = family(describe_main(composition(env, index)))
    env.reset(seed=0, options={"task": index})
    [asks] = optimal("solve")(tasks, 1)  # the first test that it fails says much
    told, rewards, *_ = env.step({HELPER: FIXED_HELPER, MAIN: asks})
    paid = rewards[MAIN]
    values = [
        (TESTS.index(tuple(ast.literal_eval(xs))), ast.literal_eval(value))
        for xs, value in re.findall(
            r"solve\((\[.*?\])\) == (\[.*?\]|-?\d+)", told[MAIN].messages[-1].content
        )
    ]
    fitting = [task for task in tasks if all(functions.answers_of(task)[i] == v for i, v in values)]
    [program] = optimal("solve")(fitting, 1)
    return paid + env.step({HELPER: FIXED_HELPER, MAIN: program})[1][MAIN]


def test_inverting_a_revealed_value_beats_the_bound_only_where_values_are_revealed() -> None:
    """Under diagnostics one value tells most of the tasks apart, and there is no bound."""
    prompt = describe_main(functions.compositions(SPLIT)[0])
    plain = CoopCodingEnv(split=SPLIT, turns=2)
    indices = [
        index
        for index in range(len(plain.source))
        if describe_main(composition(plain, index)) == prompt
    ]
    solo = plain.bounds(plain.source[indices[0]]).solo
    assert fmean(inverted(plain, index) for index in indices) <= solo + 1e-9
    told = CoopCodingEnv(split=SPLIT, turns=2, feedback="diagnostics")
    assert fmean(inverted(told, index) for index in indices) > solo + 0.2


def test_what_is_told_over_turns_does_not_depend_on_the_partner() -> None:
    """Under plain feedback a seat hears of its own syntax alone, and not how many tests passed."""
    env = CoopCodingEnv(split=SPLIT, turns=2)
    assert env.feedback_mode == "plain"
    prompt = describe_main(composition(env, 0))
    tasks = {i: composition(env, i) for i in range(len(env.source))}
    indices = [i for i, task in tasks.items() if describe_main(task) == prompt][:4]
    programs = ["def solve(xs):\n    return 1", "def solve(xs:", "nothing", ""]
    programs += optimal("solve")(family(prompt), 1)
    helpers = ["def aux(x):\n    return 1", "def aux(x:", "raise ValueError('secret')", ""]
    heard: dict[str, set[str]] = defaultdict(set)
    passed: dict[str, set[int]] = defaultdict(set)
    for main, helper, index in itertools.product(programs, helpers, indices):
        env.reset(seed=0, options={"task": index})
        seen, _, _, _, infos = env.step({MAIN: main, HELPER: helper})
        heard[main].add(seen[MAIN].messages[-1].content)
        heard[f"helper: {helper}"].add(seen[HELPER].messages[-1].content)
        passed[main].add(infos[MAIN]["tests_passed"])
    assert len(passed[programs[-1]]) > 1  # which would tell one task from another
    assert all(len(texts) == 1 for texts in heard.values())
    assert re.search("does not parse.*line 1", heard[programs[1]].pop())
