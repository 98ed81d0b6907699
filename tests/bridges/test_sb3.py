"""What docs/bridges/sb3.md says, with Stable-Baselines3 and sb3-contrib."""
# pyright: reportMissingImports=false

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="make test-bridges installs it")

from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, GymSeat, Partners, Tokenize

TEAM = {"debater_1": "expert", "debater_2": "expert"}


def debater(*, text: bool = False, tokens: bool = False, **choices: Any) -> GymSeat:
    env = Partners(make("debate-v0"), TEAM)
    if text:
        return GymSeat(env)
    return GymSeat(Tokenize(env, 32, 4) if tokens else Choose(env, **choices))


@pytest.mark.parametrize(
    "seat",
    [debater, partial(debater, tokens=True), partial(debater, mask="observation")],
    ids=["choices", "tokens", "masks observed"],
)
def test_its_own_checker_passes(seat: Any):
    check_env(seat(), warn=False)


def test_masked_numbers_are_never_chosen():
    model = MaskablePPO("MlpPolicy", make_vec_env(debater, 2, seed=0), n_steps=64, seed=0)
    model.learn(128)
    chosen = model.rollout_buffer.actions.astype(int)[..., 0]
    masks = model.rollout_buffer.action_masks.reshape(*chosen.shape, -1)
    assert (masks == 0).any()  # so that there was something to avoid
    assert np.take_along_axis(masks, chosen[..., None], -1).all()


def test_a_seed_repeats_the_training():
    def weights() -> bytes:
        copies = make_vec_env(debater, 2, seed=1)
        model = PPO("MlpPolicy", copies, n_steps=16, batch_size=16, seed=1).learn(64)
        return pickle.dumps([value.detach().numpy() for value in model.policy.parameters()])

    assert weights() == weights()


def test_processes_of_their_own():
    copies = make_vec_env(debater, 2, seed=0, vec_env_cls=SubprocVecEnv)
    there = [copies.reset(), *copies.step(np.array([0, 0]))[:2]]
    copies.close()
    copies = make_vec_env(debater, 2, seed=0)
    here = [copies.reset(), *copies.step(np.array([0, 0]))[:2]]
    assert all((a == b).all() for a, b in zip(there, here, strict=True))


def test_errors_of_the_page():
    with pytest.raises(ValueError, match="not a Gymnasium environment"):
        PPO("MlpPolicy", make("debate-v0", single_seat=True))
    with pytest.raises(TypeError, match="NoneType"):
        PPO("MlpPolicy", debater(text=True))
    with pytest.raises(AttributeError, match="Tokenize has no action masks; Choose has"):
        MaskablePPO("MlpPolicy", debater(tokens=True), n_steps=8).learn(8)
    with pytest.raises(ValueError, match="You must use `MultiInputPolicy`"):
        PPO("MlpPolicy", debater(mask="observation"))
