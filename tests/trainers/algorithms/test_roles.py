"""Baselines of roles, RAE's and MARSHAL's, with numbers worked by hand; runs without roles."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.enumeration import NOBODY, Game, Played, algorithm_of, inputs_of

TOGETHER = {"role0_0": "both", "role1_0": "both"}


def zero_sum(*outcomes: float) -> Game:
    """One turn; the second agent is paid minus what the first is."""
    words = np.zeros((2, 1), int)
    return Game(np.zeros((2, 1, 1)), tuple(Played(words, np.array([[r], [-r]])) for r in outcomes))


def judged(algorithm: Any, game: Game, *groups: list[int]) -> np.ndarray:
    return algorithm.advantages(inputs_of(game, np.array(groups)))


# -- rae -------------------------------------------------------------------------------------------
def test_a_baseline_is_read_before_it_moves_and_is_kept_by_role():
    algorithm = algorithm_of({"name": "rae", "rate": 0.5})
    advantages = judged(algorithm, zero_sum(1.0, 1.0, -1.0), [0, 1, 2])
    # b of the first role: 0, then 1/2, then 3/4; of the second the same below 0.
    assert advantages[0, :, 0, 0].tolist() == [1.0, 0.5, -1.75]
    assert advantages[0, :, 1, 0].tolist() == [-1.0, -0.5, 1.75]
    assert algorithm.baselines == {"/role0": -0.125, "/role1": 0.125}


def test_the_rate_of_the_paper_and_the_order_of_tasks():
    algorithm = algorithm_of("rae")
    advantages = judged(algorithm, zero_sum(1.0), [0, 0], [0, 0])
    assert advantages[:, :, 0, 0].ravel().tolist() == pytest.approx([1, 0.95, 0.95**2, 0.95**3])


def test_seats_of_one_role_read_before_any_moves():
    """Else the second would be compared with minus its own return."""
    algorithm = algorithm_of({"name": "rae", "rate": 0.5, "roles": TOGETHER})
    advantages = judged(algorithm, zero_sum(1.0), [0])
    assert advantages[0, 0, :, 0].tolist() == [1.0, -1.0]
    assert algorithm.baselines == {"/both": -0.25}  # 0, 1/2, then half of the way to -1


def test_later_turns_have_their_own_return_and_one_baseline():
    words, paid = np.array([[0, 0]]), np.array([[1.0, 3.0]])
    algorithm = algorithm_of({"name": "rae", "rate": 0.5})
    advantages = judged(algorithm, Game(np.zeros((1, 2, 1)), (Played(words, paid),)), [0, 0])
    assert advantages[0, :, 0].tolist() == [[4.0, 3.0], [2.0, 1.0]]  # b is 0, then 4 / 2


def test_who_did_not_act_moves_no_baseline():
    silent = Game(
        np.zeros((2, 1, 1)), (Played(np.array([[0], [NOBODY]]), np.array([[1.0], [0.0]])),)
    )
    algorithm = algorithm_of("rae")
    assert judged(algorithm, silent, [0])[0, 0, 1].tolist() == [0.0]
    assert algorithm.baselines == {"/role0": 0.05}


def test_a_checkpoint_keeps_the_baselines():
    algorithm, again = algorithm_of("rae"), algorithm_of("rae")
    judged(algorithm, zero_sum(1.0, 2.0), [0, 1])
    again.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    first, other = (judged(each, zero_sum(3.0), [0]) for each in (algorithm, again))
    assert np.array_equal(first, other)
    assert not np.allclose(first, judged(algorithm_of("rae"), zero_sum(3.0), [0]))


# -- marshal ---------------------------------------------------------------------------------------
def turns() -> Game:
    """Two agents; the first takes two turns, or one; returns (3, 2), (6), (1, 1) and -1, -2, -9."""

    def played(first: list[float], second: float) -> Played:
        taken = [0] * len(first) + [NOBODY] * (2 - len(first))
        paid = [first + [0.0] * (2 - len(first)), [second, 0.0]]
        return Played(np.array([taken, [0, NOBODY]]), np.array(paid))

    return Game(
        np.zeros((2, 2, 1)),
        (played([1.0, 2.0], -1.0), played([6.0], -2.0), played([0.0, 1.0], -9.0)),
    )


def test_turns_are_compared_with_the_turns_of_other_episodes_of_their_role():
    advantages = judged(algorithm_of("marshal"), turns(), [0, 1, 2])[0]
    # Others of the first episode: 6, 1, 1; of the second: 3, 2, 1, 1; of the third: 3, 2, 6.
    assert advantages[0, 0].tolist() == pytest.approx([3 - 8 / 3, 2 - 8 / 3])
    assert advantages[1, 0, 0] == pytest.approx(6 - 7 / 4)
    assert advantages[2, 0].tolist() == pytest.approx([1 - 11 / 3] * 2)
    assert advantages[:, 1, 0].tolist() == [4.5, 3.0, -7.5]


def test_the_papers_mean_holds_every_turn_of_the_role():
    advantages = judged(algorithm_of("marshal", baseline="mean"), turns(), [0, 1, 2])[0]
    assert advantages[0, 0].tolist() == pytest.approx([3 - 13 / 5, 2 - 13 / 5])
    assert advantages[:, 1, 0].tolist() == [3.0, 2.0, -5.0]


def test_the_deviation_is_that_of_the_turns_of_the_role():
    advantages = judged(
        algorithm_of("marshal", baseline="mean", scale_rewards="group"), turns(), [0, 1, 2]
    )
    std = np.std([3, 2, 6, 1, 1], ddof=1)
    assert advantages[0, 1, 0, 0] == pytest.approx((6 - 13 / 5) / (std + 1e-4))
    assert advantages[0, :, 1, 0].tolist() == pytest.approx(
        [3 / 19**0.5, 2 / 19**0.5, -5 / 19**0.5], 1e-3
    )


def test_one_role_for_both_is_one_group():
    algorithm = algorithm_of({"name": "marshal", "roles": TOGETHER})
    advantages = judged(algorithm, zero_sum(1.0, 3.0), [0, 1])
    assert advantages[0, :, :, 0].tolist() == [
        [1.0, -1.0],
        [3.0, -3.0],
    ]  # 3 - 3 and 1 - 1 are nothing


def test_an_episode_that_is_alone_is_compared_with_the_past_of_its_role():
    algorithm, again = algorithm_of("marshal"), algorithm_of("marshal")
    assert judged(algorithm, zero_sum(4.0), [0])[0, 0, 0, 0] == 4.0
    assert algorithm.counters == {"running_baseline": 2.0}
    again.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    for judge in (algorithm, again):
        assert judged(judge, zero_sum(10.0), [0])[0, 0, :, 0].tolist() == [6.0, -6.0]


@pytest.mark.parametrize("baseline", ["none", "max"])
def test_marshal_has_two_baselines(baseline: str):
    with pytest.raises(
        ValueError, match=r"the algorithm 'marshal' knows \['leave_one_out', 'mean'"
    ):
        algorithm_of("marshal", baseline=baseline)


# -- runs ------------------------------------------------------------------------------------------
def check(chosen: Any, *agents: str, trained: tuple[str, ...] = ()) -> None:
    env: Any = SimpleNamespace(possible_agents=[*agents])
    algorithm_of(chosen).check(env, trained or agents)


@pytest.mark.parametrize("name", ["rae", "marshal"])
def test_a_run_without_roles_is_refused_with_the_remedy(name: str):
    with pytest.raises(ValueError, match="all have the role 'player'; set roles: seat"):
        check(name, "player_0", "player_1")
    with pytest.raises(ValueError, match=r"\['bob'\] say no role .* or choose algorithm: magrpo"):
        check(name, "alice_0", "bob")
    check(name, "helper_0", "main_0")
    check(name, "player_0", "player_1", trained=("player_1",))
    for roles in ("seat", {"player_0": "first", "player_1": "first"}):
        check({"name": name, "roles": roles}, "player_0", "player_1")


@pytest.mark.parametrize("name", ["rae", "marshal"])
def test_a_map_of_roles_names_every_trained_agent_and_no_other(name: str):
    with pytest.raises(ValueError, match=r"no role for \['b_0'\], and no agents \[\]"):
        check({"name": name, "roles": {"a_0": "x"}}, "a_0", "b_0")
    with pytest.raises(ValueError, match=r"no role for \[\], and no agents \['c_0'\]"):
        check({"name": name, "roles": {"a_0": "x", "c_0": "y"}}, "a_0")
    check({"name": name, "roles": {"a_0": "x"}}, "a_0", "b_0", trained=("a_0",))


@pytest.mark.parametrize(
    ("own", "error", "words"),
    [
        ({"roles": "seats"}, ValueError, "roles='seats': expected 'name', 'seat' or a map"),
        ({"roles": {"a_0": 1}}, ValueError, "a map from agent to role"),
        ({"roles": 3}, ValueError, "roles=3: expected 'name', 'seat' or a map"),
        ({"rate": 0.0}, ValueError, "rae, rate=0.0: expected a number above 0, at most 1"),
        ({"rate": 2}, ValueError, "rae, rate=2: expected a number above 0, at most 1"),
    ],
)
def test_wrong_settings_say_what_is_wrong(own: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        algorithm_of({"name": "rae", **own})
