"""AgileRL: IPPO teaches both seats; the environments run in processes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np
import torch
from agilerl.algorithms import IPPO
from agilerl.training.train_multi_agent_on_policy import train_multi_agent_on_policy
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv
from pettingzoo import ParallelEnv

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose


def team() -> ParallelEnv:
    """Both authors; observations are 256 numbers, actions choose one of three messages."""
    return Choose(make("coop_writing_tldr-v0"))


class Recorded(IPPO):
    """IPPO that keeps its curve: the training of AgileRL reports one number, the last."""

    def add_scores(self, scores: Sequence[float]) -> None:
        """Keep the mean reward of a seat; scores are sums over the two."""
        self.curve = [*getattr(self, "curve", []), mean(scores) / 2]
        super().add_scores(scores)


def train(seed: int) -> list[float]:
    """Mean team rewards, one number per 200 episodes."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what AgileRL draws its mini-batches from
    copies = AsyncPettingZooVecEnv([team] * 2)
    copies.reset(seed=seed)
    env = team()
    ippo = Recorded(
        [env.observation_space(agent) for agent in env.possible_agents],
        [env.action_space(agent) for agent in env.possible_agents],
        env.possible_agents,
        net_config={"encoder_config": {"hidden_size": [64]}},
        learn_step=100,
        batch_size=50,
        update_epochs=6,
        lr=3e-3,
        gamma=0.0,  # one turn per episode, and AgileRL's returns run on past the end
    )
    train_multi_agent_on_policy(
        copies, "coop_writing_tldr-v0", "IPPO", [ippo], max_steps=3600, evo_steps=200, verbose=False
    )
    return ippo.curve


if __name__ == "__main__":
    print(train(seed=0))
