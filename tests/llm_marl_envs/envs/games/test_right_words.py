"""Scores of right words: by hand, slopes against differences, tasks of splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from llm_marl_envs.envs.games.landscape import near_uniform, softmax
from llm_marl_envs.envs.games.right_words import (
    contributions,
    exact_gradient,
    right_tasks,
    score,
    slope,
)
from llm_marl_envs.envs.games.scales import task_scales


def test_scores_by_hand():
    right = np.array([1, 0, 1, 1])
    ones = (1.0,) * 4
    assert score("sum", right, ones) == 0.75
    assert score("pairs", right, ones) == 0.5  # 3 of 6 pairs
    assert score("pairs", np.ones(4), ones) == 1
    assert score("pairs", np.array([1, 0, 0, 0]), ones) == 0
    # Weights 1, 2, 3, 4: pairs (0, 2), (0, 3), (2, 3): 3 + 4 + 12 of 6.
    assert score("pairs", right, (1, 2, 3, 4)) == pytest.approx(19 / 6)
    assert score("sum", right, (1, 2, 3, 4)) == 2
    # Independent probabilities: the expectation is the polynomial.
    assert score("pairs", np.array([0.5, 0.5]), (1, 1)) == 0.25


def test_a_slope_is_what_one_seat_adds():
    right, weights = np.array([0.3, 0.9, 0.5]), (1.0, 2.0, 3.0)
    for arm in ("sum", "pairs"):
        for seat in range(3):
            ends = []
            for own in (0.0, 1.0):
                moved = right.copy()
                moved[seat] = own
                ends.append(float(score(arm, moved, weights)))
            assert slope(arm, right, weights)[seat] == pytest.approx(ends[1] - ends[0])


def test_a_lazy_seat_adds_least():
    """Two perfect seats, one that draws, one that is always wrong."""
    right = (1.0, 1.0, 1 / 3, 0.0)
    found = contributions("sum", right, (1.0,) * 4, 3)
    assert found == pytest.approx([1 / 6, 1 / 6, 0, -1 / 12])
    # Pairs, of 6: seat 0 loses 2/3 of its pairs with 1 + 1/3 + 0 right ones.
    found = contributions("pairs", right, (1.0,) * 4, 3)
    assert found == pytest.approx([8 / 54, 8 / 54, 0, -7 / 54])


@pytest.mark.parametrize("arm", ["sum", "pairs"])
def test_the_gradient_is_the_slope(arm: str):
    logits, weights = near_uniform([(3,)] * 2, starts=2, seed=3), (1.0, 2.0, 3.0)

    def value(tables: Any) -> Any:
        learned = [softmax(one)[:, 0] for one in tables]
        return score(arm, np.stack([*learned, np.full(2, 1 / 3)], -1), weights)

    for seat, found in enumerate(exact_gradient(arm, logits, weights, frozen=1)):
        for action in range(3):
            moved = [one.copy() for one in logits]
            moved[seat][:, action] += 1e-6
            rise = (value(moved) - value(logits)) / 1e-6
            assert found[:, action] == pytest.approx(rise, abs=1e-5)


def test_no_task_is_in_two_splits():
    found = []
    for split in ("train", "val", "test", "ood"):
        for task in right_tasks("crowd", split, task_scales([0.1, 1, 10], 4), (1, 4, 3)):
            found.append((task.data["rights"], round(task.data["scale"][3], 9)))
    assert len(found) == len(set(found)) == 3 + 6 * 3
    tasks = right_tasks("crowd", "train", task_scales([0.1, 10] * 2, 2), (1, 2, 3))
    assert [task.data["scale"] for task in tasks] == [(0.1, 0.1), (10, 10)] * 2
    with pytest.raises(ValueError, match="there are 4 different tasks"):
        right_tasks("crowd", "train", task_scales([1] * 5, 2), (1, 2, 2))
