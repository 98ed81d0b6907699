"""Intervals and tests: worked by hand, held against the truth by simulation, and where they go."""

from __future__ import annotations

import dataclasses
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.toys import WordPair

from llm_marl_envs import make
from llm_marl_envs.core.records import episode_from_dict, episode_to_dict
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers import compare as comparing
from llm_marl_envs.measure.numbers.compare import compare, compare_results
from llm_marl_envs.measure.numbers.compare import report as comparison
from llm_marl_envs.measure.numbers.estimates import (
    Estimate,
    effective_size,
    over_runs,
    over_tasks,
    series_interval,
    share,
    ways_of,
    wilson_interval,
)
from llm_marl_envs.measure.numbers.format import with_interval
from llm_marl_envs.measure.numbers.results import result_to_dict
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.report.series import estimate_success

pytestmark = pytest.mark.full  # `make test-all` runs it

SIMULATION = runpy.run_path(str(Path(__file__).parents[4] / "benchmarks" / "intervals.py"))
PAIRS = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
T9, T39 = 2.262157, 2.022691
"""0.975 quantiles of Student's t, of 9 and 39 degrees of freedom."""


def ends(per_task: Any, clusters: Any = None, **about: Any) -> tuple[float, float]:
    found = over_tasks(per_task, clusters, **about)
    assert found.ci95 is not None
    assert found.why == ""
    return found.ci95


def size(per_task: Any, clusters: Any = None) -> float:
    return effective_size(per_task, ways_of(clusters, len(per_task)))


# -- by hand ---------------------------------------------------------------------------------------
def test_0_and_1_of_independent_tasks_is_wilson_with_students_quantile():
    """6 of 10: centre (0.6 + 0.25587) / 1.51174, half width 2.26216 * 0.19182 / 1.51174."""
    low, high = ends([1.0] * 6 + [0.0] * 4)
    assert (low, high) == (pytest.approx(0.2791, abs=1e-4), pytest.approx(0.8532, abs=1e-4))
    for solved in (4, 30, 36):
        found = ends([1.0] * solved + [0.0] * (40 - solved))
        assert found == pytest.approx(wilson_interval(solved, 40, T39), abs=1e-6)


def test_up_to_three_of_the_rarer_outcome_reach_farther():
    """One failure: the rate of a Poisson number that is 1 or more in 5 % is -ln 0.95 = 0.0513."""
    low, high = ends([0.0] + [1.0] * 39)
    assert low == pytest.approx(wilson_interval(39, 40, T39)[0])
    assert high == pytest.approx(1 + math.log(0.95) / 40)
    assert ends([1.0] + [0.0] * 39) == (pytest.approx(1 - high), pytest.approx(1 - low))
    # Four: Wilson's.
    assert ends([0.0] * 4 + [1.0] * 36)[1] == pytest.approx(wilson_interval(36, 40, T39)[1])


def test_samples_that_repeat_each_other_count_once():
    """Four samples of each of 20 tasks: alike they say what one says; else nearly as much as 80."""
    tasks = [task for task in range(20) for _ in range(4)]
    alike = share(tasks, [float(task < 10) for task in tasks])
    assert alike == over_tasks([1.0] * 10 + [0.0] * 10)
    # Each task solved twice in four: V = 0, d = (10 * 0 + 1) / 11.
    assert size([0.5] * 20) == pytest.approx(20 * 11)
    halves = share(tasks, [1.0, 1.0, 0.0, 0.0] * 20)
    assert halves.ci95 is not None
    assert alike.ci95 is not None
    assert halves.ci95[1] - halves.ci95[0] < (alike.ci95[1] - alike.ci95[0]) / 3


def test_two_ways_of_sharing_by_hand():
    """What the first prompt decides: parts (1, 1, -1, -1) / 8 of 4 pairs of prompts.

    V_first = 2 (1/4)^2 2/1 = 1/4, V_second = 0, V_both = 4 (1/8)^2 4/3 = 1/12; their sum is less
    than V_first, which is taken: d = 1/4 * 3 / (1/4) = 3, averaged with 4 / 2: (2 * 3 + 2) / 3.
    """
    assert size([1.0, 1.0, 0.0, 0.0], PAIRS) == pytest.approx(4 / (8 / 3))
    # Neither prompt alone: V_first = V_second = 0, V_both - as above; d = 0, averaged 2/3.
    assert size([1.0, 0.0, 0.0, 1.0], PAIRS) == pytest.approx(4 / (2 / 3))
    # Independent: d = 1, and the worst is 1.
    assert size([1.0, 1.0, 0.0, 0.0]) == pytest.approx(4.0)


def test_both_ways_add_up():
    """3 x 3 pairs, all failures in one row and one column: V = V_first + V_second - V_both.

    5 of 9 failed, share 4/9. Sums of parts (solved 5/81, failed -4/81): first row -12/81, others
    6/81. V_first = V_second = (144 + 36 + 36) / 6561 * 3/2; V_both = 180 / 6561 * 9/8.
    So V = 445.5 / 6561 and d = V * 8 / (20 / 81) = 2.2, averaged with 9 / 3: (4 * 2.2 + 3) / 5.
    """
    tasks = [(i, j) for i in range(3) for j in range(3)]
    assert size([float(i > 0 and j > 0) for i, j in tasks], tasks) == pytest.approx(9 / 2.36)


def test_no_size_is_below_one():
    """Two clusters, of 90 and 10 tasks: squares are corrected by 25, so d would be more than n."""
    assert size([1.0] * 90 + [0.0] * 10, [("a",)] * 90 + [("b",)] * 10) == 1


def test_clusters_of_several_sizes_count_for_fewer():
    """4 clusters of 4 tasks and 8 of 2: 32^2 / (4 * 16 + 8 * 4) = 32 / 3."""
    keys = [(f"large {i}",) for i in range(4) for _ in range(4)]
    keys += [(f"small {i}",) for i in range(8) for _ in range(2)]
    assert size([1.0] * 32, keys) == pytest.approx(32 / 3)
    assert size([0.0] * 8, [(i % 2,) for i in range(8)]) == 2  # of one size: their number
    half = over_tasks([1.0, 0.0] * 50, [("all",)] * 50 + [(i,) for i in range(50)])
    assert half.ci95 is None
    assert half.why == "51 clusters of so unequal sizes count for 3.9"


@pytest.mark.parametrize("solved", [0.0, 1.0])
def test_at_0_and_1_the_clusters_of_the_scarcer_kind_count(solved: float):
    keys = [(task % 34, task % 228) for task in range(136)]
    assert size([solved] * 136, keys) == 34.0
    low, high = ends([solved] * 136, keys)
    assert (low, high) == pytest.approx(wilson_interval(34 * solved, 34, 2.03452), rel=1e-4)
    assert high - low > 0.1


def test_one_failure_does_not_make_it_surer():
    """127 of 128 says hardly more of the spread than 128 of 128."""
    keys = [(task % 34, task % 228) for task in range(128)]
    whole, _ = ends([1.0] * 128, keys)
    one, high = ends([0.0] + [1.0] * 127, keys)
    assert one < whole + 0.03
    assert high < 1.0


def test_an_interval_moves_with_the_scale():
    """Beyond 0 and 1 the scale is what was seen; and what is counted may be turned round."""
    solved = np.array([1.0] * 20 + [0.0] * 12)
    low, high = ends(solved)
    assert ends(10 * solved - 3) == (pytest.approx(10 * low - 3), pytest.approx(10 * high - 3))
    assert ends(1 - solved) == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_the_share_is_the_mean_over_tasks():
    """A task with more samples weighs no more."""
    tasks = ["a", *"bbb", *"cdefgh"]
    found = share(tasks, [1.0, 0.0, 0.0, 0.0, *[1.0, 0.0] * 3])
    assert found == over_tasks([1.0, 0.0, *[1.0, 0.0] * 3])


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="expected 0 to 1"):
        share(["a", "b"], [0.0, 2.0])
    with pytest.raises(ValueError, match="no episodes"):
        share([], [])
    with pytest.raises(ValueError, match="at least one number"):
        over_tasks([])
    with pytest.raises(ValueError, match="1 clusters, another one has 2"):
        share(["a", "b"], [0.0, 1.0], {"a": ("x", "y"), "b": ("x",)})
    with pytest.raises(ValueError, match="clusters of 1 tasks, expected 2"):
        over_tasks([0.0, 1.0], [("x",)])


def test_so_few_clusters_have_no_interval_but_a_reason():
    five = [("abcde"[task % 5], str(task)) for task in range(40)]
    values = [float(task % 3 == 0) for task in range(40)]
    assert over_tasks(values, five) == Estimate(
        float(np.mean(values)), None, 40, "too few clusters: 5"
    )
    assert over_tasks(values, [("abcdef"[i % 6], str(i)) for i in range(40)]).ci95 is not None
    assert over_tasks(values[:5]) == Estimate(0.4, None, 5, "too few tasks: 5")
    assert over_tasks([7.0] * 9) == Estimate(7.0, None, 9, "all alike")
    assert over_tasks([0.0] * 9, reach=0.0) == Estimate(0.0, None, 9, "all alike")
    assert over_runs([0.1, 0.2]) == Estimate(0.15000000000000002, None, 2, "too few runs: 2")
    assert over_runs([0.1, 0.2, 0.3]).ci95 == pytest.approx((-0.0484, 0.4484), abs=1e-4)
    assert with_interval(over_tasks(values[:5])) == "0.40 [too few tasks: 5]"


def test_signs_flip_by_cluster():
    """Seven prompts of three tasks each, B better by 1 on all: 2 of 2^7 patterns, not of 2^21."""
    names = [f"t{i}" for i in range(21)]
    clusters = {name: (place // 3,) for place, name in enumerate(names)}
    a, b = dict.fromkeys(names, 0.0), dict.fromkeys(names, 1.0)
    found = compare([a], [b], clusters=clusters)
    assert (found.p, found.smallest_p, found.exact) == (2 / 128, 2 / 128, True)
    assert found.clusters == (7,)
    assert "21 tasks in 7 clusters" in comparison(found)
    alone = compare([a], [b])
    assert (alone.clusters, "clusters" in comparison(alone)) == ((21,), False)
    assert alone.p is not None
    assert alone.p < 0.001
    # Five: neither p nor interval, but why.
    five = compare([a], [b], clusters={n: (place // 5,) for place, n in enumerate(names)})
    assert (five.p, five.ci95, five.why) == (None, None, "too few clusters: 5")
    said = comparison(five)
    assert "p = " not in said
    assert "fewer than 6 are independent" in said
    assert "B - A = +1.00 [too few clusters: 5]" in said
    assert "the least p of 5 is 0.0625" in said


def test_crossed_signs_flip_by_both_prompts():
    """A difference that a prompt makes is as sure as its prompts are many, whichever side it is."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(12 * 12, size=60, replace=False)
    rows, columns = np.divmod(pairs, 12)
    names = [f"t{i}" for i in range(60)]
    a = dict.fromkeys(names, 0.0)
    effects = np.array([1.0] * 10 + [-1.0] * 2)
    found = []
    for way in (rows, columns):
        b = dict(zip(names, effects[way], strict=True))
        keys = dict(zip(names, zip(rows.tolist(), columns.tolist(), strict=True), strict=True))
        crossed = compare([a], [b], clusters=keys)
        alone = compare([a], [b], clusters={n: (k,) for n, k in zip(names, way, strict=True)})
        assert crossed.p is not None
        assert alone.p is not None
        assert crossed.p >= alone.p - 0.01
        assert not crossed.exact
        found.append(crossed.p)
    assert all(p > 0.005 for p in found)
    plain = compare([a], [b])
    assert plain.p is not None
    assert plain.p < 0.001


def test_three_runs_a_side_have_welchs_interval_and_two_none():
    """Means 0, 1, 2 against 2, 4, 6: difference 3, error sqrt(1/3 + 4/3), 2.94 degrees of freedom.

    The tasks say nothing of how runs differ: with 50 times as many the interval is the same.
    """
    for tasks in (2, 100):
        a, b = (
            [{f"t{i}": value + (-1) ** i for i in range(tasks)} for value in values]
            for values in ((0.0, 1.0, 2.0), (2.0, 4.0, 6.0))
        )
        found = compare(a, b)
        assert found.ci95 == pytest.approx((3 - 4.1554, 3 + 4.1554), abs=1e-3)
        two = compare(a[:2], b)
        assert (two.ci95, two.why) == (None, "too few runs: 2")
        assert two.p == pytest.approx(2 / 10)
        assert "fewer than 3 runs a side have no interval" in comparison(two)


def test_few_runs_that_vary_more_do_not_mislead():
    """Three runs of spread 3 lie on one side of eight of spread 1 in one data set of four."""
    rng = np.random.default_rng(0)
    found = [
        compare([{"t": x} for x in rng.normal(0, 3, 3)], [{"t": x} for x in rng.normal(0, 1, 8)])
        for _ in range(400)
    ]
    assert np.mean([one.p is not None and one.p <= 0.05 for one in found]) < 0.085


@pytest.mark.parametrize("effect", [1.0, 2.5])
def test_intervals_hold_over_clusters_of_several_sizes(effect: float):
    """120 tasks in some 18 clusters, of 1 to 30 tasks."""
    rng, held = np.random.default_rng(1), []
    for _ in range(1000):
        keys = np.repeat(np.arange(120), rng.geometric(0.15, 120))[:120]
        shift = rng.normal(0, effect, 120)[keys]
        solved = (rng.random(120) < 1 / (1 + np.exp(-shift))).astype(float)
        found = over_tasks(solved, [(int(key),) for key in keys]).ci95
        held += [] if found is None else [found[0] <= 0.5 <= found[1]]
    assert len(held) > 900
    assert np.mean(held) > 0.945


def test_a_log_that_resembles_its_neighbours_says_less():
    """Each of 40 values twice in a row: the interval of 80 is about as wide as that of 40."""
    rng = np.random.default_rng(0)
    each = rng.normal(size=40)
    once, twice = series_interval([*each]), series_interval([*np.repeat(each, 2)])
    assert once is not None
    assert twice is not None
    assert 0.9 < (twice[1] - twice[0]) / (once[1] - once[0]) < 1.6
    line = series_interval([0.1 * i for i in range(20)])  # a straight line is no noise
    assert line == pytest.approx((0.95, 0.95))
    assert series_interval([1.0] * 3) is None


# -- by simulation ---------------------------------------------------------------------------------
def test_tests_that_share_prompts_keep_their_level(monkeypatch: pytest.MonkeyPatch):
    """150 pairs of teams: 0.06 is right within 0.04. As if tasks were independent it is 0.25."""
    monkeypatch.setattr(comparing, "MAX_EXACT", 400)
    found = SIMULATION["crossed"]("test", 3.0, 0.5, 150)
    assert found["rejected"][0] <= 0.1
    for name in ("success", "return", "index", "difference"):
        assert found[name][0] >= 0.89, name


def test_a_log_that_drifts_is_not_called_improved():
    """200 logs: 0.06 is right within 0.05. With updates as if independent it is 0.34."""
    assert SIMULATION["improved"](0.9, 200) <= 0.11


@pytest.mark.long
@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("effect", SIMULATION["EFFECTS"])
@pytest.mark.parametrize("split", SIMULATION["SPLITS"])
def test_crossed_designs_hold(
    split: str, effect: float, share: float, monkeypatch: pytest.MonkeyPatch
):
    """2,000 pairs of teams under each design; the widths are those of docs/measuring.md."""
    monkeypatch.setattr(comparing, "MAX_EXACT", SIMULATION["DRAWS"])
    found = SIMULATION["crossed"](split, effect, share, 2000)
    print(split, effect, share, found)
    assert found.pop("rejected")[0] <= 0.06
    for name, (held, width) in found.items():
        assert held >= 0.93, name
        assert width < 0.5, name  # not by being endless


@pytest.mark.long
@pytest.mark.parametrize(("tasks", "share"), SIMULATION["FEW"])
def test_few_independent_tasks_hold(tasks: int, share: float):
    for name, (held, width) in SIMULATION["independent"](tasks, share, 2000).items():
        assert held >= 0.93, name
        assert width < 0.65, name


@pytest.mark.long
def test_samples_runs_and_logs_hold(monkeypatch: pytest.MonkeyPatch):
    for share_of in SIMULATION["SHARES"]:
        held, width = SIMULATION["samples"](share_of, 2000)["success"]
        assert held >= 0.93
        assert width < 0.12
    for count in (3, 5):
        found = SIMULATION["runs"](count, 2000)
        assert found["difference"][0] >= 0.93
        assert found["rejected"][0] <= 0.06
    for correlation in SIMULATION["LOGS"]:
        assert SIMULATION["improved"](correlation, 2000) <= 0.06


# -- where they go ---------------------------------------------------------------------------------
class Crossed(WordPair):
    """Words are shared between tasks."""

    def clusters(self, task: Task) -> tuple[str, ...]:
        return task.data["words"]


def experts(env: Any) -> dict[str, ExpertPolicy]:
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env))


def test_an_environment_names_what_its_tasks_share():
    """30 tasks of 6 words: solved all, they say as much as 6."""
    result = evaluate_team(Crossed, experts(Crossed()), n_tasks=30)
    assert result.success_ci95 == pytest.approx(wilson_interval(6, 6, 2.57058), rel=1e-4)
    plain = evaluate_team(WordPair, experts(WordPair()), n_tasks=30)
    assert plain.success_ci95 == pytest.approx(wilson_interval(30, 30, 2.04523), rel=1e-4)
    again = [episode_from_dict(episode_to_dict(episode)) for episode in result.episodes]
    one = estimate_success(again)  # of a transcript, where there is no environment
    assert one is not None
    assert (one.mean, one.ci95, one.n) == (1.0, result.success_ci95, 30)


def test_pairs_of_prompts_of_coding_share_their_prompts():
    env = make("coop_coding-v0", split="test")
    keys = [env.clusters(env.source[i]) for i in range(len(env.source))]
    first, second = ({key[way] for key in keys} for way in (0, 1))
    assert len(first) < len(second) < len(set(keys)) == len(keys)
    page = (Path(__file__).parents[4] / "docs" / "measuring.md").read_text("utf-8")
    assert f"`test` has {len(first)} of the helper and {len(second)} of main" in page
    assert f"which were made of {len({key[0] for key in keys[:128]})} helper prompts" in page
    env.reset(seed=0, options={"task": 0})
    _, _, _, _, infos = env.step(dict.fromkeys(env.agents, ""))
    assert len(infos["main_0"]["task_clusters"]) == 2
    whole = make("coop_coding-v0", split="test", info="full")  # every prompt tells everything
    told = [whole.clusters(whole.source[i])[0] for i in range(len(whole.source))]
    assert len(set(told)) == len(told)


def test_what_others_call_clusters_is_left_alone():
    episode = evaluate_team(WordPair, experts(WordPair()), n_tasks=1).episodes[0]
    for named in (3, "ab", None, {"a": 1}):
        turn = dataclasses.replace(episode.turns[0], info={"task_clusters": named})
        assert dataclasses.replace(episode, turns=(turn,)).clusters == ()


def test_checkpoints_that_are_alike_on_every_task_are_not_called_the_same():
    """0 of 40 tasks differ: up to z^2 / (40 + z^2) = 0.0876 of all may."""
    same = {f"t{i}": float(i % 3 == 0) for i in range(40)}
    found = compare([same], [same], metric="success")
    assert found.ci95 == ends([0.0] * 40, reach=1.0)
    assert "8.8% of all tasks like these may be otherwise" in comparison(found)
    few = {task: same[task] for task in ("t0", "t1", "t2", "t3", "t4")}
    assert "95 %" not in comparison(compare([few], [few]))
    half = dict.fromkeys([*same][:20], ("one",))
    assert "95 %" not in comparison(compare([same], [same], clusters=half))
    better = compare([dict.fromkeys(same, 0.0)], [dict.fromkeys(same, 1.0)], metric="success")
    assert better.ci95 == (pytest.approx(2 * wilson_interval(40, 40, T39)[0] - 1, abs=1e-6), 1.0)
    other = compare([same], [{**same, "t1": 1.0}], metric="success")
    assert "may be otherwise" not in comparison(other)
    assert other.ci95 == ends([float(i == 1) for i in range(40)], reach=1.0)
    assert other.ci95 is not None
    assert other.ci95[0] < 0


def test_the_clusters_of_an_evaluation_reach_its_comparison():
    """Both teams are experts of one convention or none; tasks of six words count as six."""
    env = Crossed()
    silent = dict.fromkeys(env.possible_agents, ScriptedPolicy(lambda request: ""))
    sides = [evaluate_team(Crossed, team, n_tasks=30) for team in (silent, experts(env))]
    files = [result_to_dict(side) for side in sides]
    assert len(files[0]["tasks"][0]["clusters"]) == 2
    found = compare_results(files[:1], files[1:])
    assert found.clusters == (6, 6)
    assert found.p is not None
    assert found.p >= 2 / 2**6 - 0.005  # as many as six coins
    for file in files:
        for task in file["tasks"]:
            del task["clusters"]
    alone = compare_results(files[:1], files[1:])
    assert (alone.clusters, alone.p) == ((30,), pytest.approx(1 / 20_001))


def test_an_interval_without_width_is_not_printed_as_one():
    assert with_interval(Estimate(1.0, (1.0, 1.0))) == "1.00 [all alike]"
    assert with_interval(Estimate(1.0, (0.9, 1.0))) == "1.00 [0.90, 1.00]"
    assert math.isclose(wilson_interval(128, 128)[0], 128 / (128 + 1.959964**2))
