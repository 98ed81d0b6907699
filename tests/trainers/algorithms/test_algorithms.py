"""Returns and advantages, with numbers worked by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.enumeration import algorithm_of as neutral
from support.enumeration import inputs_of, two_turns

from trainers.algorithms import ALGORITHMS, AdvantageInputs, algorithm_class, make_algorithm
from trainers.batch.returns import discounted_returns

NO = False


def inputs(returns: Any, alive: Any = None) -> AdvantageInputs:
    """Returns (P, G, A, K)."""
    returns = np.array(returns, dtype=float)
    alive = np.ones(returns.shape, bool) if alive is None else np.array(alive, dtype=bool)
    agents = tuple(f"agent_{i}" for i in range(returns.shape[2]))
    return AdvantageInputs(
        returns=np.where(alive, returns, 0.0),
        rewards=returns,
        alive=alive,
        agents=agents,
        policies={a: a for a in agents},
        groups=(),
    )


def algorithm_of(name: str, scale: str = "none", baseline: str = "leave_one_out") -> Any:
    run = {"scale_rewards": scale, "baseline": baseline, "credit": "own", "discount": 1.0}
    return make_algorithm(name, SimpleNamespace(**run))


def magrpo(scale: str = "none", baseline: str = "leave_one_out") -> Any:
    return algorithm_of("magrpo", scale, baseline)


def test_discounted_returns():
    rewards = np.array([[[1.0, 2.0, 4.0]]])
    alive = np.ones_like(rewards, dtype=bool)
    assert discounted_returns(rewards, alive, 1.0).tolist() == [[[7.0, 6.0, 4.0]]]
    assert discounted_returns(rewards, alive, 0.5).tolist() == [[[3.0, 4.0, 4.0]]]
    assert discounted_returns(rewards, alive, 0.0).tolist() == [[[1.0, 2.0, 4.0]]]


def test_turns_that_were_not_taken_pay_nothing():
    rewards = np.array([[[1.0, 9.0]]])
    alive = np.array([[[True, False]]])
    assert discounted_returns(rewards, alive, 1.0).tolist() == [[[1.0, 0.0]]]


# Three episodes of one agent and two turns; the third ends after the first turn.
RETURNS = [[[[0.0, 1.0]], [[1.0, 3.0]], [[5.0, 8.0]]]]
ALIVE = [[[[True, True]], [[True, True]], [[True, NO]]]]


def test_every_turn_leaves_the_sample_out_and_counts_only_the_living():
    advantages = magrpo().advantages(inputs(RETURNS, ALIVE))
    # 0 is compared with (1 + 5) / 2, 1 with (0 + 5) / 2, 5 with (0 + 1) / 2.
    assert advantages[0, :, 0, 0].tolist() == [-3.0, -1.5, 4.5]
    # 1 is compared with 3 and 3 with 1; the third episode has ended.
    assert advantages[0, :, 0, 1].tolist() == [-2.0, 2.0, 0.0]


def test_the_papers_mean_contains_the_sample_in_the_first_turn_only():
    advantages = magrpo(baseline="mean").advantages(inputs(RETURNS, ALIVE))
    assert advantages[0, :, 0, 0].tolist() == [-2.0, -1.0, 3.0]  # mean 2
    assert advantages[0, :, 0, 1].tolist() == [-2.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("baseline", "first"), [("leave_one_out", [-3.0, -1.5, 4.5]), ("mean", [-2.0, -1.0, 3.0])]
)
def test_a_scale_divides_every_turn_by_the_sample_deviation(baseline: str, first: list[float]):
    advantages = magrpo("group", baseline).advantages(inputs(RETURNS, ALIVE))
    std = 7**0.5  # of 0, 1, 5: (4 + 1 + 9) / 2
    assert advantages[0, :, 0, 0] == pytest.approx(
        [advantage / (std + 1e-4) for advantage in first]
    )
    std = 2**0.5  # of 1, 3: (1 + 1) / 1
    assert advantages[0, :, 0, 1] == pytest.approx([-2 / (std + 1e-4), 2 / (std + 1e-4), 0.0])


@pytest.mark.parametrize("baseline", ["leave_one_out", "mean"])
def test_a_scale_makes_the_unit_of_rewards_irrelevant(baseline: str):
    """At every turn, alone or not, from the first update on."""
    rng = np.random.default_rng(1)
    small, large = magrpo("group", baseline), magrpo("group", baseline)
    for _ in range(5):
        returns = rng.normal(1, 1, size=(2, 4, 2, 3))
        alive = np.ones(returns.shape, bool)
        alive[:, 1:, :, 2] = NO  # the last turn is taken alone
        advantages = small.advantages(inputs(returns, alive))
        assert np.allclose(large.advantages(inputs(100 * returns, alive)), advantages, rtol=0.01)
        assert (
            np.sqrt((advantages**2).sum(axis=(0, 1, 2)) / alive.sum(axis=(0, 1, 2))) > 0.1
        ).all()


ALONE = [[[[True, True]], [[True, NO]]]]


def alone(algorithm: Any, earned: float) -> float:
    """The advantage of a second turn that only one of two episodes took."""
    return algorithm.advantages(inputs([[[[0.0, earned]], [[0.0, 0.0]]]], ALONE))[0, 0, 0, 1]


@pytest.mark.parametrize("baseline", ["leave_one_out", "mean"])
def test_a_lonely_episode_is_compared_with_the_past(baseline: str):
    algorithm = magrpo(baseline=baseline)
    assert alone(algorithm, 4.0) == 4.0  # no past: baseline 0
    assert algorithm.counters == {"running_baseline": 1.0}
    assert alone(algorithm, 10.0) == 6.0  # baseline 4, the mean so far
    assert alone(algorithm, 0.0) == pytest.approx(-(0.95 * 4 + 0.05 * 10))


def test_a_lonely_episode_is_scaled_by_the_past():
    algorithm = magrpo("group")
    assert alone(algorithm, 4.0) == pytest.approx(4 / (4 + 1e-4))
    distance = (0.95 * 4**2 + 0.05 * 6**2) ** 0.5  # 10 lies 6 from the mean so far
    assert alone(algorithm, 10.0) == pytest.approx(6 / (distance + 1e-4))


def test_an_agent_that_acts_alone_is_lonely_in_its_first_turn_too():
    acted = [[[[True], [True]], [[True], [NO]]]]
    for baseline in ("leave_one_out", "mean"):
        algorithm = magrpo(baseline=baseline)
        for earned, expected in ((4.0, 4.0), (10.0, 6.0)):
            returns = [[[[earned], [earned]], [[0.0], [0.0]]]]
            assert algorithm.advantages(inputs(returns, acted))[0, 0, 1, 0] == expected


@pytest.mark.parametrize("scale", ["none", "group"])
def test_what_a_checkpoint_keeps_is_all_that_was_learned_from_the_past(scale: str):
    """Saved as JSON, loaded by another: both go on alike, and not as one without a past."""
    algorithm, again = magrpo(scale), magrpo(scale)
    for earned in (4.0, 10.0):
        alone(algorithm, earned)
    again.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    for earned in (1.0, 7.0):
        expected = alone(algorithm, earned)
        assert alone(again, earned) == expected
        assert alone(magrpo(scale), earned) != pytest.approx(expected, rel=0.1)


def test_a_checkpoint_that_holds_no_scale_loads():
    algorithm = magrpo("group")
    algorithm.load_state_dict({"running": {"agent_0/1": 4.0}})
    assert alone(algorithm, 10.0) == pytest.approx(6 / (6 + 1e-4))


def test_no_baseline_and_the_largest_return():
    """Returns 0, 1, 5 and then 1, 3; whoever acts alone has no baseline, or itself."""
    advantages = magrpo(baseline="none").advantages(inputs(RETURNS, ALIVE))
    assert advantages[0, :, 0].tolist() == [[0.0, 1.0], [1.0, 3.0], [5.0, 0.0]]
    advantages = magrpo(baseline="max").advantages(inputs(RETURNS, ALIVE))
    assert advantages[0, :, 0].tolist() == [[-5.0, -2.0], [-4.0, 0.0], [0.0, 0.0]]
    for baseline, expected in (("none", 4.0), ("max", 0.0)):
        algorithm = magrpo(baseline=baseline)
        assert [alone(algorithm, 4.0), alone(algorithm, 4.0)] == [expected] * 2
        assert algorithm.counters == {}


def test_without_a_baseline_equal_returns_count_and_cannot_be_scaled():
    """Else the expected gradient would miss what groups of equal returns bring."""
    assert magrpo(baseline="none").advantages(inputs([[[[2.0]], [[2.0]]]])).ravel().tolist() == [
        2,
        2,
    ]
    with pytest.raises(ValueError, match="the deviation is 0; set one of them otherwise"):
        magrpo("group", "none")


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("leave_one_out", [-2.0, -0.5, 2.5]),
        ("mean", [-4 / 3, -1 / 3, 5 / 3]),
        ("none", [0.0, 1.0, 3.0]),
        ("max", [-3.0, -2.0, 0.0]),
    ],
)
def test_the_librarys_normalisation_makes_one_algorithm_of_four(
    baseline: str, expected: list[float]
):
    """CoMLRL 1.4.3 centres by the mean and divides by the population's deviation, by default."""
    advantages = magrpo(baseline=baseline).advantages(inputs([[[[0.0]], [[1.0]], [[3.0]]]])).ravel()
    assert advantages == pytest.approx(expected)
    assert (advantages - advantages.mean()) / advantages.std() == pytest.approx(
        [-1.069, -0.267, 1.336], abs=1e-3
    )


def test_groups_and_agents_do_not_mix():
    returns = np.zeros((2, 2, 2, 1))
    returns[0, :, 0, 0] = [0, 2]
    returns[1, :, 1, 0] = [10, 20]
    advantages = magrpo().advantages(inputs(returns))
    assert advantages[0, :, 0, 0].tolist() == [-2.0, 2.0]
    assert advantages[1, :, 1, 0].tolist() == [-10.0, 10.0]
    assert not advantages[0, :, 1].any()
    assert not advantages[1, :, 0].any()


def test_unknown_algorithm_names_the_near_one():
    with pytest.raises(ValueError, match="did you mean 'magrpo'"):
        make_algorithm("magrp", SimpleNamespace())


def test_no_two_algorithms_give_proportional_advantages():
    """In their second update, when critics and running means have learned."""
    fixed = inputs_of(two_turns(), np.array([[0, 3, 7, 12], [1, 4, 9, 11]]), told=True)
    by_algorithm: dict[str, np.ndarray] = {}
    for name in ALGORITHMS.names():
        if algorithm_class(name).branching:  # compared in test_branching_estimators.py
            continue
        algorithm = neutral(name)
        for _ in range(2):
            by_algorithm[name] = algorithm.advantages(fixed).ravel()
    names = sorted(by_algorithm)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            cosine = (
                by_algorithm[one]
                @ by_algorithm[other]
                / np.linalg.norm(by_algorithm[one])
                / np.linalg.norm(by_algorithm[other])
            )
            assert abs(cosine) < 0.9999, f"{one} and {other} are the same algorithm"


def rejection() -> Any:
    return algorithm_of("rejection")


def test_rejection_has_nothing_to_scale_and_nothing_to_subtract():
    with pytest.raises(ValueError, match="scale_rewards='group': the algorithm 'rejection' does"):
        algorithm_of("rejection", scale="group")
    with pytest.raises(ValueError, match=r"baseline='mean': .* leave it at 'leave_one_out'"):
        algorithm_of("rejection", baseline="mean")


def test_rejection_imitates_the_best_episodes_at_every_turn():
    # Whole episodes are compared: the second is best, although the third ends with more to come.
    returns = [[[[1.0, 0.0]], [[3.0, 1.0]], [[2.0, 2.0]], [[3.0, 0.0]]]]
    alive = [[[[True, True]], [[True, True]], [[True, True]], [[True, NO]]]]
    algorithm = rejection()
    advantages = algorithm.advantages(inputs(returns, alive))
    assert advantages[0, :, 0].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    assert algorithm.counters == {"imitated": 2.0}


def test_rejection_imitates_nobody_where_nothing_was_rejected():
    algorithm = rejection()
    groups = [[[[0.1 + 0.2]], [[0.3]]], [[[0.0]], [[1e-3]]]]  # equal up to rounding; a real one
    assert algorithm.advantages(inputs(groups))[..., 0, 0].tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert algorithm.counters == {"imitated": 1.0}


def test_rejection_compares_agents_that_join_late_by_their_own_returns():
    """The second agent acts from turn 1 on, and in the first episode not at all."""
    returns = [[[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 5.0]], [[0.0, 0.0], [0.0, 7.0]]]]
    alive = [[[[True, NO], [NO, NO]], [[True, NO], [NO, True]], [[True, NO], [NO, True]]]]
    advantages = rejection().advantages(inputs(returns, alive))
    assert advantages[0, :, 0, 0].tolist() == [1.0, 0.0, 0.0]
    assert advantages[0, :, 1, 1].tolist() == [0.0, 0.0, 1.0]
    assert advantages[0, 0, 1].tolist() == [0.0, 0.0]
