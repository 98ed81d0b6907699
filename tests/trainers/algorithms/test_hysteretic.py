"""Hysteretic learning, with numbers worked by hand; weights above 1 are risk-averse."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.enumeration import Game, Played, algorithm_of, choice, expected, inputs_of

from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.games.matrix_rules import GAMES


def advantages(chosen: Any, **args: str) -> Any:
    """Of three episodes that return 0, 1 and 5."""
    game = choice([(0.0, 1.0)], [(1.0, 1.0)], [(5.0, 1.0)])
    return algorithm_of(chosen, **args).advantages(inputs_of(game, np.array([[0, 1, 2]]))).ravel()


def test_negative_advantages_weigh_less():
    assert advantages("hysteretic").tolist() == pytest.approx([-3 / 5, -1.5 / 5, 4.5])
    weighed = {"name": "hysteretic", "weight": 0.5}
    assert advantages(weighed).tolist() == [-1.5, -0.75, 4.5]
    assert advantages({"name": "hysteretic", "weight": 2}).tolist() == [-6.0, -3.0, 4.5]
    std = 7**0.5 + 1e-4  # of 0, 1, 5: (4 + 1 + 9) / 2
    expected = [-1.5 / std, -0.75 / std, 4.5 / std]
    assert advantages(weighed, scale_rewards="group").tolist() == pytest.approx(expected)


@pytest.mark.parametrize("weight", [-0.1, 10.5, float("nan"), float("inf")])
def test_a_weight_is_at_most_ten(weight: float):
    with pytest.raises(ValueError, match=r"hysteretic, weight=.*: expected a number, 0 to 10"):
        algorithm_of({"name": "hysteretic", "weight": weight})


def test_its_baseline_is_that_of_magrpo():
    with pytest.raises(ValueError, match="baseline='max': the algorithm 'hysteretic' does not"):
        algorithm_of("hysteretic", baseline="max")


def value(outcomes: Sequence[float], weight: float) -> float:
    """The objective of one sure choice, by enumerating two episodes of it."""
    pairs = list(itertools.product(outcomes, repeat=2))
    spread = sum(abs(one - other) for one, other in pairs) / len(pairs)
    return (1 + weight) / 2 * sum(outcomes) / len(outcomes) - (weight - 1) / 4 * spread


RISKY = GAMES["risky"]
"""Both say safe: 5. Both bet: 14 or -10. Both out, or two words: 0."""
SAFE, BET = ([first for first, _ in RISKY.cells[place][place]] for place in (0, 1))


@pytest.mark.parametrize(
    ("weight", "bet", "safe"), [(0.2, 3.6, 3.0), (1, 2.0, 5.0), (2, 0.0, 7.5), (10, -16.0, 27.5)]
)
def test_what_the_bet_and_the_safe_word_are_worth(weight: float, bet: float, safe: float):
    assert (value(BET, weight), value(SAFE, weight)) == pytest.approx((bet, safe))
    pairs = list(itertools.product(BET, repeat=2))
    better, worse = (sum(of(pair) for pair in pairs) / len(pairs) for of in (max, min))
    assert better / 2 + weight * worse / 2 == pytest.approx(bet)


def risky(logits: np.ndarray) -> Game:
    """All episodes of `risky` between two tables, (A, 1, W)."""
    played = (
        Played(np.array(words)[:, None], np.array(paid)[:, None], 1 / len(cell))
        for words in np.ndindex(RISKY.shape)
        for cell in [RISKY.cells[words[0]][words[1]]]
        for paid in cell
    )
    return Game(logits, tuple(played))


@pytest.mark.parametrize(("weight", "ends"), [(0.2, 1), (2.0, 0), (10.0, 0)])
def test_where_the_exact_expectation_of_its_updates_ends(weight: float, ends: int):
    """From tables that are nearly even: at the bet with 0.2, at the safe word above 1."""
    algorithm = partial(algorithm_of, {"name": "hysteretic", "weight": weight})
    for seed in range(3):
        logits = np.random.default_rng(seed).normal(0.0, NOISE, (2, 1, 3))
        for _ in range(150):
            logits = logits + 0.4 * expected(risky(logits), 2, algorithm)
        assert (softmax(logits)[:, 0, ends] > 0.9).all()
