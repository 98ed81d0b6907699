"""RLlib: PPO with a network per seat; both seats learn."""

from __future__ import annotations

from typing import Any

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose


def team(_: dict[str, Any]) -> ParallelPettingZooEnv:
    """Both authors; observations are 256 numbers, actions choose one of three messages."""
    return ParallelPettingZooEnv(Choose(make("coop_writing_tldr-v0")))


def train(seed: int) -> list[float]:
    """Mean rewards of the team, one number per iteration of 200 episodes."""
    register_env("team", team)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    config = (
        PPOConfig()
        .environment("team")
        .env_runners(num_env_runners=0)
        .multi_agent(
            policies={"brief_0", "detailed_0"},
            policy_mapping_fn=lambda agent, episode, **_: agent,
        )
        .training(train_batch_size_per_learner=200, minibatch_size=50, num_epochs=8, lr=2e-3)
        .training(clip_param=0.2, use_kl_loss=False)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64], vf_share_layers=False))
        .reporting(metrics_num_episodes_for_smoothing=200)
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    try:
        runs = [algorithm.train()["env_runners"] for _ in range(11)]
    finally:
        algorithm.stop()
        ray.shutdown()
    return [run["agent_episode_returns_mean"]["brief_0"] for run in runs]


if __name__ == "__main__":
    print(train(seed=0))
