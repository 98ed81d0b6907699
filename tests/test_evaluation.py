"""Evaluation and coordination, with teams whose results are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from toys import WordPair

from llm_marl_envs.evaluation import cooperation_index, evaluate_team, measure_coordination
from llm_marl_envs.evaluation.metrics import bootstrap_interval, wilson_interval
from llm_marl_envs.outcome import Bounds
from llm_marl_envs.policies import ExpertPolicy, ScriptedPolicy
from llm_marl_envs.records import Request


def team(left: str | None, right: str | None) -> dict[str, ExpertPolicy]:
    env = WordPair()
    return {"left_0": ExpertPolicy(env, left), "right_0": ExpertPolicy(env, right)}


def test_experts_solve_everything():
    result = evaluate_team(WordPair, team("lower", "lower"), n_tasks=8, samples=2, copies=3)
    assert (result.n_tasks, result.samples, len(result.episodes)) == (8, 2, 16)
    assert result.success == 1.0
    assert result.success_ci95 == (1.0, 1.0)
    assert result.mean_return == 1.0
    assert math.isclose(sum(result.reward_terms.values()), 1.0)
    assert [e.task_id for e in result.episodes[:4]] == [result.episodes[0].task_id] * 2 + [
        result.episodes[2].task_id
    ] * 2


def test_a_half_silent_team_earns_half():
    half = {**team("lower", "lower"), "right_0": ScriptedPolicy(lambda r: "")}
    result = evaluate_team(WordPair, half, n_tasks=5)
    assert result.mean_return == 0.5
    assert result.success == 0.0


def test_coordination_of_teams_in_one_convention_and_in_two():
    env = WordPair()
    together = evaluate_team(WordPair, team("upper", "upper"), n_tasks=10)
    apart = evaluate_team(WordPair, team("upper", "lower"), n_tasks=10)
    one = measure_coordination(env, together.episodes)
    two = measure_coordination(env, apart.episodes)
    assert (one.convention_match, one.choice_match, one.success_given_match) == (1.0, 1.0, 1.0)
    assert (two.convention_match, two.choice_match, two.success_given_match) == (0.0, 0.0, None)
    assert two.competence == {"left_0": 1.0, "right_0": 1.0}


def test_experts_at_random_match_by_chance():
    result = evaluate_team(WordPair, team(None, None), n_tasks=30, samples=20)
    match = measure_coordination(WordPair(), result.episodes).convention_match
    assert 0.42 < match < 0.58  # 600 draws: 4 standard deviations of 0.5


def test_an_unreadable_action_is_incompetent():
    def mumble(request: Request) -> str:
        return "?"

    mixed = {**team("lower", "lower"), "left_0": ScriptedPolicy(mumble)}
    result = evaluate_team(WordPair, mixed, n_tasks=4)
    found = measure_coordination(WordPair(), result.episodes)
    assert found.competence == {"left_0": 0.0, "right_0": 1.0}
    assert found.convention_match == 0.0


def test_evaluation_does_not_depend_on_the_number_of_copies():
    one = evaluate_team(WordPair, team(None, None), n_tasks=7, copies=1)
    many = evaluate_team(WordPair, team(None, None), n_tasks=7, copies=64)
    assert one.episodes == many.episodes


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="expected 1 to 30"):
        evaluate_team(WordPair, team(None, None), n_tasks=31)
    with pytest.raises(ValueError, match="samples=0"):
        evaluate_team(WordPair, team(None, None), n_tasks=1, samples=0)
    with pytest.raises(ValueError, match="coordination needs"):
        measure_coordination(WordPair(), [])


def test_bootstrap_interval_of_a_known_case():
    rng = np.random.default_rng(1)
    values = rng.normal(2.0, 1.0, size=400)
    low, high = bootstrap_interval(values.tolist())
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval([])


def test_wilson_interval_by_hand():
    # 8 of 10: centre (0.8 + 1.9207 / 10) / 1.38415, half width 0.2264...
    low, high = wilson_interval(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson_interval(0, 10)[0] == 0.0
    with pytest.raises(ValueError, match="11 successes"):
        wilson_interval(11, 10)


def test_the_cooperation_index_is_0_for_one_good_seat_and_1_for_a_team():
    """Bounds of WordPair: solo 0.5, team 1."""
    silent = ScriptedPolicy(lambda r: "")
    teams = {
        1.0: team("lower", "lower"),
        0.0: {**team("lower", "lower"), "right_0": silent},
        -1.0: {"left_0": silent, "right_0": silent},
    }
    for expected, players in teams.items():
        episodes = evaluate_team(WordPair, players, n_tasks=4, samples=2).episodes
        index = cooperation_index(WordPair(), episodes)
        assert index is not None
        assert index.mean == expected
        assert index.ci95 == (expected, expected)
        assert index.above_solo == expected * 0.5
        assert index.n_tasks == 4


def test_nothing_is_credited_where_one_seat_could_do_it_all():
    class Easy(WordPair):
        def bounds(self, task: Any) -> Bounds:
            return Bounds(random=0.0, solo=1.0, team=1.0)

    class Unknown(WordPair):
        def bounds(self, task: Any) -> Bounds:
            raise ValueError("not known")

    half = {**team("lower", "lower"), "right_0": ScriptedPolicy(lambda r: "")}
    episodes = evaluate_team(WordPair, half, n_tasks=4).episodes
    index = cooperation_index(Easy(), episodes)
    assert index is not None
    assert (index.mean, index.ci95, index.above_solo) == (None, None, -0.5)
    assert cooperation_index(Unknown(), episodes) is None
