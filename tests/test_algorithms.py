"""Returns and advantages, with numbers worked by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainers.algorithms import ALGORITHMS, AdvantageInputs, make_algorithm
from trainers.returns import discounted_returns

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


def magrpo(scale: str = "none") -> Any:
    return make_algorithm("magrpo", SimpleNamespace(scale_rewards=scale))


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


def test_first_turn_baseline_is_the_group_mean_with_the_sample_in_it():
    advantages = magrpo().advantages(inputs([[[[0.0]], [[1.0]], [[5.0]]]]))  # mean 2
    assert advantages[0, :, 0, 0].tolist() == [-2.0, -1.0, 3.0]


def test_standard_deviation_is_an_option_and_the_sample_one():
    advantages = magrpo("group").advantages(inputs([[[[0.0]], [[1.0]], [[5.0]]]]))
    std = 7**0.5  # (4 + 1 + 9) / 2
    assert advantages[0, :, 0, 0] == pytest.approx(
        [-2 / (std + 1e-4), -1 / (std + 1e-4), 3 / (std + 1e-4)]
    )


def test_later_turns_leave_the_sample_out_and_count_only_the_living():
    returns = [[[[9.0, 1.0]], [[9.0, 3.0]], [[9.0, 8.0]]]]
    alive = [[[[True, True]], [[True, True]], [[True, NO]]]]
    advantages = magrpo().advantages(inputs(returns, alive))
    # 1 is compared with 3 and 3 with 1; the third episode has ended.
    assert advantages[0, :, 0, 1].tolist() == [-2.0, 2.0, 0.0]
    assert advantages[0, :, 0, 0].tolist() == [0.0, 0.0, 0.0]


def test_a_lonely_episode_is_compared_with_the_past():
    algorithm = magrpo()
    alone = [[[[True, True]], [[True, NO]]]]
    first = algorithm.advantages(inputs([[[[0.0, 4.0]], [[0.0, 0.0]]]], alone))
    assert first[0, 0, 0, 1] == 4.0  # no past: baseline 0
    assert algorithm.counters == {"running_baseline": 1.0}
    second = algorithm.advantages(inputs([[[[0.0, 10.0]], [[0.0, 0.0]]]], alone))
    assert second[0, 0, 0, 1] == 6.0  # baseline 4, the mean so far
    third = algorithm.advantages(inputs([[[[0.0, 0.0]], [[0.0, 0.0]]]], alone))
    assert third[0, 0, 0, 1] == pytest.approx(-(0.95 * 4 + 0.05 * 10))
    again = magrpo()
    again.load_state_dict(algorithm.state_dict())
    assert again.running == algorithm.running


def test_groups_and_agents_do_not_mix():
    returns = np.zeros((2, 2, 2, 1))
    returns[0, :, 0, 0] = [0, 2]
    returns[1, :, 1, 0] = [10, 20]
    advantages = magrpo().advantages(inputs(returns))
    assert advantages[0, :, 0, 0].tolist() == [-1.0, 1.0]
    assert advantages[1, :, 1, 0].tolist() == [-5.0, 5.0]
    assert not advantages[0, :, 1].any()
    assert not advantages[1, :, 0].any()


def test_unknown_algorithm_names_the_near_one():
    with pytest.raises(ValueError, match="did you mean 'magrpo'"):
        make_algorithm("magrp", SimpleNamespace())


def test_no_two_algorithms_give_proportional_advantages():
    rng = np.random.default_rng(0)
    returns = rng.normal(size=(2, 4, 2, 3)).cumsum(axis=-1)
    alive = np.ones(returns.shape, bool)
    alive[:, 2:, :, 2] = NO
    fixed = inputs(returns, alive)
    found = {
        name: cls(SimpleNamespace(scale_rewards="none")).advantages(fixed).ravel()
        for name, cls in ALGORITHMS.items()
    }
    names = sorted(found)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            cosine = (
                found[one]
                @ found[other]
                / np.linalg.norm(found[one])
                / np.linalg.norm(found[other])
            )
            assert abs(cosine) < 0.9999, f"{one} and {other} are the same algorithm"


def rejection() -> Any:
    return make_algorithm("rejection", SimpleNamespace(scale_rewards="none"))


def test_rejection_has_nothing_to_scale():
    with pytest.raises(ValueError, match="scale_rewards='group': rejection sampling"):
        make_algorithm("rejection", SimpleNamespace(scale_rewards="group"))


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
