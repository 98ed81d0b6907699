"""Hysteretic learning, with numbers worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.enumeration import algorithm_of, choice, inputs_of


def advantages(chosen: Any, **args: str) -> Any:
    """Of three episodes that return 0, 1 and 5."""
    game = choice([(0.0, 1.0)], [(1.0, 1.0)], [(5.0, 1.0)])
    return algorithm_of(chosen, **args).advantages(inputs_of(game, np.array([[0, 1, 2]]))).ravel()


def test_negative_advantages_weigh_less():
    assert advantages("hysteretic").tolist() == pytest.approx([-3 / 5, -1.5 / 5, 4.5])
    weighed = {"name": "hysteretic", "weight": 0.5}
    assert advantages(weighed).tolist() == [-1.5, -0.75, 4.5]
    std = 7**0.5 + 1e-4  # of 0, 1, 5: (4 + 1 + 9) / 2
    expected = [-1.5 / std, -0.75 / std, 4.5 / std]
    assert advantages(weighed, scale_rewards="group").tolist() == pytest.approx(expected)


@pytest.mark.parametrize("weight", [-0.1, 1.5, float("nan")])
def test_a_weight_is_a_share(weight: float):
    with pytest.raises(ValueError, match=r"hysteretic, weight=.*: expected a number, 0 to 1"):
        algorithm_of({"name": "hysteretic", "weight": weight})


def test_its_baseline_is_that_of_magrpo():
    with pytest.raises(ValueError, match="baseline='max': the algorithm 'hysteretic' does not"):
        algorithm_of("hysteretic", baseline="max")
