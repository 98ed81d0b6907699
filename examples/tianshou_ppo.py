"""Tianshou: PPO learns one seat; the other is played by a scripted partner."""

from __future__ import annotations

import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, GymSeat, Partners


def seat() -> GymSeat:
    """The seat `brief_0`: observations are 256 numbers, actions choose one of three messages."""
    env = Partners(make("coop_writing_tldr-v0"), {"detailed_0": "expert:last"})
    return GymSeat(Choose(env))


def learner() -> PPO:
    """PPO with two networks of 64 units."""
    space = seat().action_space
    body = {"state_shape": seat().observation_space.shape, "hidden_sizes": [64]}
    actor = DiscreteActor(preprocess_net=Net(**body), action_shape=space.n, softmax_output=False)
    policy = DiscreteActorPolicy(actor=actor, action_space=space)
    critic = DiscreteCritic(preprocess_net=Net(**body))
    return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=3e-3), gamma=1.0)


def train(seed: int) -> list[float]:
    """Mean returns, one number per 200 episodes."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what Tianshou draws its mini-batches from
    ppo, copies = learner(), DummyVectorEnv([seat] * 4)
    copies.seed(seed)
    collector = Collector(ppo, copies, VectorReplayBuffer(400, 4))
    collector.reset()
    curve = []
    for _ in range(14):
        with policy_within_training_step(ppo.policy):
            curve.append(float(collector.collect(n_step=200).returns.mean()))
            ppo.update(collector.buffer, batch_size=50, repeat=6)
        collector.reset_buffer(keep_statistics=True)
    return curve


if __name__ == "__main__":
    print(train(seed=0))
