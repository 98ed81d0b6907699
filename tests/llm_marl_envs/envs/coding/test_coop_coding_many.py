"""coop_coding with three and four authors: who is needed, what one seat reaches alone, attacks."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.envs.coding import bounds, functions
from llm_marl_envs.envs.coding.composition import (
    KINDS,
    OPS,
    Composition,
    conventions,
    describe,
    describe_main,
    evaluate,
    expert,
)
from llm_marl_envs.envs.coding.conventions import function_of, read_convention, roles_of
from llm_marl_envs.envs.coding.coop_coding import MAIN, CoopCodingEnv
from llm_marl_envs.envs.coding.functions import SPLITS, TESTS
from llm_marl_envs.envs.coding.source import composition_of
from llm_marl_envs.envs.coding.vocabulary import INNER_OPS, PREDICATES
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.coordination import measure_coordination
from llm_marl_envs.policies.expert import AgreedPolicy, ExpertPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it

MANY = pytest.mark.parametrize("authors", [3, 4])
PAGE = Path(__file__).parents[4] / "docs/environments/coop_coding.md"
THREE = Composition("item", ("even",), "minus x", "the sum of {}", divided=True)
FOUR = Composition("fold", ("odd",), "a minus b", "10", divided=True, inner="x plus 4")


def played(env: CoopCodingEnv, joint: Mapping[str, str], index: int) -> float:
    env.reset(seed=0, options={"task": index})
    return env.step(joint)[1][MAIN]


def right(env: CoopCodingEnv, index: int) -> dict[str, str]:
    task, experts = env.source[index], experts_of(env)
    convention = experts.conventions(task)[-1]
    return {agent: experts.first(task, agent, convention) for agent in env.possible_agents}


# -- tasks ----------------------------------------------------------------------------------------
def test_answers_worked_by_hand() -> None:
    assert evaluate(THREE, [1, 2, 4, -3]) == -2 - 4
    assert evaluate(FOUR, [3, 2, -1]) == (10 - (3 + 4)) - (-1 + 4)
    assert describe(THREE, "helper_1") == "A number is dax if it is even."
    assert describe(FOUR, "helper_2") == "The fep of x is x plus 4."
    assert describe_main(THREE) == "Return the sum of the zups of the numbers in xs that are dax."
    assert describe_main(FOUR) == (
        "Start with t = 10. For each number x in xs that is dax, in order, set t to the zup of t "
        "and the fep of x. Return t."
    )


@MANY
def test_another_word_of_one_helper_fails_half_of_the_tests(authors: int) -> None:
    """Or none: whoever does without a helper must guess its word."""
    tasks = [task for split in SPLITS for task in functions.compositions(split, authors)]
    assert {len(task.roles) for task in tasks} == {authors}
    assert len({functions.answers_of(task) for task in tasks}) == len(tasks)
    for task in tasks[::150]:
        others = [replace(task, op=op) for op in OPS[task.kind] if authors == 3]
        others += [replace(task, predicates=one) for one in ((), *((p,) for p in PREDICATES))]
        others += [replace(task, inner=inner) for inner in (*INNER_OPS, "") if authors == 4]
        for other in others:
            agree = sum(evaluate(other, xs) == evaluate(task, xs) for xs in TESTS)
            assert other == task or agree <= functions.MAX_SHARED == 4


@MANY
def test_every_prompt_of_val_and_test_is_read_in_train_with_others(authors: int) -> None:
    read = {
        split: [
            {describe(task, role) for task in functions.compositions(split, authors)}
            for role in roles_of(authors)
        ]
        for split in SPLITS
    }
    for split in ("val", "test"):
        assert {task.kind for task in functions.compositions(split, authors)} == set(KINDS)
        assert all(new <= known for new, known in zip(read[split], read["train"], strict=True))
    assert not read["test_prompts"][0] & read["train"][0]
    tasks = [set(functions.compositions(split, authors)) for split in SPLITS]
    assert not any(one & other for one, other in itertools.combinations(tasks, 2))


@MANY
def test_conventions_of_experts_are_read_and_decide(authors: int) -> None:
    for task in functions.compositions("val", authors)[::40]:
        for convention in conventions(task):
            programs = {role: expert(task, role, convention) for role in task.roles}
            for role, text in programs.items():
                assert read_convention(task.kind, role, text, authors) == convention
    mixed = "def solve(xs):\n    return [aux(x) for x in aux_1(xs)]"
    assert read_convention("item", "main", mixed, 3) is None
    named = (
        "def solve(xs):\n    kept = aux_1(xs)\n    feps = aux_2(kept)\n    return sum(aux(feps))"
    )
    assert read_convention("item", "main", named, 4) == "list"
    one_by_one = named.replace("aux(feps)", "aux(x) for x in feps")
    assert read_convention("item", "main", one_by_one, 4) is None


def test_others_tasks_and_numbers_are_refused() -> None:
    for name, most in (("coop_coding", 4), ("coop_writing_tldr", 3), ("coop_writing_arxiv", 3)):
        for given in (0, 1, most + 1):
            with pytest.raises(ValueError, match=rf"n_agents={given}: expected .* 2 to {most}"):
                make(f"{name}-v0", n_agents=given)
    with pytest.raises(ValueError, match=r"n_agents=3: .* has 2 parts; rows .* use n_agents=2"):
        make("coop_coding-v0", n_agents=3, tasks="bundled:coop_problems", split="all")
    four, three = CoopCodingEnv(n_agents=4), CoopCodingEnv(n_agents=3)
    with pytest.raises(ValueError, match=r"has 4 parts; use n_agents=4"):
        three.reset(options={"task": four.source[0]})
    with pytest.raises(ValueError, match=r"has 4 parts; use n_agents=4"):
        CoopCodingEnv(n_agents=3, tasks=four.source)
    with pytest.raises(ValueError, match="inner operation only where"):
        Composition("item", ("even",), "minus x", "the sum of {}", inner="x plus 4")


# -- what a seat reaches alone --------------------------------------------------------------------
def table(rows: list[tuple[functions.Answer, ...]], name: str) -> str:
    """A program that knows by heart what most of the possible tasks answer to each test."""
    common = [Counter(column).most_common(1)[0][0] for column in zip(*rows, strict=True)]
    known = {
        xs: list(a) if isinstance(a, tuple) else a for xs, a in zip(TESTS, common, strict=True)
    }
    return f"def {name}(xs):\n    return {known}[tuple(xs)]"


@pytest.mark.parametrize(("authors", "seat"), [(3, 0), (3, 1), (3, 2), (4, 0), (4, 3)])
def test_an_optimal_seat_alone_returns_its_value(authors: int, seat: int) -> None:
    """On all tasks of a prompt the mean return is the value itself: there is no noise."""
    env = CoopCodingEnv(split="val", n_agents=authors)
    agent, role = list(env.roles.items())[seat]
    indices: dict[str, list[int]] = defaultdict(list)
    found = [composition_of(env.source[i]) for i in range(len(env.source))]
    for index, task in enumerate(found):
        assert task is not None
        indices[describe(task, role)].append(index)
    prompt = min(indices, key=lambda one: (len(indices[one]), one))
    family = [task for i in indices[prompt] if (task := found[i]) is not None]
    value = 0.2 + 0.8 * bounds.optimal_value(family, 1)
    own = "solve" if role == "main" else function_of(role)
    others = {
        one: f"def {function_of(r)}(*values):\n    return values[0]" for one, r in env.roles.items()
    }
    passing = f"def solve(xs):\n    return {own if role != 'main' else 'aux'}(xs)"
    mine = table([functions.answers_of(task) for task in family], own)
    joint = {**others, MAIN: passing, agent: mine}
    assert fmean(played(env, joint, i) for i in indices[prompt]) == pytest.approx(value)
    if role == bounds.better_seat("val", 1, authors):
        assert env.bounds(env.source[indices[prompt][0]]).solo == pytest.approx(value)


@MANY
def test_the_tables_of_the_page(authors: int) -> None:
    page = PAGE.read_text("utf-8")
    for split in SPLITS:
        tasks, roles = functions.compositions(split, authors), roles_of(authors)
        alone = [f"{0.2 + 0.8 * bounds.seat_value(split, 1, r, authors):.3f}" for r in roles]
        absent = [f"{bounds.absent_share(split, 1, r, authors):.3f}" for r in roles]
        assert " | ".join([f"| `{split}`", str(len(tasks)), *alone, *absent]) in page


# -- attacks --------------------------------------------------------------------------------------
@MANY
def test_no_author_can_be_missing_and_none_can_take_over(authors: int) -> None:
    env = CoopCodingEnv(split="test", n_agents=authors)
    paid: dict[str, list[float]] = defaultdict(list)
    for index in range(0, len(env.source), 100):
        team = right(env, index)
        assert played(env, team, index) == 1.0
        for agent, text in team.items():
            paid["silent"].append(played(env, {**team, agent: ""}, index))
            rest = "".join(
                f"\n{other.splitlines()[0]}\n    return 7"
                for one, other in team.items()
                if one != agent
            )
            overwriting = played(env, {**team, agent: text + rest}, index)
            # What a helper defines beside its function is nobody's; main uses what it defines.
            assert overwriting == 1.0 or agent == MAIN
            if agent == MAIN:
                paid["main takes over"].append(overwriting)
            shouting = {**team, agent: text + "\n# " + "me " * 9000}
            assert played(env, shouting, index) == 1.0
        paid["copies of main"].append(played(env, dict.fromkeys(team, team[MAIN]), index))
        paid["nothing"].append(played(env, dict.fromkeys(team, ""), index))
        paid["constant"].append(played(env, {**team, MAIN: "def solve(xs):\n    return 0"}, index))
    means = {name: fmean(values) for name, values in paid.items()}
    assert means["nothing"] == 0.0
    assert max(paid["silent"]) <= 0.5
    assert means["silent"] < 0.25
    assert means["constant"] < 0.3
    assert means["main takes over"] < 0.3
    assert means["copies of main"] < 0.2


@MANY
def test_stalling_earns_nothing(authors: int) -> None:
    env = CoopCodingEnv(n_agents=authors, turns=3)
    team = right(env, 0)
    env.reset(seed=0, options={"task": 0})
    at_once = env.step(team)[1][MAIN]
    assert not env.agents
    env.reset(seed=0, options={"task": 0})
    late = [env.step(joint)[1][MAIN] for joint in (dict.fromkeys(team, ""), team)]
    assert at_once == sum(late) == 1.0
    assert late[0] == 0.0


TRYING = {
    "item": "def zup(x):\n    try:\n        return 0 + aux(x)\n    except Exception:\n"
    "        return aux([x])[0]\n",
    "fold": "def zup(t, x):\n    try:\n        return aux(t, x)\n    except Exception:\n"
    "        return aux((t, x))\n",
    "dax": "def dax(x):\n    try:\n        return 0 + aux_1(x)\n    except Exception:\n"
    "        return len(aux_1([x]))\n",
    "fep": "def fep(x):\n    try:\n        return 0 + aux_2(x)\n    except Exception:\n"
    "        return aux_2([x])[0]\n",
}
"""Parts of a main that calls a helper's function in one way, then in the other."""


@pytest.mark.parametrize("authors", [2, 3, 4])
def test_a_main_that_tries_both_interfaces_fits_every_helper(authors: int) -> None:
    env = CoopCodingEnv(split="val", n_agents=authors)
    experts, played_kinds = experts_of(env), Counter[str]()
    for index in range(20):
        task = env.source[index]
        kind, known = task.data["kind"], experts.conventions(task)
        if kind not in TRYING or played_kinds[kind] == 3:
            continue
        played_kinds[kind] += 1
        main = experts.first(task, MAIN, known[0])  # calls all for one number
        for name, own in (("aux(", "zup("), ("aux_1(", "dax("), ("aux_2(", "fep(")):
            main = main.replace(name, own)
        main = TRYING[kind] + TRYING["dax"] + TRYING["fep"] + main
        *helpers, _ = env.roles
        for mixed in itertools.product(known, repeat=authors - 1):
            team = {a: experts.first(task, a, one) for a, one in zip(helpers, mixed, strict=True)}
            assert played(env, {**team, MAIN: main}, index) == 1.0, (kind, mixed)
    assert played_kinds == {"item": 3, "fold": 3}


# -- turns, contribution, measures ----------------------------------------------------------------
def test_each_is_shown_the_code_of_all_others() -> None:
    env = CoopCodingEnv(n_agents=3, turns=2, feedback="partner")
    assert env.links() == {a: {b: 1 for b in env.roles if b != a} for a in env.roles}
    env.reset(seed=0, options={"task": 0})
    texts = {"helper_0": "def aux(x): return 1", "helper_1": "def aux_1(", MAIN: "solve = 3"}
    seen = env.step(texts)[0]
    for reader, writer in itertools.permutations(env.roles, 2):
        assert f"{texts[writer]}\n" in seen[reader].messages[-1].content
    assert "The code for aux_1 failed, so no test was run." in seen[MAIN].messages[-1].content
    assert "Your code does not parse: '(' was never closed" in seen["helper_1"].messages[-1].content


def test_contribution_is_that_of_the_least_helper() -> None:
    env = CoopCodingEnv(n_agents=3, reward="contribution", info="full")
    index = 2  # a sum, so that main's result is no helper's value
    team = right(env, index)
    honest = env.contribution(env.source[index], team)
    assert honest.helper >= 0.5
    assert honest.main >= 0.5
    assert honest.cooperative_success
    task = composition_of(env.source[index])
    assert task is not None
    # Main knows what is dax in the setting in which all are told all, so helper_1 adds nothing.
    alone = expert(replace(task, divided=False), "main", conventions(task)[-1])
    without = env.contribution(env.source[index], {**team, MAIN: alone})
    assert without.helper == 0.0
    assert not without.cooperative_success


@MANY
def test_a_team_is_measured(authors: int) -> None:
    env = CoopCodingEnv(n_agents=authors)
    together = evaluate_team(env, dict.fromkeys(env.roles, AgreedPolicy(env)), n_tasks=6)
    assert together.mean_return == 1.0
    assert together.match == 1.0
    assert together.cooperation is not None
    assert together.cooperation.mean == pytest.approx(1.0)
    drawing = evaluate_team(env, dict.fromkeys(env.roles, ExpertPolicy(env)), n_tasks=12)
    found = measure_coordination(env, drawing.episodes)
    assert set(found.competence.values()) == {1.0}
    assert found.success_given_match == 1.0
    assert found.choice_match is not None
    assert found.choice_match < 0.8
