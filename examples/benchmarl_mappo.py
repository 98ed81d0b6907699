"""BenchMARL: MAPPO teaches two seats that choose messages."""

from __future__ import annotations

from tempfile import mkdtemp
from typing import Any

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

from llm_marl_envs import make
from llm_marl_envs.bridges.benchmarl import TextTask
from llm_marl_envs.wrappers import Choose


def env() -> Any:
    """Both seats; observations are 256 numbers, masks of possible messages are in the infos."""
    return Choose(make("coop_writing_tldr-v0"), mask="info")


class Curve(Callback):
    """The mean reward of each batch; an episode has one turn."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: list[float] = []

    def on_batch_collected(self, batch: Any) -> None:
        """BenchMARL calls it."""
        self.curve.append(batch["next", "agents", "reward"].mean().item())


def train(seed: int) -> list[float]:
    """Mean returns, one per batch of 200 steps."""
    settings = ExperimentConfig.get_from_yaml()
    settings.max_n_iters, settings.max_n_frames, settings.lr = 10, None, 3e-3
    settings.on_policy_collected_frames_per_batch, settings.on_policy_n_envs_per_worker = 200, 2
    settings.on_policy_minibatch_size, settings.on_policy_n_minibatch_iters = 100, 6
    settings.evaluation, settings.loggers, settings.create_json = False, [], False
    settings.save_folder = mkdtemp()
    network = MlpConfig(num_cells=[64], activation_class=torch.nn.Tanh, layer_class=torch.nn.Linear)
    curve = Curve()
    Experiment(
        task=TextTask("tldr", env),
        algorithm_config=MappoConfig.get_from_yaml(),
        model_config=network,
        critic_model_config=network,
        seed=seed,
        config=settings,
        callbacks=[curve],
    ).run()
    return curve.curve


if __name__ == "__main__":
    print(train(seed=0))
