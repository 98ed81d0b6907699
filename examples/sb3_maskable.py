"""sb3-contrib: MaskablePPO learns one seat of a debate, and chooses among what the task allows."""

from __future__ import annotations

from statistics import mean

from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, GymSeat, Partners


def seat() -> GymSeat:
    """The seat `debater_0`, which has two turns; `action_masks()` is what MaskablePPO asks for."""
    team = {"debater_1": "expert:colours", "debater_2": "expert:colours"}
    return GymSeat(Choose(Partners(make("debate-v0"), team)))


def train(seed: int) -> list[float]:
    """Mean returns of the last 100 episodes, one number per rollout of 100 turns."""
    settings = {"n_steps": 25, "batch_size": 50, "n_epochs": 6, "learning_rate": 3e-3}
    copies = make_vec_env(seat, 4, seed=seed)
    model = MaskablePPO("MlpPolicy", copies, seed=seed, device="cpu", **settings)
    curve = []
    for _ in range(12):
        model.learn(100, reset_num_timesteps=False)
        curve.append(mean(episode["r"] for episode in model.ep_info_buffer or ()))
    return curve


if __name__ == "__main__":
    print(train(seed=0))
