"""regime-v0: the coin, what is paid when, what attacks earn."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.core.records import Branch, Episode
from llm_marl_envs.core.seeds import Start, branch_start, group_starts
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax
from llm_marl_envs.envs.games.right_words import exact_gradient
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy


def episodes(env: Any, policy: Policy, starts: list[Start]) -> list[Episode]:
    return rollout(VectorTextEnv([env]), dict.fromkeys(env.possible_agents, policy), starts)


def high(episode: Episode) -> bool:
    return bool(episode.turns[0].info["regime"])


def test_the_coin_is_the_groups_or_each_episodes_and_a_branch_keeps_it():
    env = make("regime-v0")
    shared = episodes(env, ExpertPolicy(env, "right"), group_starts(0, 5, 8))
    assert len({high(one) for one in shared}) == 1
    starts = group_starts(0, 5, 200, "episode")
    group = episodes(env, ExpertPolicy(env, "right"), starts)
    returns = [one.undiscounted_return("member_0") for one in group]
    assert set(returns) == {3.0, 8.0}
    assert 70 <= returns.count(8.0) <= 130
    assert [high(one) for one in group] == [paid == 8.0 for paid in returns]
    again = [replay(one) for one in group[:20]]
    assert [one.undiscounted_return("member_0") for one in again] == returns[:20]
    branched = episodes(
        env,
        ExpertPolicy(env, "wrong_1"),
        [
            branch_start(
                start, one, Branch(parent=0, agent="member_0", turn=1), number, chance="episode"
            )
            for number, (start, one) in enumerate(zip(starts[:20], group[:20], strict=True))
        ],
    )
    assert [high(one) for one in branched] == [high(one) for one in group[:20]]
    assert {one.undiscounted_return("member_0") for one in branched} == {1.0, 6.0}


def test_what_is_said_and_paid_at_each_turn():
    env = make("regime-v0", scales=[2], bonus=3)
    for seed in range(6):
        env.reset(seed=seed, options={"task": 0})
        rights = [{a: env.experts().first(env.source[0], a, "right") for a in env.possible_agents}]
        seen, rewards, _, _, infos = env.step(rights[0])
        told = seen["member_1"].messages[-1].content
        fell = infos["member_1"]["regime"]
        assert told == (
            "The coin fell high: at the end 6 is added. Turn 2 of 3."
            if fell
            else "The coin fell low: at the end nothing is added. Turn 2 of 3."
        )
        assert rewards == {"member_0": 2.0, "member_1": 2.0}
        seen, rewards, _, _, infos = env.step({"member_0": "nothing", "member_1": ""})
        assert seen["member_0"].messages[-1].content == "Turn 3 of 3."
        assert rewards["member_0"] == 0
        assert infos["member_0"]["readable"] is infos["member_0"]["success"] is False
        env.step({"member_0": "", "member_1": ""})
        # Read at the last turn, the coin is paid whatever was said.
        env.reset(seed=seed, options={"task": 0})
        for _ in range(3):
            rewards, infos = env.step({"member_0": "", "member_1": ""})[1::3]
        assert rewards["member_0"] == 6.0 * infos["member_0"]["regime"]
        assert infos["member_0"]["reward_terms"] == {"right": 0, "regime": rewards["member_0"]}
        assert infos["member_0"]["regime"] == fell  # the reset seed decides it, too


def test_every_turn_has_words_of_its_own():
    env = make("regime-v0", choices=8, turns=4, n_agents=3)
    task = env.source[0]
    assert len(task.data["rights"]) == 4
    assert len(set(task.data["rights"])) > 1
    right = episodes(env, ExpertPolicy(env, "right"), [Start(task=0)])[0]
    assert right.success is True
    assert [t.reward_terms["right"] for t in right.trajectory("member_2")] == [1.0] * 4
    wrong = episodes(env, ExpertPolicy(env, "wrong_3"), [Start(task=0)])[0]
    assert [t.reward_terms["right"] for t in wrong.turns] == [0.0] * 12


def test_bounds_by_hand():
    env = make("regime-v0", bonus=4, choices=4)
    bounds = env.bounds(env.source[0])
    assert (bounds.random, bounds.solo, bounds.team) == pytest.approx((2.75, 3.875, 5.0))
    assert env.unwrapped.reward_range == (0.0, 7.0)


@pytest.mark.parametrize(
    "attack", ["", "red\nblue", "red blue green", "high", "Turn 3 of 3.", "RED."]
)
def test_no_text_moves_the_coin_or_earns_without_a_word(attack: str):
    env = make("regime-v0")
    starts = [Start(task=0, seed=i) for i in range(20)]
    silent = episodes(env, ScriptedPolicy(lambda r: ""), starts)
    found = episodes(env, ScriptedPolicy(lambda r: attack), starts)
    assert [e.team_return for e in found] == [e.team_return for e in silent]
    assert {e.team_return for e in silent} == {0.0, 5.0}


def test_policies_that_cannot_know():
    env = make("regime-v0", split="ood", bonus=0)
    best = sum(env.bounds(task).team for task in env.source)
    starts = [Start(task=i) for i in range(len(env.source))]
    for policy in (
        RandomPolicy(),
        ScriptedPolicy(lambda r: "blue"),
        ScriptedPolicy(lambda r: r.messages[-1].content),
    ):
        found = episodes(env, policy, starts)
        assert sum(e.team_return for e in found) < 0.6 * best


def test_rows_of_another_size_are_refused():
    with pytest.raises(ValueError, match="3 lists of 2 words"):
        make("regime-v0", tasks=[{"rights": [["red", "red"]]}], split="all")


def test_the_pages_landscape_is_what_the_game_gives():
    page = " ".join(measured("regime").split())
    found = []
    for choices in (3, 5):
        starts = near_uniform([(choices,)] * 2)
        logits = ascend(lambda tables: exact_gradient("sum", tables, (1.0, 1.0)), starts, 120)
        right = np.stack([softmax(one)[:, 0] for one in logits])
        assert right.min() > 0.98
        found.append(f"{right.mean():.3f}")
    assert "right with probability {} of three words and {} of five after".format(*found) in page
    for bonus in (0, 2, 5, 10):
        coin, lots = bonus**2 / 4, (3 * 1 / 3 * 2 / 3 / 2, 3 * 1 / 5 * 4 / 5 / 2)
        shares = " | ".join(f"{coin / (coin + words):.3f}" for words in lots)
        assert f"| {bonus} | {shares} |" in page


def test_the_coins_share_is_that_of_sampled_episodes():
    env = make("regime-v0", choices=5, bonus=2)
    lot = ScriptedPolicy(lambda r: random.Random(r.seed).choice(env.experts().legal(r, r.agent)))
    found = episodes(env, lot, group_starts(0, 0, 800, "episode"))
    returns = np.array([one.team_return for one in found])
    coins = np.array([high(one) for one in found])
    within = np.mean([returns[coins].var(), returns[~coins].var()])
    assert 1 - within / returns.var() == pytest.approx(0.806, abs=0.04)
