"""What docs/bridges/supersuit.md says, with SuperSuit."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("supersuit", reason="make test-bridges installs it")

import supersuit
from gymnasium.error import CustomSpaceError
from stable_baselines3 import PPO

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose, Partners, Tokenize

FORMS: dict[str, Callable[..., Any]] = {"Choose": Choose, "Tokenize": Tokenize}
WORK: dict[str, Callable[[Any], Any]] = {
    "agent_indicator_v0": supersuit.agent_indicator_v0,
    "clip_reward_v0": supersuit.clip_reward_v0,
    "delay_observations_v0": lambda env: supersuit.delay_observations_v0(env, 1),
    "dtype_v0": lambda env: supersuit.dtype_v0(env, "float32"),
    "flatten_v0": supersuit.flatten_v0,
    "frame_stack_v1": lambda env: supersuit.frame_stack_v1(env, 2),
    "max_observation_v0": lambda env: supersuit.max_observation_v0(env, 2),
    "pad_observations_v0": supersuit.pad_observations_v0,
    "reward_lambda_v0": lambda env: supersuit.reward_lambda_v0(env, lambda reward: 2 * reward),
    "sticky_actions_v0": lambda env: supersuit.sticky_actions_v0(env, 0.5),
}
FAIL: dict[tuple[str, str], tuple[Callable[[Any], Any], str]] = {
    ("Choose", "black_death_v3"): (supersuit.black_death_v3, "Choose: no episode is running"),
    ("Choose", "normalize_obs_v0"): (supersuit.normalize_obs_v0, "infinite bounds"),
    ("Choose", "clip_actions_v0"): (supersuit.clip_actions_v0, "no attribute 'low'"),
    ("Choose", "frame_skip_v0"): (lambda e: supersuit.frame_skip_v0(e, 2), "'np_random'"),
    ("Tokenize", "pad_action_space_v0"): (
        supersuit.pad_action_space_v0,
        "only supports Discrete and Box",
    ),
}


def played(env: Any) -> None:
    """Two episodes of random actions; what is observed is in its space."""
    for seed in range(2):
        env.reset(seed=seed)
        if hasattr(env, "agent_iter"):
            for agent in env.agent_iter():
                seen, _, ended, cut, _ = env.last()
                assert env.observation_space(agent).contains(seen)
                env.step(None if ended or cut else env.action_space(agent).sample())
        while env.agents:
            seen = env.step({a: env.action_space(a).sample() for a in env.agents})[0]
            assert all(env.observation_space(a).contains(seen[a]) for a in seen)


@pytest.mark.filterwarnings("ignore")  # SuperSuit's own, on bounds
@pytest.mark.parametrize("env_id", ["coop_writing_tldr-v0", "debate-v0"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WORK)
def test_wrappers_that_work(name: str, form: str, env_id: str):
    played(WORK[name](FORMS[form](make(env_id))))


@pytest.mark.parametrize(("form", "name"), FAIL)
def test_wrappers_that_do_not(form: str, name: str):
    wrapper, message = FAIL[form, name]
    with pytest.raises((AssertionError, AttributeError, RuntimeError), match=message):
        played(wrapper(FORMS[form](make("coop_writing_tldr-v0"))))


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_seats_of_copies(form: str):
    rows = supersuit.pettingzoo_env_to_vec_env_v1(FORMS[form](make("coop_writing_tldr-v0")))
    rows = supersuit.concat_vec_envs_v1(rows, 2)
    rows.reset(seed=0)
    assert rows.num_envs == 4
    rewards = rows.step(np.array([rows.action_space.sample() for _ in range(4)]))[1]
    assert rewards[0] == rewards[1]
    assert rewards[2] == rewards[3]


def test_text_and_turns():
    text = supersuit.pettingzoo_env_to_vec_env_v1(make("coop_writing_tldr-v0"))
    with pytest.raises(CustomSpaceError, match="doesn't have an registered `iterate` function"):
        supersuit.concat_vec_envs_v1(text, 2).reset()
    with pytest.raises(AssertionError, match="takes in a pettingzoo ParallelEnv"):
        supersuit.pettingzoo_env_to_vec_env_v1(Choose(make("debate-v0")))
    alone = Partners(make("debate-v0"), {"debater_1": "expert", "debater_2": "expert"})
    rows = supersuit.pettingzoo_env_to_vec_env_v1(Choose(alone))
    assert rows.num_envs == 1
    assert rows.reset(seed=0)[0].shape == (1, 256)


def test_seeds():
    env = Choose(make("coop_writing_tldr-v0"))
    env.reset(seed=0)
    rows = supersuit.pettingzoo_env_to_vec_env_v1(env)
    rows = supersuit.concat_vec_envs_v1(rows, 2, base_class="stable_baselines3")
    same = rows.reset()
    assert (same[:2] == same[2:]).all()  # copies of one that had been reset draw the same tasks
    with pytest.raises(AttributeError, match="seed"):
        PPO("MlpPolicy", rows, seed=0)
    rows.venv.reset(seed=0)
    other = rows.reset()
    assert (other[:2] != other[2:]).any()
