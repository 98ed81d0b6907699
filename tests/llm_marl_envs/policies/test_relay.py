from __future__ import annotations

from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.named import Context, named_policy, named_team
from llm_marl_envs.policies.relay import Relay, make_relay


def says(word: str) -> ScriptedPolicy:
    return ScriptedPolicy(lambda request: f"{word} {request.turn}")


class Seated(ScriptedPolicy):
    def __init__(self, *seats: str) -> None:
        super().__init__(lambda request: "")
        self.seats = seats


def test_a_seat_goes_from_one_policy_to_another() -> None:
    env = make("collab_maze-v0", rounds=2)
    team = {"walker_0": Relay(says("strong"), says("weak"), 3), "walker_1": says("other")}
    starts = [Start(task=0, seed=0), Start(task=1, seed=1)]
    for episode in rollout(VectorTextEnv([env, make("collab_maze-v0", rounds=2)]), team, starts):
        actions = [turn.action for turn in episode.turns if turn.agent == "walker_0"]
        assert actions == ["strong 0", "strong 1", "strong 2", "weak 3"]
        last = [turn for turn in episode.turns if turn.agent == "walker_0"][-1]
        assert [m.content for m in last.messages if m.role == "assistant"] == actions[:3]


def test_a_relay_by_name() -> None:
    context: Any = Context(env=make("collab_maze-v0"))
    relay = make_relay("1:expert:first,expert:last", context)
    assert isinstance(relay, Policy)
    assert getattr(relay, "identity", "") == "relay:1:expert:first,expert:last"
    assert isinstance(named_policy("relay:2:random,expert", context), Relay)
    assert set(named_team("relay:1:expert:first,random", context).seats) == {"walker_0", "walker_1"}


def test_a_relay_plays_the_seats_that_both_play() -> None:
    assert Relay(says("a"), says("b"), 1).seats is None
    assert Relay(says("a"), Seated("walker_1"), 1).seats == ("walker_1",)
    both = Relay(Seated("walker_0", "walker_1"), Seated("walker_1", "walker_2"), 1)
    assert both.seats == ("walker_1",)


@pytest.mark.parametrize(
    "argument", ["", "2", "2:expert", "x:expert,random", "1:expert,", "-1:expert,random", "1:a,b,c"]
)
def test_other_forms_are_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="expected relay:K:FIRST,THEN"):
        make_relay(argument, Context(env=make("collab_maze-v0")))


def test_the_first_policy_takes_an_action_at_least() -> None:
    with pytest.raises(ValueError, match="after=0"):
        Relay(says("a"), says("b"), 0)
