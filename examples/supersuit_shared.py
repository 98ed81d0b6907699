"""SuperSuit: every seat is a row of a vector environment, and one network of PPO plays them all."""

from __future__ import annotations

import supersuit
from stable_baselines3 import PPO
from stable_baselines3.common.utils import set_random_seed

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose


def train(seed: int) -> list[float]:
    """Mean team rewards, one number per rollout of 100 episodes."""
    env = supersuit.agent_indicator_v0(Choose(make("coop_writing_tldr-v0")))
    rows = supersuit.pettingzoo_env_to_vec_env_v1(env)
    rows = supersuit.concat_vec_envs_v1(rows, 2, base_class="stable_baselines3")
    set_random_seed(seed)  # PPO(seed=) fails: these environments take a seed at reset alone
    rows.venv.reset(seed=seed)
    settings = {"n_steps": 50, "batch_size": 50, "n_epochs": 10, "learning_rate": 3e-3}
    settings["target_kl"] = 0.05  # without it one of 25 runs forgot what it had learned
    model = PPO("MlpPolicy", rows, device="cpu", **settings)
    curve = []
    for _ in range(16):
        model.learn(200, reset_num_timesteps=False)
        curve.append(float(model.rollout_buffer.rewards.mean()))
    return curve


if __name__ == "__main__":
    print(train(seed=0))
