"""What docs/bridges/rllib.md says, with RLlib."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray.rllib", reason="make test-bridges installs it")

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from ray.tune.registry import register_env

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, Partners

ID = "coop_writing_tldr-v0"


@pytest.mark.parametrize("mask", [None, "info", "observation"])
def test_its_form_pays_as_the_environment_does(mask: Any):
    env, alone = ParallelPettingZooEnv(Choose(make(ID), mask=mask)), Choose(make(ID))
    env.reset(seed=4)
    alone.reset(seed=4)
    actions = {"brief_0": 0, "detailed_0": 0}
    _, rewards, ended, _, _ = env.step(actions)
    assert rewards == alone.step(actions)[1]
    assert ended["__all__"]


def test_turns():
    env = PettingZooEnv(Choose(make("debate-v0")))
    seen, _ = env.reset(seed=0)
    speakers, paid = [], {}
    while True:
        (speaker,) = [agent for agent in seen if agent in env.env.agents]
        speakers.append(speaker)
        seen, rewards, ended, cut, _ = env.step({speaker: 0})
        for agent, reward in rewards.items():
            paid[agent] = paid.get(agent, 0.0) + reward
        if ended["__all__"] or cut["__all__"]:
            break
    assert speakers == ["debater_0", "debater_1", "debater_2"] * 2
    assert len(set(paid.values())) == 1
    alone = Partners(make("debate-v0"), {"debater_1": "expert", "debater_2": "expert"})
    assert ParallelPettingZooEnv(Choose(alone)).possible_agents == ["debater_0"]


@pytest.mark.usefixtures("own_registry")  # RLlib adds its environments to Gymnasium's
def test_text_has_no_network():
    register_env("text", lambda _: ParallelPettingZooEnv(make(ID)))
    config = PPOConfig().environment("text").env_runners(num_env_runners=0)
    config = config.multi_agent(
        policies={"brief_0", "detailed_0"}, policy_mapping_fn=lambda agent, *_, **__: agent
    )
    with pytest.raises(ValueError, match="No default encoder config for obs space=TextSpace"):
        config.build_algo()
