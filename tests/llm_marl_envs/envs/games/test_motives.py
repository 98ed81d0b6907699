"""Mixed motives: optimum, equilibria, best responses, fear and greed, by hand and by trying all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.envs.games.matrix_rules import GAMES
from llm_marl_envs.envs.games.motives import (
    Dilemma,
    best_joints,
    best_response,
    dilemma,
    pays_of,
    pure_equilibria,
)
from llm_marl_envs.envs.games.share_experts import PLANS, meeting
from llm_marl_envs.envs.games.shares import Rules


def goods(plans: Sequence[int]) -> list[float]:
    """Three seats give 0 or 1; what is given is doubled and shared."""
    return [2 * sum(plans) / 3 - own for own in plans]


def test_a_public_good_by_hand():
    pays = pays_of(goods, [0, 1], 3)
    assert pays.shape == (3, 2, 2, 2)
    assert best_joints(pays) == [(1, 1, 1)]
    assert pure_equilibria(pays) == [(0, 0, 0)]
    one = dilemma(goods, 3, keeps=1, breaks=0)
    paid = (one.reward, one.temptation, one.sucker, one.punishment)
    assert paid == pytest.approx((1, 4 / 3, -1 / 3, 0))
    assert (one.greed, one.fear) == pytest.approx((1 / 3, 1 / 3))
    number, pay = best_response(pays, 1, [(0.5, 0.5), (0.0, 1.0)])
    assert (number, pay) == (0, pytest.approx(2 * 1.5 / 3))
    with pytest.raises(ValueError, match="other"):
        best_response(pays, 0, [(0.5, 0.6), (1.0, 0.0)])


def test_equilibria_of_four_seats_are_what_trying_every_change_gives():
    rng = np.random.default_rng(0)
    for _ in range(20):
        pays = rng.integers(0, 4, (4, 2, 3, 2, 2)).astype(float)
        stable = []
        for joint in product(*map(range, pays.shape[1:])):
            gains = [
                pays[(seat, *joint[:seat], own, *joint[seat + 1 :])] > pays[(seat, *joint)]
                for seat, count in enumerate(pays.shape[1:])
                for own in range(count)
            ]
            stable += [] if any(gains) else [joint]
        assert pure_equilibria(pays) == stable


def test_the_table_of_a_matrix_game_is_its_pays():
    game = GAMES["prisoners_dilemma"].expected
    one = dilemma(lambda plans: game[:, plans[0], plans[1]].tolist(), 2, keeps=0, breaks=1)
    assert one == Dilemma(reward=3, temptation=5, sucker=0, punishment=1)
    assert (one.greed, one.fear) == (2, 1)
    hunt = GAMES["stag_hunt"].expected
    one = dilemma(lambda plans: hunt[:, plans[0], plans[1]].tolist(), 2, keeps=0, breaks=1)
    assert (one.greed, one.fear) == (-1, 2)  # nobody is greedy, but all may fear


def test_plans_of_trust_split_are_a_dilemma_of_fear_and_greed():
    task = make("trust_split-v0").source[0]
    pays = pays_of(lambda plans: meeting(task, plans, Rules()), PLANS, 2)
    one = dilemma(lambda plans: meeting(task, plans, Rules()), 2, "honest", "taker")
    assert one == Dilemma(pays[0, 0, 0], pays[0, 3, 0], pays[0, 0, 3], pays[0, 3, 3])
    assert one.greed > 0
    assert one.fear == pytest.approx(0.25)
    tasks = [make("trust_split-v0", split="test").source[i] for i in range(100)]
    both = [
        dilemma(lambda plans, t=t: meeting(t, plans, Rules()), 2, "honest", "taker", seat)
        for t in tasks
        for seat in (0, 1)
    ]
    for reason, shown in (("greed", "gains 0.321"), ("fear", "saves 0.250")):
        assert f"{np.mean([getattr(one, reason) for one in both]):.3f}" in shown
        assert shown in measured("trust_split")
    names = [tuple(PLANS[number] for number in joint) for joint in pure_equilibria(pays)]
    assert ("taker", "taker") in names
    assert ("honest", "honest") not in names
