"""By what the payoffs of a game are multiplied, as an argument and in rows."""

from __future__ import annotations

from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.games.scales import FACTORS, scale_of_row, task_scales


def test_no_split_shares_a_factor():
    factors = [one for several in FACTORS.values() for one in several]
    assert len(set(factors)) == len(factors)
    assert FACTORS["train"] == (1.0,)


def test_a_task_has_one_scale_or_one_for_each_seat():
    assert task_scales([2, [1, 100]], 2) == ((2.0, 2.0), (1.0, 100.0))
    for wrong in ([[1]], [[]], [[1, 2, 3]]):
        with pytest.raises(ValueError, match="scales"):
            task_scales(wrong, 2)
    assert scale_of_row({}, 2) == (1.0, 1.0)
    assert scale_of_row({"scale": [1, 3]}, 2) == (1.0, 3.0)


@pytest.mark.parametrize(
    "wrong", [0, -1, float("inf"), float("nan"), "2", True, None, [1, 0], [1], {}]
)
def test_scales_are_numbers_above_zero(wrong: Any):
    with pytest.raises(ValueError, match="scale"):
        scale_of_row({"scale": wrong}, 2)
    with pytest.raises((ValueError, TypeError), match="scales"):
        make("matrix_game", scales=[wrong])


@pytest.mark.parametrize("wrong", [[], 3, "12"])
def test_scales_are_a_list(wrong: Any):
    with pytest.raises((ValueError, TypeError), match="scales"):
        make("matrix_game", scales=wrong)
