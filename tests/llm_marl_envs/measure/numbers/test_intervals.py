"""Intervals of success: worked by hand, held against the truth by simulation, and where they go."""

from __future__ import annotations

import dataclasses
import math
import runpy
from pathlib import Path
from typing import Any

import pytest
from support.toys import WordPair

from llm_marl_envs import make
from llm_marl_envs.core.records import episode_from_dict, episode_to_dict
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.compare import compare
from llm_marl_envs.measure.numbers.compare import report as comparison
from llm_marl_envs.measure.numbers.estimates import (
    Estimate,
    bootstrap_interval,
    effective_size,
    success_interval,
    wilson_interval,
)
from llm_marl_envs.measure.numbers.format import with_interval
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.report.series import estimate_success

pytestmark = pytest.mark.full  # `make test-all` runs it

SIMULATION = runpy.run_path(str(Path(__file__).parents[4] / "benchmarks" / "intervals.py"))
PAIRS = {"ax": ("a", "x"), "ay": ("a", "y"), "bx": ("b", "x"), "by": ("b", "y")}


# -- by hand ---------------------------------------------------------------------------------------
def test_one_episode_of_each_task_is_wilson():
    """9 of 10: centre (0.9 + 0.19207) / 1.38415, half width 1.95996 * 0.13572 / 1.38415."""
    low, high = success_interval(list(range(10)), [1.0] * 9 + [0.0])
    assert (low, high) == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))
    for solved in (0, 1, 77, 128):
        outcomes = [1.0] * solved + [0.0] * (128 - solved)
        found = success_interval(list(range(128)), outcomes)
        assert found == pytest.approx(wilson_interval(solved, 128), abs=1e-12)


def test_samples_that_repeat_each_other_count_once():
    """Four samples each of 20 tasks, all four alike: V is that of 20 draws, so d is 4 (79/76)."""
    tasks = [task for task in range(20) for _ in range(4)]
    solved = [float(task < 10) for task in tasks]
    # V = 20 (0.5 / 20)^2 (20 / 19) = 0.25 / 19, and V (80 - 1) / 0.25 = 79 / 19.
    assert effective_size(tasks, solved) == (pytest.approx(80 * 19 / 79), 20)
    one = success_interval(list(range(20)), [1.0] * 10 + [0.0] * 10)
    four = success_interval(tasks, solved)
    assert four[1] - four[0] == pytest.approx(one[1] - one[0], rel=0.1)


def test_samples_that_differ_as_draws_do_count_nearly_all():
    """Every task solved twice in four: V = 0, d is kept at 1 and averaged with the worst, 4."""
    tasks = [task for task in range(20) for _ in range(4)]
    solved = [1.0, 1.0, 0.0, 0.0] * 20
    assert effective_size(tasks, solved) == (pytest.approx(80 / ((40 * 1 + 4) / 41)), 20)


def test_two_ways_of_sharing_by_hand():
    """What the first prompt decides: parts (1, 1, -1, -1) / 8 of 4 pairs of prompts.

    V_first = 2 (1/4)^2 2/1 = 1/4, V_second = 0, V_both = 4 (1/8)^2 4/3 = 1/12; their sum is less
    than V_first, which is taken: d = 1/4 * 3 / (1/4) = 3. With the worst, 4 / 2, it would be less.
    """
    solved = [1.0, 1.0, 0.0, 0.0]
    assert effective_size([*PAIRS], solved, PAIRS) == (pytest.approx(4 / 3), 2)
    # Neither prompt alone: V_first = V_second = 0, V_both - as above; d = 1, averaged 4/3.
    assert effective_size([*PAIRS], [1.0, 0.0, 0.0, 1.0], PAIRS) == (pytest.approx(4 / (4 / 3)), 2)
    assert effective_size([*PAIRS], solved) == (pytest.approx(4.0), 4)


def test_both_ways_add_up():
    """3 x 3 pairs, all failures in one row and one column: V = V_first + V_second - V_both.

    5 of 9 failed, share 4/9. Sums of parts (solved 5/81, failed -4/81): first row -12/81, others
    6/81. V_first = V_second = (144 + 36 + 36) / 6561 * 3/2; V_both = 180 / 6561 * 9/8.
    So V = 445.5 / 6561 and d = V * 8 / (20 / 81) = 2.2, averaged with 9 / 3: (4 * 2.2 + 3) / 5.
    """
    tasks = [(i, j) for i in range(3) for j in range(3)]
    solved = [float(i > 0 and j > 0) for i, j in tasks]
    found = effective_size(tasks, solved, {task: task for task in tasks})
    assert found == (pytest.approx(9 / 2.36), 3)


def test_no_size_is_below_one():
    """Half of the pairs are (a, x), half (b, y), one (a, y).

    Two clusters a way are corrected by 2, the three pairs by 3 / 2, so d would be more than n.
    """
    keys = dict(enumerate([("a", "x")] * 50 + [("b", "y")] * 50 + [("a", "y")]))
    solved = [1.0] * 50 + [0.0] * 51
    assert effective_size(range(101), solved, keys) == (1.0, 2)
    assert success_interval(range(101), solved, keys) == pytest.approx(
        wilson_interval(50 / 101, 1, 12.7062), rel=1e-4
    )


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_at_0_and_1_the_clusters_of_the_scarcer_kind_count(share: float):
    keys = {task: (task % 34, task % 228) for task in range(128)}
    size, fewest = effective_size(list(range(128)), [share] * 128, keys)
    assert (size, fewest) == (34.0, 34)
    low, high = success_interval(list(range(128)), [share] * 128, keys)
    assert (low, high) == pytest.approx(wilson_interval(34 * share, 34, 2.03452), rel=1e-4)
    assert high - low > 0.1


def test_one_failure_does_not_make_it_surer():
    """127 of 128 says hardly more of the spread than 128 of 128."""
    keys = {task: (task % 34, task % 228) for task in range(128)}
    whole, _ = success_interval(list(range(128)), [1.0] * 128, keys)
    one, high = success_interval(list(range(128)), [0.0] + [1.0] * 127, keys)
    assert one < whole + 0.03
    assert high < 1.0


def test_a_single_task_says_as_much_as_one_draw():
    assert success_interval(["a"] * 8, [1.0] * 8) == wilson_interval(1, 1)
    assert effective_size(["a"] * 8, [1.0, 0.0] * 4) == (1.0, 1)


def test_the_share_is_the_mean_over_tasks():
    """A task with more samples weighs no more: 1, 0 and 0, 0, 0 give 1/4."""
    low, high = success_interval(["a", "a", "b", "b", "b"], [1.0, 0.0, 0.0, 0.0, 0.0])
    mirrored = success_interval(["a", "a", "b", "b", "b"], [0.0, 1.0, 1.0, 1.0, 1.0])
    assert mirrored == (pytest.approx(1 - high), pytest.approx(1 - low))
    assert low < 0.25 < high


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="expected 0 to 1"):
        success_interval(["a", "b"], [0.0, 2.0])
    with pytest.raises(ValueError, match="no episodes"):
        success_interval([], [])
    with pytest.raises(ValueError, match="1 clusters, another task has 2"):
        success_interval(["a", "b"], [0.0, 1.0], {"a": ("x", "y"), "b": ("x",)})


# -- by simulation ---------------------------------------------------------------------------------
@pytest.mark.parametrize("share", SIMULATION["SHARES"])
@pytest.mark.parametrize("design", SIMULATION["DESIGNS"])
def test_intervals_hold_the_truth(design: str, share: float):
    held, width = SIMULATION["coverage"](design, share, "success_interval", 1000)
    assert held >= 0.93
    assert width < 0.26  # not by being endless


def test_a_bootstrap_does_not():
    """Which is why it is not used: at 0.995 half of the evaluations have no failure to draw."""
    for design in ("independent", "crossed prompts"):
        held, _ = SIMULATION["coverage"](design, 0.995, "bootstrap over tasks", 150)
        assert held < 0.6
    held, _ = SIMULATION["coverage"]("crossed prompts", 0.5, "Wilson, as if independent", 300)
    assert held < 0.92


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
    assert plain.success_ci95 == pytest.approx(wilson_interval(30, 30))
    again = [episode_from_dict(episode_to_dict(episode)) for episode in result.episodes]
    one = estimate_success(again)  # of a transcript, where there is no environment
    assert one is not None
    assert (one.mean, one.ci95, one.n) == (1.0, result.success_ci95, 30)


def test_pairs_of_prompts_of_coding_share_their_prompts():
    env = make("coop_coding-v0", split="test")
    keys = [env.clusters(env.source[i]) for i in range(len(env.source))]
    first, second = ({key[way] for key in keys} for way in (0, 1))
    assert len(first) < len(second) < len(set(keys)) == len(keys)
    assert SIMULATION["PROMPTS"] == (len(first), len(second))  # what is simulated is this split
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
    assert found.ci95 == (pytest.approx(-0.0876, abs=1e-4), pytest.approx(0.0876, abs=1e-4))
    assert "8.8% of all tasks like these may be otherwise" in comparison(found)
    better = compare([dict.fromkeys(same, 0.0)], [dict.fromkeys(same, 1.0)], metric="success")
    assert better.ci95 == (pytest.approx(1 - 2 * 0.0876, abs=2e-4), 1.0)
    other = compare([same], [{**same, "t1": 1.0}], metric="success")
    assert "may be otherwise" not in comparison(other)
    assert other.ci95 == bootstrap_interval([float(i == 1) for i in range(40)])


def test_an_interval_without_width_is_not_printed_as_one():
    assert with_interval(Estimate(1.0, (1.0, 1.0))) == "1.00 [all alike]"
    assert with_interval(Estimate(1.0, (0.9, 1.0))) == "1.00 [0.90, 1.00]"
    assert math.isclose(wilson_interval(128, 128)[0], 128 / (128 + 1.959964**2))
