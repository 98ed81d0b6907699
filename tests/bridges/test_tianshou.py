"""What docs/bridges/tianshou.md says, with Tianshou."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tianshou", reason="make test-bridges installs it")

import gymnasium
import torch
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.env import DummyVectorEnv, PettingZooEnv, SubprocVectorEnv

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, GymSeat, Partners


def debater() -> GymSeat:
    team = {"debater_1": "expert:colours", "debater_2": "expert:colours"}
    return GymSeat(Choose(Partners(make("debate-v0"), team)))


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_copies_pay_as_one_environment_does(kind: Any):
    copies = kind([debater] * 2)
    copies.seed(3)
    copies.reset()
    paid = np.array([copies.step(np.array([0, 1]))[1] for _ in range(2)]).sum(0)
    copies.close()
    for number, choice in enumerate((0, 1)):
        env = debater()
        env.reset(seed=3 + number)
        env.reset()
        assert paid[number] == sum(env.step(choice)[1] for _ in range(2))


@pytest.mark.parametrize("mask", [None, "observation"])
def test_its_pettingzoo_form_carries_masks(mask: Any):
    env = PettingZooEnv(Choose(make("debate-v0"), mask=mask))
    masks = []
    for seed in range(10):
        seen, _ = env.reset(seed=seed)
        assert seen["agent_id"] == "debater_0"
        assert seen["obs"].shape == (256,)
        masks.append(all(seen["mask"]))
    assert all(masks) == (mask is None)  # masks come from observations alone


def test_rewards_come_at_the_last_speaker():
    env = PettingZooEnv(Choose(make("debate-v0")))
    own: dict[str, float] = dict.fromkeys(env.agents, 0.0)
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            speaker = seen["agent_id"]
            seen, rewards, ended, _, _ = env.step(0)
            own[speaker] += rewards[env.agent_idx[speaker]]
    assert own["debater_2"] > 0
    assert own["debater_0"] == own["debater_1"] == 0


def test_errors_of_the_page():
    space = gymnasium.spaces.Discrete(2)
    with pytest.raises(ValueError, match="action_scaling can only be True"):
        ProbabilisticActorPolicy(
            actor=torch.nn.Linear(1, 2), dist_fn=torch.distributions.Categorical, action_space=space
        )
    text = GymSeat(make("debate-v0", single_seat=True)).action_space
    with pytest.raises(ValueError, match="must be an instance of Discrete"):
        DiscreteActorPolicy(actor=torch.nn.Linear(1, 2), action_space=text)
