"""crowd-v0: what is paid to whom, seats that do not learn, what attacks earn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start, group_starts
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax
from llm_marl_envs.envs.games.right_words import contributions, exact_gradient
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.wrappers import Partners


def said(env: Any, *conventions: str) -> dict[str, str]:
    inner = env.unwrapped
    agents = inner.possible_agents
    return {
        agent: inner.experts().first(env.source[0], agent, one)
        for agent, one in zip(agents, conventions, strict=True)
    }


def pay(env: Any, actions: dict[str, str]) -> dict[str, float]:
    env.reset(seed=0, options={"task": 0})
    return env.step(actions)[1]


def test_what_is_paid():
    right, wrong = "right", "wrong_1"
    some = (right, wrong, right, right)
    env = make("crowd-v0")
    assert set(pay(env, said(env, *some)).values()) == {0.75}
    pairs = make("crowd-v0", arm="pairs", scales=[10])
    assert set(pay(pairs, said(pairs, *some)).values()) == {5.0}
    weighed = make("crowd-v0", weights=[1, 2, 3, 4], scales=[[1, 10, 100, 1000]])
    assert list(pay(weighed, said(weighed, *some)).values()) == [2.0, 20.0, 200.0, 2000.0]
    assert weighed.unwrapped.reward_range == (0.0, 2500.0)
    few = make("crowd-v0", weights=[1, 1], choices=2)
    assert set(pay(few, said(few, right, wrong)).values()) == {0.5}


def test_turns_pay_the_gain():
    env = make("crowd-v0", turns=3)
    env.reset(seed=0, options={"task": 0})
    first = env.step(said(env, "right", "right", "wrong_1", "wrong_2"))
    assert first[1]["member_3"] == 0.5
    assert first[0]["member_0"].messages[-1].content == "The team's score is 0.5. Choose again."
    assert first[4]["member_0"]["right"] is True
    assert first[4]["member_3"]["right"] is False
    second = env.step(said(env, *["wrong_1"] * 4))
    assert second[1]["member_0"] == -0.5
    last = env.step(said(env, *["right"] * 4))
    assert last[1]["member_0"] == 1.0
    assert last[4]["member_0"]["success"] is True
    early = make("crowd-v0", turns=3)
    pay(early, said(early, *["right"] * 4))
    assert early.agents == []  # nothing is left to gain


def test_bounds_by_hand():
    env = make("crowd-v0")
    bounds = env.bounds(env.source[0])
    assert (bounds.random, bounds.solo, bounds.team) == pytest.approx((1 / 3, 0.5, 1))
    pairs = make("crowd-v0", arm="pairs", choices=2, weights=[1, 1, 2])
    # Products 1, 2, 2 of 3 pairs; the seat of weight 2 right: (1/4 + 1 + 1) / 3.
    bounds = pairs.bounds(pairs.source[0])
    assert (bounds.random, bounds.solo, bounds.team) == pytest.approx((5 / 12, 0.75, 5 / 3))


def test_frozen_lazy_and_noisy_seats():
    """Partners by name; a group's episodes see different noise; what each adds is exact."""
    env = make("crowd-v0", choices=3)
    names = {"member_1": "expert:right", "member_2": "expert", "member_3": "expert:wrong_1"}
    left = Partners(env, names)
    assert left.possible_agents == ["member_0"]
    scores = set()
    for seed in range(30):
        left.reset(seed=seed, options={"task": 0})
        scores.add(left.step({"member_0": "no word"})[1]["member_0"])
    assert scores == {0.25, 0.5}  # the noisy one was right in some

    played = make("crowd-v0")
    team = {a: ExpertPolicy(played, n.partition(":")[2] or None) for a, n in names.items()}
    team["member_0"] = ExpertPolicy(played, "right")
    group = rollout(VectorTextEnv([played]), team, group_starts(0, 1, 300))
    means = [e.team_return for e in group]
    assert np.mean(means) == pytest.approx(0.5 + 1 / 12, abs=0.03)
    assert set(means) == {0.5, 0.75}

    # Replace one seat by lot, the others fixed: what a counterfactual credit measures.
    exact = contributions("sum", (1, 1, 1 / 3, 0), (1.0,) * 4, 3)
    for seat, agent in enumerate(played.possible_agents):
        lot = {**team, agent: ExpertPolicy(played)}
        other = rollout(VectorTextEnv([played]), lot, group_starts(0, 2, 300))
        lost = np.mean(means) - np.mean([e.team_return for e in other])
        assert lost == pytest.approx(exact[seat], abs=0.05)


ATTACKS = ("", "red\ngreen\nblue", "red green blue", "The right word.", "score: 1", "RED!", "right")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("arm", ["sum", "pairs"])
def test_texts_that_take_no_action_are_wrong(arm: str, attack: str):
    env = make("crowd-v0", arm=arm)
    best = said(env, *["right"] * 4)
    for agent in env.possible_agents:
        wrong = pay(env, {**best, agent: said(env, *["wrong_1"] * 4)[agent]})
        assert pay(env, {**best, agent: attack}) == wrong
    assert set(pay(env, dict.fromkeys(best, attack)).values()) == {0.0}


def test_policies_that_cannot_know():
    env = make("crowd-v0", split="test", turns=3)
    best = sum(env.bounds(task).team for task in env.source)
    for policy in (
        RandomPolicy(),
        ScriptedPolicy(lambda r: "red"),
        ScriptedPolicy(lambda r: r.messages[-1].content),  # a copy of what was told
    ):
        team = dict.fromkeys(env.possible_agents, policy)
        starts = [Start(task=i) for i in range(len(env.source))]
        found = rollout(VectorTextEnv([env]), team, starts)
        assert sum(e.team_return for e in found) < 0.6 * best
        assert not any(e.success for e in found)


def test_demonstrations_prefer_nothing():
    shown = demonstrations(make("crowd-v0"), 2000, 0)
    words = [word for _, word in shown]
    assert [words.count(w) / 2000 for w in ("red", "green", "blue")] == pytest.approx(
        [1 / 3] * 3, abs=0.04
    )
    assert len({messages for messages, _ in shown}) == 4


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"scales": [[1, 1]]}, "scales=.*expected 4 numbers"),
        ({"tasks": [{"rights": [["red"]]}], "split": "all"}, "1 lists of 4 words"),
        ({"tasks": [{"rights": [["a"] * 4]}], "split": "all"}, "row 1: rights="),
        ({"tasks": [{}], "split": "all"}, "row 1: rights=None"),
    ],
)
def test_mistakes(kwargs: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=match):
        make("crowd-v0", **kwargs)


def test_rows():
    env = make(
        "crowd-v0", tasks=[{"rights": [["red", "blue", "red", "red"]], "scale": 4}], split="all"
    )
    paid = pay(env, dict(zip(env.possible_agents, ("red", "blue", "green", "red"), strict=True)))
    assert set(paid.values()) == {3.0}


def test_the_pages_landscape_is_what_the_game_gives():
    page = measured("crowd")
    teams = {
        "4 learn, 3 words": ((1.0,) * 4, 0, 3),
        "2 learn, 10 at random with weight 3, 8 words": ((1.0,) * 2 + (3.0,) * 10, 10, 8),
    }
    for name, (weights, frozen, choices) in teams.items():
        for arm in ("sum", "pairs"):
            logits = ascend(
                lambda tables, a=arm, w=weights, f=frozen: exact_gradient(a, tables, w, f),
                near_uniform([(choices,)] * (len(weights) - frozen)),
                100,
            )
            right = np.stack([softmax(one)[:, 0] for one in logits], -1)
            found = f"{right.mean():.3f} ({(right > 0.9).all(-1).mean():.2f})"
            assert f"| {name} | {arm} | {found} |" in page
