"""Stable-Baselines3: PPO learns one seat; the other is played by a scripted partner."""

from __future__ import annotations

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, GymSeat, Partners


def seat() -> GymSeat:
    """The seat `brief_0`: observations are 256 numbers, actions choose one of three messages."""
    env = Partners(make("coop_writing_tldr-v0"), {"detailed_0": "expert:last"})
    return GymSeat(Choose(env))


class Curve(BaseCallback):
    """The mean return of the last 100 episodes, after each rollout."""

    def _on_training_start(self) -> None:
        self.curve: list[float] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        recent = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        self.curve.append(sum(recent) / len(recent))


def train(seed: int) -> list[float]:
    """Mean returns, one per rollout of 200 steps."""
    curve = Curve()
    settings = {"n_steps": 50, "batch_size": 50, "n_epochs": 6, "learning_rate": 3e-3}
    model = PPO("MlpPolicy", make_vec_env(seat, 4, seed=seed), seed=seed, device="cpu", **settings)
    model.learn(3000, callback=curve)
    return curve.curve


if __name__ == "__main__":
    print(train(seed=0))
