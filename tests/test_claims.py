"""The claims: every file runs, its mathematics by hand, and the page shows what was measured."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from benchmarks.claims.repeated import dilemma_strategy, exact_gradient
from llm_marl_envs import make
from llm_marl_envs.envs.games.matrix_rules import GAMES
from llm_marl_envs.envs.games.right_words import rights_of, score

pytestmark = pytest.mark.full  # `make test-all` runs it

pytest.importorskip("trl")
CLAIMS = ("gradient_spikes", "shared_histories", "lazy_agent", "dilemma")


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.claims.{name}")


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def common() -> Any:
    return module("common")


def run(monkeypatch: pytest.MonkeyPatch, name: str, file: Path) -> dict[str, Any]:
    arguments = [name, "--seeds", "1", "--quick", "--output", str(file)]
    monkeypatch.setattr(sys, "argv", arguments)
    module(name).main()
    return json.loads(file.read_text())


# -- the files -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_runs_and_goes_on_where_it_was(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "claim.json"
    found = run(monkeypatch, name, file)
    games = [game for game in found["summary"].values() if "tests" in game]
    assert games
    assert all(0 <= test["p"] <= 1 for game in games for test in game["tests"].values())
    assert found["pinned"]["criterion"].startswith("The criterion, written before")
    made = capsys.readouterr().out.splitlines()
    assert len(made) == len(found["runs"])
    kept = dict(list(found["runs"].items())[:-1])  # a command that broke before its last run
    file.write_text(json.dumps({**found, "runs": kept}))
    assert run(monkeypatch, name, file) == found
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_runs_of_other_settings_are_refused(common: Any, tmp_path: Path):
    common.Record(tmp_path / "a.json", {"updates": 3}).save()
    assert common.Record(tmp_path / "a.json", {"updates": 3}).runs == {}
    with pytest.raises(ValueError, match="other settings"):
        common.Record(tmp_path / "a.json", {"updates": 4})


def test_the_page_holds_the_tables():
    page = module("page")
    assert page.PAGE.read_text() == page.page(), "python -m benchmarks.claims.page"
    marked = {name for _, name, _ in page.BLOCK.findall(page.PAGE.read_text())}
    assert marked == {*CLAIMS, "tests"} == {*page.records(), "tests"}


# -- choosing and counting -------------------------------------------------------------------------
def test_a_grid_grows_where_its_best_value_lies(common: Any, tmp_path: Path):
    """Worth falls with the distance from 0.02, in powers of two from 0.32 on."""
    record = common.Record(tmp_path / "a.json", {})

    def worth(setting: dict[str, float], seed: int) -> dict[str, float]:
        return {"tuned_on": -abs(float(np.log2(setting["rate"] / 0.02)))}

    grid = {"rate": (0.08, 0.16, 0.32)}
    assert common.tuned(record, "x", grid, worth) == {"rate": 0.02}
    rates = {float(key.split("=")[1].split("/")[0]) for key in record.runs}
    assert rates == {0.01, 0.02, 0.04, 0.08, 0.16, 0.32}
    assert common.tuned(record, "y", grid, worth, downwards=False) == {"rate": 0.08}
    alike = lambda setting, seed: {"tuned_on": 0.5 + 0.005 * (setting["rate"] > 1)}  # noqa: E731
    assert common.tuned(record, "z", {"rate": (0.5, 1.0, 2.0)}, alike, downwards=False) == {
        "rate": 0.5
    }


def test_statistics_by_hand(common: Any):
    found = common.share_of([False] * 20)
    assert found == {"count": 0, "n": 20, "ci95": (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))}
    assert common.shares_differ([True] * 3, [False] * 3) == pytest.approx(2 / 20)
    found = common.paired([1.0, 2.0, 3.0] * 2, [2.0, 3.0, 5.0] * 2)
    assert found["difference"] == pytest.approx(4 / 3)
    assert found["p"] == pytest.approx(2 / 64)  # all six up, or all six down
    few = common.paired([1.0, 2.0, 3.0], [2.0, 3.0, 5.0])
    assert (few["p"], few["ci95"]) == (1.0, None)


def test_budgets_are_spent_when_no_further_update_can_be_paid(common: Any):
    budgets = common.Budgets({("actions", ""): 100, ("episodes", ""): 8})
    update = common.Update(actions=48, episodes=4, judged=[], slope={})
    assert budgets.spent(update) == []
    assert budgets.spent(update) == [("actions", ""), ("episodes", "")]
    assert not budgets.left


def test_draws_fall_where_probabilities_say(common: Any):
    chances = np.array([[0.5, 0.25, 0.25]] * 4)
    assert common.drawn(chances, np.array([0.0, 0.49, 0.5, 0.99])).tolist() == [0, 0, 1, 2]
    assert common.slopes(chances[0], np.array(1)).tolist() == [-0.5, 0.75, -0.25]
    assert common.Optimizer("sgd", 0.1).step(np.array([2.0])) == pytest.approx([0.2])
    assert common.Optimizer("adam", 0.1).step(np.array([2.0])) == pytest.approx([0.1])


def test_what_an_update_samples_and_finds(common: Any):
    """Two turns of two seats, six actions an episode; c3 adds 1 + 4, 1 + 2 and 1 for each seat."""
    team = common.WordTables(("red", "green", "blue"))
    seats = ("member_0", "member_1")
    stage = common.stage_of("regime-v0", {"turns": 3}, dict.fromkeys(seats, team), seats)
    for name, actions, episodes in (("magrpo", 12, 2), ("c3_sim", 48, 14), ("magrpo_tree", 28, 8)):
        chosen = {"name": name, "alternatives": 2} if name == "c3_sim" else name
        algorithm = common.algorithm_of(chosen, num_generations=2)
        found = common.update_of(stage, algorithm, team, 2, [1])
        assert (found.actions, found.episodes) == (actions, episodes), name
        assert all(abs(slope.sum()) < 1e-9 for slope in found.slope.values())
        other, both = (common.update_of(stage, algorithm, team, 2, s) for s in ([2], [1, 2]))
        for key, slope in both.slope.items():
            assert slope == pytest.approx((found.slope.get(key, 0) + other.slope.get(key, 0)) / 2)


# -- 1: spikes -------------------------------------------------------------------------------------
def test_spikes_by_hand():
    claim = module("gradient_spikes")
    assert claim.spike(np.array([1.0, 2.0, 3.0, 0.0, 10.0])) == 4.0
    assert claim.spike(np.zeros(3)) == 1.0


def test_the_tables_are_paid_as_the_environment_pays():
    claim = module("gradient_spikes")
    env: Any = make("crowd-v0", scales=[[1, 3, 10, 30]])
    env.reset(seed=0)
    rights = rights_of(env.source[0], 0)
    words = ("red", "green", "blue")
    said = (0, 1, 0, 0)  # of each seat, 0 being right
    actions = {
        agent: words[(right + one) % 3]
        for agent, right, one in zip(env.agents, rights, said, strict=True)
    }
    _, rewards, *_ = env.step(actions)
    found = claim.rewards_of(np.array(said)[None, None], np.array([claim.SCALES]))
    assert found.ravel().tolist() == pytest.approx([0.75, 2.25, 7.5, 22.5])
    assert found.ravel().tolist() == pytest.approx([*rewards.values()])


# -- 2: histories ----------------------------------------------------------------------------------
def test_the_probability_of_right_words_is_exact(common: Any):
    claim = module("shared_histories")
    env = make("regime-v0", bonus=5.0)
    team = common.WordTables(("red", "green", "blue"))
    assert claim.right_of(env, team) == pytest.approx(1 / 3)
    texts = claim.heard(env, "member_0", 1)
    assert [["high" in text, "low" in text] for text in sorted(texts)] == [
        [True, False],
        [False, True],
    ]
    right = rights_of(env.unwrapped.source[0], 1)[0]
    team.logits["member_0", texts[0]] = 50.0 * np.eye(3)[right]
    assert claim.right_of(env, team) == pytest.approx((5 * 1 / 3 + (1 + 1 / 3) / 2) / 6)


# -- 3: the lazy seat ------------------------------------------------------------------------------
def test_rooms_by_hand_and_by_enumeration():
    claim = module("lazy_agent")
    assert claim.exact_rooms("sum", [0.5, 0.25], [1, 1]) == pytest.approx([0.25, 0.375])
    assert claim.exact_rooms("pairs", [0.5, 0.25], [1, 1]) == pytest.approx([0.125, 0.375])
    for arm in ("sum", "pairs"):
        expected = partial(enumerated, arm)
        better = [
            expected([1.0 if i == seat else p for i, p in enumerate(claim.RIGHT)])
            for seat in range(8)
        ]
        found = claim.exact_rooms(arm, claim.RIGHT, [1.0] * 8)
        assert found == pytest.approx(np.array(better) - expected(claim.RIGHT))
        assert claim.first_of(found)


def enumerated(arm: str, right: Any) -> float:
    """The expected score, by all joint outcomes."""
    total = 0.0
    for joint in itertools.product((0, 1), repeat=len(right)):
        chance = np.prod([p if one else 1 - p for one, p in zip(joint, right, strict=True)])
        total += chance * float(score(arm, np.array(joint), [1.0] * len(right)))
    return total


def test_the_estimated_room_by_hand():
    """member_0: red is worth 1 and 0, blue -1: best 0.5 less mean 0. member_1 says one word."""
    claim = module("lazy_agent")
    judged = [("member_0", "red", 1.0), ("member_0", "blue", -1.0), ("member_0", "red", 0.0)]
    judged += [("member_1", "red", 2.0)]
    assert claim.rooms(judged, ["member_0", "member_1"]).tolist() == [0.5, 0.0]
    assert claim.first_of(np.array([0.5, 0.0]))
    assert not claim.first_of(np.array([0.5, 0.5]))


def test_difference_knows_each_part_of_a_sum(common: Any):
    """A right word is worth 1 / 8 whatever others say, a wrong one nothing."""
    claim = module("lazy_agent")
    kwargs = {"weights": [1.0] * 8, "arm": "sum", "choices": 3}
    seats = [f"member_{i}" for i in range(8)]
    rights = rights_of(make("crowd-v0", **kwargs).unwrapped.source[0], 0)
    team = claim.tables_of(rights, claim.RIGHT)
    stage = common.stage_of("crowd-v0", kwargs, dict.fromkeys(seats, team), seats)
    found = common.update_of(stage, common.algorithm_of("difference"), team, 4, [3])
    assert (found.actions, found.episodes) == (32, 36)
    for seat, word, worth in found.judged:
        right = team.words[rights[seats.index(seat)]] == word
        assert worth == pytest.approx(right / 8)


# -- 4: the dilemma --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("strategy", "both", "defection", "best"),
    [("cooperate", 1.0, 5.0, 5.0), ("defect", 0.0, 0.0, 0.0), ("tit_for_tat", 1.0, 0.5, 0.5)],
)
def test_strategies_against_partners(strategy: str, both: float, defection: float, best: float):
    """Tit for tat loses 5 in ten turns: to a defector in the first, to the best in the last."""
    claim = module("dilemma")
    tables = np.stack([dilemma_strategy(strategy, seat) for seat in range(2)])
    assert claim.mutual(tables, 10) == pytest.approx(both)
    for seat in range(2):
        assert claim.gap_to_defection(tables[seat], seat, 10) == pytest.approx(defection)
        assert claim.gap_to_best_response(tables[seat], seat, 10) == pytest.approx(best)
    found = claim.judged(tables, 10)
    assert claim.good(found)["all"] == (strategy == "tit_for_tat")
    _, said, paid = claim.played(tables, 3, np.random.default_rng(0))
    assert said.shape == paid.shape == (3, 2, 10)
    assert (paid == (1.0 if strategy == "defect" else 3.0)).all()


def test_random_play_cooperates_together_in_a_quarter():
    claim = module("dilemma")
    assert claim.mutual(np.full((2, 5, 2), 0.5), 10) == pytest.approx(0.25)


def test_sampled_slopes_of_naive_learners_are_the_exact_gradient(common: Any):
    """Many sampled groups at a fixed team, undiscounted; `repeated.py` has the exact one."""
    claim = module("dilemma")
    rng, game = np.random.default_rng(0), GAMES["prisoners_dilemma"]
    logits = rng.normal(0.0, 0.5, (2, 5, 2))
    tables = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    algorithm = common.algorithm_of("magrpo", credit="own")
    found = np.mean([claim.slope_of(tables, algorithm, 400, 1.0, rng) for _ in range(40)], axis=0)
    exact = exact_gradient(game, [one[None] for one in logits], claim.TURNS)
    for seat in range(2):
        assert found[seat] == pytest.approx(exact[seat][0], abs=0.15)
