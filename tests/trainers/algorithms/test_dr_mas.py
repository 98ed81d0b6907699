"""Dr. MAS and the global group that it is an answer to, with numbers worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.enumeration import NOBODY, Game, Played, algorithm_of, inputs_of


def game() -> Game:
    """The first agent takes one turn, the second two or none; the second is paid a hundredfold."""

    def played(first: float, second: float | None) -> Played:
        words = np.array([[0, NOBODY], [NOBODY, NOBODY] if second is None else [0, 0]])
        return Played(words, np.array([[first, 0.0], [0.0, second or 0.0]]))

    return Game(np.zeros((2, 2, 1)), (played(0.0, 100.0), played(3.0, 400.0), played(6.0, None)))


def judged(name: str, scale: float = 1.0) -> Any:
    inputs = inputs_of(game(), np.array([[0, 1, 2]]))
    inputs.returns[:] *= scale
    return algorithm_of(name).advantages(inputs)[0]


def test_each_agent_is_compared_with_its_own_turns():
    advantages = judged("dr_mas")
    assert advantages[:, 0, 0].tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)  # 3 +- 3
    std = 30000**0.5  # of 100, 100, 400, 400 around 250
    expected = [[-150 / std] * 2, [150 / std] * 2, [0.0, 0.0]]
    assert advantages[:, 1].tolist() == [pytest.approx(row, abs=1e-5) for row in expected]


def test_one_group_for_all_drowns_the_agent_that_is_paid_less():
    """Seven turns: 0, 3, 6 of one and 100, 100, 400, 400 of the other."""
    advantages = judged("grpo_global")
    values = np.array([0.0, 3.0, 6.0, 100.0, 100.0, 400.0, 400.0])
    mean, std = values.mean(), values.std(ddof=1)
    assert advantages[:, 0, 0].tolist() == pytest.approx(
        [(r - mean) / std for r in (0, 3, 6)], abs=1e-5
    )
    assert advantages[0, 1].tolist() == pytest.approx([(100 - mean) / std] * 2, abs=1e-5)
    assert (
        np.ptp(advantages[:, 0, 0]) < 0.04 < 2 == pytest.approx(np.ptp(judged("dr_mas")[:, 0, 0]))
    )


@pytest.mark.parametrize("name", ["dr_mas", "grpo_global"])
def test_the_unit_of_rewards_is_irrelevant(name: str):
    assert np.allclose(judged(name, 100.0), judged(name), rtol=1e-4)


@pytest.mark.parametrize("name", ["dr_mas", "grpo_global"])
def test_equal_returns_and_a_single_turn_are_compared_with_nothing(name: str):
    """Deviation 1; and 0.1 + 0.2 is 0.3."""
    same = Game(
        np.zeros((1, 1, 1)),
        tuple(Played(np.array([[0]]), np.array([[r]])) for r in (0.1 + 0.2, 0.3)),
    )
    for group in ([[0, 1]], [[0]]):
        assert not algorithm_of(name).advantages(inputs_of(same, np.array(group))).any()


@pytest.mark.parametrize("name", ["dr_mas", "grpo_global"])
@pytest.mark.parametrize("option", [{"scale_rewards": "group"}, {"baseline": "mean"}], ids=str)
def test_the_mean_and_the_deviation_are_its_own(name: str, option: dict[str, str]):
    with pytest.raises(ValueError, match=f"the algorithm {name!r} does not read it"):
        algorithm_of(name, **option)
