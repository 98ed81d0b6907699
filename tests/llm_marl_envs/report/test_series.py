"""What a report computes: per-task numbers, paired changes, curves over updates."""

from __future__ import annotations

import dataclasses
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest
from support.reports import Reader, episode
from support.toys import WordPair

from llm_marl_envs.core.records import (
    EpisodeGroup,
    write_jsonl,
)
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.estimates import over_tasks, t_interval
from llm_marl_envs.measure.numbers.results import result_to_dict, summarise
from llm_marl_envs.measure.numbers.tables import result_table
from llm_marl_envs.measure.numbers.values import measure, per_task
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.report import write_report
from llm_marl_envs.report.series import MOST_POINTS, MOST_SMOOTHED, change, curve, estimate_success
from trainers.running.metrics import group_metrics


def test_everybody_counts_turns_alike(tmp_path: Path):
    """Some tasks take two turns; in one episode an agent acts alone once more."""
    late = {
        "left_0": ScriptedPolicy(lambda r: "fig" if r.turn else "not yet"),
        "right_0": ExpertPolicy(WordPair(), "lower"),
    }
    result = evaluate_team(WordPair, late, n_tasks=30)
    first = result.episodes[0]
    longer = dataclasses.replace(first, turns=(*first.turns, first.turns[0]))
    episodes = [longer, *result.episodes[1:]]
    whole = summarise(episodes, 1)
    by_hand = sum(len(e.turns) / 2 for e in episodes) / len(episodes)
    assert by_hand == pytest.approx(whole.cost.turns_per_agent) != round(by_hand)
    one = over_tasks([*per_task(episodes, measure(episodes)["turns_per_agent"]).values()])
    assert one.mean == pytest.approx(whole.cost.turns_per_agent)
    groups = [EpisodeGroup(task_id=e.task_id, seed=e.seed, episodes=(e, e)) for e in episodes]
    logged = group_metrics(groups, np.zeros((len(groups), 2, 2, 3)))["turns"]
    assert logged == pytest.approx(whole.cost.turns_per_agent)
    shown = result_table({"late": result_to_dict(whole)})
    assert re.search(rf"turns per agent +{by_hand:.2f}\n", shown)
    write_jsonl(tmp_path / "episodes.jsonl", episodes)
    page = Reader(write_report(tmp_path).read_text()).text
    assert f"turns per agent{by_hand:.2f} " in page
    assert "turns per episode" not in page


def test_episodes_of_one_task_count_once():
    episodes = [episode("a", 0), episode("a", 1, seed=1), episode("b", 1)]
    found = per_task(episodes, measure(episodes)["mean_return"])
    assert sorted(found.values()) == [0.5, 1.0]
    one = estimate_success(episodes)
    assert one is not None
    assert (one.mean, one.n) == (0.75, 2)
    nameless = [dataclasses.replace(e, task_id="") for e in episodes]
    assert len(per_task(nameless, [0.0, 1.0, 1.0])) == 2  # seeds 0, 1


def test_a_change_is_paired():
    before = {("a", 0): 0.0, ("b", 0): 1.0, ("c", 0): 5.0}
    after = {("a", 0): 0.5, ("b", 0): 1.5, ("d", 0): 9.0}
    one = change(before, after, {})
    assert one is not None
    assert (one.mean, one.ci95, one.n, one.why) == (0.5, None, 2, "too few tasks: 2")
    assert change(before, {}, {}) is None
    many = {(name, 0): float(name in "abcd") for name in "abcdefgh"}
    none = dict.fromkeys(many, 0.0)
    pairs = {task: (str(task[0] in "abcd"), task[0]) for task in many}
    for clusters, why in (({}, ""), (pairs, "too few clusters: 2")):
        found = change(none, many, clusters)
        assert found is not None
        assert (found.mean, found.why) == (0.5, why)


def test_t_interval_by_hand():
    # mean 2, standard deviation 1, standard error 1/sqrt(3), quantile 4.3026527 for 2 degrees
    low, high = t_interval([1.0, 2.0, 3.0])
    assert low == pytest.approx(2 - 4.3026527 / 3**0.5)
    assert high == pytest.approx(2 + 4.3026527 / 3**0.5)
    assert t_interval([7.0]) == (7.0, 7.0)
    many = t_interval([0.0, 2.0] * 50)  # standard error 0.1005, quantile 1.98422 for 99 degrees
    assert many[1] - 1 == pytest.approx(1.98422 * 0.1005, rel=1e-3)


def test_a_curve_of_one_run_and_of_several():
    log = [{"step": i, "reward": float(i)} for i in range(1, 21)]
    one = curve([log], "reward")
    assert one is not None
    assert one.window == 10
    assert (one.steps[0], one.mean[0]) == (10, 5.5)
    assert (one.steps[-1], one.mean[-1]) == (20, 15.5)
    assert one.high[-1] == pytest.approx(15.5)  # a straight line has no noise
    other = [{"step": i, "reward": float(i + 2)} for i in range(1, 11)]
    two = curve([log, other], "reward")
    assert two is not None
    assert (two.steps, two.mean[0]) == (tuple(range(1, 11)), 2.0)
    assert math.isnan(two.high[0])  # of two runs
    three = curve(
        [log, other, [{"step": i, "reward": float(i + 1)} for i in range(1, 11)]], "reward"
    )
    assert three is not None
    # values 1, 2 and 3: standard error 1 / sqrt 3, quantile 4.3027 for 2 degrees
    assert three.high[0] == pytest.approx(2 + 4.30265 / 3**0.5)
    assert curve([log], "absent") is None


def test_long_logs_are_thinned_without_losing_their_mean():
    log = [{"step": i, "x": float(i)} for i in range(10_000)]
    one = curve([log], "x")
    assert one is not None
    assert len(one.members[0]) == 200
    assert sum(y for _, y in one.members[0]) / 200 == pytest.approx(4999.5)


def test_the_work_of_a_long_log_grows_no_faster_than_the_log() -> None:
    n = 40 * MOST_SMOOTHED
    log = [{"step": step, "x": float(step % 2)} for step in range(1, n + 1)]
    begun = time.process_time()
    drawn = curve([log], "x")
    assert time.process_time() - begun < 20  # it took minutes while every window was summed
    assert drawn is not None
    assert drawn.window == n // 10
    assert len(drawn.steps) <= MOST_POINTS
    assert all(abs(mean - 0.5) < 1e-9 for mean in drawn.mean)
