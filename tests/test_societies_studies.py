"""The studies of societies: rules beside the environment, exact numbers by other ways, the page."""

from __future__ import annotations

import importlib
import itertools
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from benchmarks.societies import circle
from benchmarks.societies.circle import PARTS
from benchmarks.societies.generations import Evolution, advised, generations, selected
from benchmarks.societies.lake import Lake, best_gain, dealt_all, sharing, worth
from benchmarks.societies.rule_bed import TOLD, Sizes, broken, rounds_of
from benchmarks.societies.starts import backward, gradient
from benchmarks.societies.tipping import Members, cascade, expected, imitators
from benchmarks.societies.villages import TEXTS, chain, copier, replicator, step, village
from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.envs.games.landscape import near_uniform, softmax
from llm_marl_envs.envs.societies.gift_responses import Society
from llm_marl_envs.envs.societies.gift_responses import best_response as gift_response
from llm_marl_envs.envs.societies.gift_scripts import Script as GiftScript
from llm_marl_envs.envs.societies.gifts import Rules as GiftRules
from llm_marl_envs.envs.societies.reputation import IMAGE_SCORING, STANDING, Norm
from llm_marl_envs.envs.societies.stock import Rules, dealt
from llm_marl_envs.envs.societies.stock_responses import best_response
from llm_marl_envs.envs.societies.stock_scripts import Script
from llm_marl_envs.measure.numbers.society import tipping_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it

LAKE = Lake(Rules(seats=5, months=12, capacity=100), (0, 10, 20, 100))
CIRCLE = circle.Circle(GiftRules(seats=5, rounds=4, endowment=1, end=0.5), draw=12)
BY_CHANCE = Lake(Rules(seats=3, months=6, capacity=60, end=0.2), (0, 10, 60))


# -- the lake --------------------------------------------------------------------------------------
def test_the_lake_pays_what_the_environment_pays() -> None:
    """Random amounts, seldom everything; who gets a unit that is left over is chance."""
    rng = np.random.default_rng(0)
    chances = np.tile([0.2, 0.5, 0.28, 0.02], (5, LAKE.rows, 1))
    found = LAKE.play(chances, 30, rng)
    row = [{"stock": 100, "capacity": 100}]
    copies = VectorTextEnv([make("commons-v0", tasks=row, talk=0, turns=12)])
    for n in range(30):

        def say(request: Request, n: int = n) -> str:
            return str(LAKE.amounts[found.said[n, int(request.agent[-1]), request.turn]])

        team = dict.fromkeys(copies.envs[0].possible_agents, ScriptedPolicy(say))
        (episode,) = rollout(copies, team, [Start(task=0, seed=n)])
        months = int(found.alive[n].sum())
        assert [len(episode.trajectory(agent)) for agent in episode.agents] == [months] * 5
        last = episode.trajectory("villager_0")[-1].info
        assert (last["survival"] == 1.0) == found.lasted[n]
        for seat, agent in enumerate(episode.agents):
            turns = episode.trajectory(agent)
            assert found.paid[n, seat, :months] == pytest.approx(
                [turn.reward for turn in turns], abs=1.01 / LAKE.best
            )
        assert found.paid[n].sum() == pytest.approx(5 * episode.team_return)


def test_units_are_dealt_as_the_rules_say() -> None:
    rng = np.random.default_rng(1)
    joint = LAKE.joint[rng.integers(len(LAKE.joint), size=300)]
    stock = rng.integers(len(LAKE.stocks), size=300)
    powers = 4 ** np.arange(5)[::-1]
    each, over, _ = LAKE.levels[stock, joint @ powers].T
    units = dealt_all(LAKE, joint, stock, (each, over), rng)
    for said, s, got in zip(joint, stock, units, strict=True):
        there = LAKE.stocks[s]
        named = [min(LAKE.amounts[a], there) for a in said]
        assert any(
            tuple(got) == dealt(named, there, order) for order in itertools.permutations(range(5))
        )


@pytest.mark.parametrize("lake", [LAKE, BY_CHANCE])
def test_exact_pay_is_that_of_episodes(lake: Lake) -> None:
    rng = np.random.default_rng(2)
    chances = softmax(rng.normal(0, 1, (lake.n, lake.rows, len(lake.amounts))))
    exact, played = worth(lake, chances), lake.play(chances, 20_000, rng)
    paid = played.paid.sum(2)
    assert exact["pay"] == pytest.approx(paid.mean(0), abs=4 * paid.std() / 20_000**0.5)
    assert exact["lasts"] == pytest.approx(played.lasted.mean(), abs=0.02)
    months = np.where(played.lasted, 1.0, played.alive.sum(1) / lake.rules.months)
    assert exact["survival"] == pytest.approx(months.mean(), abs=0.02)


def test_sharers_and_best_responses_by_hand() -> None:
    """Beside tables that share and grab once somebody took too much, as beside grim scripts."""
    chances = softmax(sharing(LAKE, 1e-9, 5, np.random.default_rng(0)))
    assert worth(LAKE, chances)["pay"] == pytest.approx([1.0] * 5)
    grim = best_response(LAKE.rules, 100, Script("grim"), step=10)
    assert best_gain(LAKE, chances, 0) * LAKE.best == pytest.approx(grim.pay) == 160


def test_the_exact_gradient_is_the_slope() -> None:
    begin = near_uniform([(6, len(BY_CHANCE.stocks), 3)] * 3, 2, seed=3)
    for mode in ("own", "team"):
        slopes = gradient(BY_CHANCE, mode, begin)
        for seat, at in ((0, (0, 0, -1, 1)), (2, (1, 2, -1, 2)), (1, (1, 1, 0, 0))):
            values = []
            for change in (1e-5, -1e-5):
                moved = [table.copy() for table in begin]
                moved[seat][at] += change
                tables = [softmax(table) for table in moved]
                values.append(backward(BY_CHANCE, tables, mode)[1][seat][at[0]])
            assert slopes[seat][at] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


# -- the circle ------------------------------------------------------------------------------------
def test_the_circle_pays_what_the_environment_pays() -> None:
    """An endowment of 16, so that halves are whole."""
    rng = np.random.default_rng(0)
    found = CIRCLE.play(softmax(rng.normal(0, 1, (5, CIRCLE.rows, 3))), 30, rng)
    row = [{"endowment": 16, "draw": CIRCLE.draw}]
    copies = VectorTextEnv([make("donor-v0", tasks=row, n_agents=5, turns=4, end=0.5)])
    for n in range(30):
        wealth = np.ones((1, 5))
        gifts = []
        for number in range(4):
            parts = PARTS[found.said[n, :, number]]
            gifts.append(16 * wealth[0] * parts)
            wealth = CIRCLE.settled(number, wealth, parts[None])

        def say(request: Request, gifts: Sequence[Any] = gifts) -> str:
            return str(int(gifts[request.turn][int(request.agent[-1])]))

        team = dict.fromkeys(copies.envs[0].possible_agents, ScriptedPolicy(say))
        (episode,) = rollout(copies, team, [Start(task=0, seed=n)])
        for seat, agent in enumerate(episode.agents):
            rewards = [turn.reward for turn in episode.trajectory(agent)]
            alive = min(len(rewards), int(found.alive[n].sum()))
            assert found.paid[n, seat, :alive] == pytest.approx(rewards[:alive])
    assert found.alive.mean(0) == pytest.approx([1, 0.5, 0.25, 0.125], abs=0.25)


def test_exact_giving_is_that_of_episodes() -> None:
    rng = np.random.default_rng(2)
    team = softmax(rng.normal(0, 1, (5, CIRCLE.rows, 3)))
    exact, played = circle.worth(CIRCLE, team), CIRCLE.play(team, 40_000, rng)
    paid = played.paid.sum(2)
    assert exact["pay"] == pytest.approx(paid.mean(0), abs=4 * paid.std() / 40_000**0.5)
    parts = PARTS[played.said].mean(1)
    assert exact["giving"] == pytest.approx(parts[played.alive].mean(), abs=0.01)
    with pytest.raises(ValueError, match="draw"):
        circle.Circle(CIRCLE.rules, draw=1)


@pytest.mark.parametrize(
    ("norm", "plan"), [(IMAGE_SCORING, "image_scorer"), (STANDING, "standing")]
)
def test_best_responses_beside_scripts(norm: Norm, plan: str) -> None:
    """With tables that give in the last round too, as scripts do; halves of 16 are whole."""
    team = softmax(circle.society(norm, 1e-9, 5, np.random.default_rng(0)))
    team[:, 1::2] = team[:, ::2]
    rules = GiftRules(seats=5, rounds=4, endowment=16, end=0.5)
    group = Society(rules, CIRCLE.to, [GiftScript(plan)] * 5, depth=2)
    assert circle.worth(CIRCLE, team)["pay"] == pytest.approx(1.0)
    for seat in (0, 3):
        best = gift_response(group, seat).pay / (16 * CIRCLE.best)
        assert circle.best_gain(CIRCLE, team, seat) == pytest.approx(best)


def test_what_the_criterion_of_givers_takes_from_exact_pay() -> None:
    """Among those who stand by standing no row pays much; among scorers giving to keepers does."""
    rng = np.random.default_rng(0)
    for norm, pays in ((STANDING, False), (IMAGE_SCORING, True)):
        team = softmax(circle.society(norm, 0.05, 5, rng))
        own = circle.worth(CIRCLE, team)["pay"][0]
        gains = {}
        for row in range(CIRCLE.rows):
            for word in (circle.NOTHING, circle.ALL):
                changed = team.copy()
                changed[0, row] = np.where(np.arange(3) == word, 0.95, 0.025)
                gains[row, word] = circle.worth(CIRCLE, changed)["pay"][0] - own
        assert (gains[circle.row(circle.NOTHING), circle.ALL] > 0.003) == pays, norm
        assert gains[circle.row(circle.ALL), circle.NOTHING] < -0.1
        assert max(gains.values()) < 0.01


# -- the rule --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("thresholds", "round_"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 4),
        ([0, 1, 1, 3, 5, 5, 6, 7], 3),
        ([0, 0, 2, 2, 4, 4, 6, 6], 2),
        ([0, 2, 2, 2, 2, 2, 2, 2], None),
    ],
)
def test_imitators_tip_when_computed(thresholds: Sequence[int], round_: int | None) -> None:
    played = rounds_of(imitators(thresholds), Sizes(10, 2), 3)
    shares = [float(np.mean(row)) for row in played.probes]
    assert shares == cascade(thresholds, 10)
    assert tipping_of(shares) == round_
    for told in ("conforming", "none"):
        calm = rounds_of(imitators(thresholds), Sizes(10, 2), 3, TOLD[told])
        first = thresholds.count(0) / len(thresholds)
        assert [float(np.mean(row)) for row in calm.probes] == [first] * 10


def test_what_breaks_a_rule() -> None:
    assert [broken(text) for text in ("break", " Action: Break. ", "break it", "", "keep")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_expected_violation_by_hand() -> None:
    """Round 2: others break it with the binomial chance of 7 at 0.02; one seat always does."""
    none, more = 0.98**7, 7 * 0.02 * 0.98**6
    assert expected(1) == [(0.02, 0.0)]
    two = 0.02 * none + 2 / 8 * more  # two broke it; three or more are rare
    assert expected(2)[1][0] == pytest.approx(two, abs=0.004)
    assert expected(2)[1][0] > two


def test_the_chain_is_that_of_the_tables() -> None:
    """With the draws of the bed, for 400 other seeds than the study's; the bed is left out."""

    def last_violation(seed: int) -> float:
        base, tables, count = derive_seed("tipping", seed), Members(seed), 0
        chances: list[float] = []
        for number in range(10):
            start = derive_seed(derive_seed(base, number), 10 + number) % 2**31
            names = [f"member_{seat}" for seat in range(1, 8)]
            chances = [tables.chances(name, str(count))[1] for name in names]
            sample = derive_seed("sample", start, 0)
            lots = [np.random.default_rng(derive_seed(sample, name, 0)).random() for name in names]
            count = 1 + sum(lot < chance for lot, chance in zip(lots, chances, strict=True))
        return float(np.mean(chances))

    mean, deviation = expected(10)[-1]
    found = [last_violation(seed) for seed in range(2000, 2400)]
    assert np.mean(found) == pytest.approx(mean, abs=4 * deviation / 20)


# -- generations -----------------------------------------------------------------------------------
def test_villages_by_hand() -> None:
    assert village(0) == (130.0, 0.0)
    assert village(1) == (10.0, 60.0)
    assert village(5) == (0.0, 20.0)
    assert step().sum(1) == pytest.approx(1.0)
    assert chain(0, 3)[1] @ np.arange(TEXTS + 1) == pytest.approx(10 * 0.025)
    # One grabber: three villages of sharers fill the better half.
    assert step(0.0)[1] == pytest.approx(np.eye(TEXTS + 1)[0])
    assert step(0.0)[TEXTS] == pytest.approx(np.eye(TEXTS + 1)[TEXTS])


def test_one_generation_is_the_chains_in_the_mean() -> None:
    study = importlib.import_module("benchmarks.societies.villages")
    shares = [study.village_run(3, 2, seed)["share"][1] for seed in range(60)]
    exact, numbers = chain(3, 2)[1], np.arange(TEXTS + 1) / TEXTS
    mean = exact @ numbers
    error = (exact @ numbers**2 - mean**2) ** 0.5 / len(shares) ** 0.5
    assert np.mean(shares) == pytest.approx(mean, abs=4 * error)


def test_lineages_by_hand() -> None:
    """One grabber ruins its sharers but for two; groups without one fill the better half."""
    study = importlib.import_module("benchmarks.societies.lineages")
    assert sum(study.outcomes("sharer").values()) == 2**6
    (alone,) = {group for group in study.outcomes("sharer") if sum(bad for _, bad in group) == 1}
    assert [*alone] == [(0.0, False)] * 3 + [(150.0, True)] + [(640.0, False)] * 2
    for plan in study.PLANS:
        assert study.step(plan).sum(1) == pytest.approx(1.0)
        assert study.step(plan, 0.0)[1] == pytest.approx(np.eye(25)[0])
        assert study.step(plan, 0.0)[24] == pytest.approx(np.eye(25)[24])
    tied = (((1.0, False),) * 5 + ((1.0, True),), ((1.0, False),) * 6)
    assert study.survivors(tied) == pytest.approx({0: 0.5, 1: 0.5})


@pytest.mark.parametrize("plan", ["sharer", "standing"])
def test_one_generation_of_texts_is_the_chains_in_the_mean(plan: str) -> None:
    study = importlib.import_module("benchmarks.societies.lineages")
    shares = [study.texts_run(plan, 2, seed)["share"][1] for seed in range(60)]
    exact, numbers = study.step(plan)[6], np.arange(25) / 24
    mean = exact @ numbers
    error = (exact @ numbers**2 - mean**2) ** 0.5 / len(shares) ** 0.5
    assert np.mean(shares) == pytest.approx(mean, abs=4 * error)


def test_heirs_have_the_tables_of_the_better_half() -> None:
    study = importlib.import_module("benchmarks.societies.lineages")
    found = study.heirs([5.0, 1.0, 7.0, 2.0, 6.0, 0.0], random.Random(0))
    assert sorted(found[:3]) == [0, 2, 4]
    assert set(found) <= {0, 2, 4}
    run = study.tables_run("standing", "copied", 2, 0)
    assert run["share"][0] == 0.25


def test_the_replicators_step() -> None:
    """In the mean of many proportional draws, with pay as of an endless population."""
    payoffs = np.array([[4.0, 0.0], [3.0, 2.0]])
    texts = ["stag"] * 60 + ["hare"] * 40
    mix = np.array([0.6, 0.4])
    paid = [float((payoffs @ mix)[int(text == "hare")]) for text in texts]
    how = Evolution(lambda text: ScriptedPolicy(lambda request: text))
    rng = random.Random(0)
    shares = [selected(texts, paid, how, rng).count("stag") / 100 for _ in range(400)]
    assert np.mean(shares) == pytest.approx(replicator(0.6, payoffs), abs=4 * 0.05 / 20)


def test_writers_read_the_better_half_and_models_their_text() -> None:
    seen: list[str] = []

    def write(request: Request) -> str:
        seen.append(request.messages[-1].content)
        return "take\neverything"

    def name(request: Request) -> str:
        return "100" if "Your strategy:\ntake" in request.messages[-1].content else "10"

    make_env: Any = lambda: make("commons-v0", talk=0, turns=1, n_agents=2)  # noqa: E731
    how = Evolution(advised(ScriptedPolicy(name)), ScriptedPolicy(write))
    found = [*generations(make_env, ["take", "spare", "spare", "spare"], how, 2, 0)]
    assert found[0].paid[0] == max(found[0].paid)
    assert len(seen) == 4
    assert "> take\n" in seen[0]
    assert seen[0].count("Paid ") == 2
    assert found[1].texts[2:] == ["take\neverything"] * 2
    with pytest.raises(ValueError, match="texts"):
        next(generations(make_env, ["take"] * 3, how, 1, 0))
    request = Request(
        env_id="",
        agent="writer_0",
        turn=0,
        episode=0,
        task_id="",
        messages=(),
        observation="",
        seed=1,
    )
    assert copier(("a", "b"), 1.0).act([request])[0].text in ("a", "b")


# -- files and page --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["learners", "givers", "starts", "exploration", "tipping", "villages", "lineages"]
)
def test_a_study_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "study.json"
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(sys, "argv", [name, "--seeds", "2", "--quick", "--output", str(file)])
    importlib.import_module(f"benchmarks.societies.{name}").main()
    found = json.loads(file.read_text())
    assert found["pinned"]["criterion"].startswith("The criterion, written before")
    assert all(part["methods"] for part in found["summary"].values())
    assert importlib.import_module("benchmarks.societies.page").TABLES[name](found).count("|") > 20


def test_the_page_holds_the_tables() -> None:
    page = importlib.import_module("benchmarks.societies.page")
    assert page.PAGE.read_text() == page.page(), "python -m benchmarks.societies.page"
    marked = {name for _, name, _ in page.BLOCK.findall(page.PAGE.read_text())}
    assert marked == {*page.STUDIES, "tests"}
