"""BenchMARL's bridge, with BenchMARL."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

pytest.importorskip("benchmarl", reason="make test-bridges installs it")

from llm_marl_envs import make
from llm_marl_envs.bridges.benchmarl import TextTask
from llm_marl_envs.wrappers import Choose, Partners, Tokenize

TLDR = "coop_writing_tldr-v0"


def choosing(mask: Any = "info") -> Any:
    return Choose(make(TLDR), mask=mask)


def one_debater() -> Any:
    team = {"debater_1": "expert", "debater_2": "expert"}
    return Choose(Partners(make("debate-v0"), team), mask="info")


def test_a_task_survives_pickling_and_plays() -> None:
    task = pickle.loads(pickle.dumps(TextTask("tldr", choosing)))
    env = task.get_env_fun(1, False, 0, "cpu")()
    assert task.group_map(env) == {"agents": ["brief_0", "detailed_0"]}
    assert task.observation_spec(env)["agents", "observation"].shape == (2, 256)
    assert task.action_mask_spec(env)["agents", "action_mask"].shape == (2, 3)
    assert list(task.observation_spec(env)["agents"].keys()) == ["observation"]
    assert task.state_spec(env)["state"].shape == (512,)
    played = env.rollout(task.max_steps(env))
    assert played.shape == (1,)
    assert bool(played["next", "done"].all())


def test_without_masks_there_is_no_spec_of_them() -> None:
    task = TextTask("tldr", partial(choosing, None))
    assert task.action_mask_spec(task.get_env_fun(1, False, 0, "cpu")()) is None


def test_one_seat_of_a_turn_based_environment_is_a_task() -> None:
    task = TextTask("debate", one_debater)
    played = task.get_env_fun(1, False, 0, "cpu")().rollout(task.max_steps(None))
    assert played.shape == (2,)


@pytest.mark.parametrize(
    ("env", "error"),
    [
        (partial(make, TLDR), r"brief_0 acts in TextSpace.*Choose\(env, mask=\"info\"\)"),
        (partial(partial, int), "expected a PettingZoo environment, got partial"),
        (make(TLDR), "expected a function that makes an environment"),
        (lambda: choosing(), "cannot be pickled, and BenchMARL pickles its task"),
        (partial(choosing, "observation"), 'Dict.*give Choose mask="info"'),
    ],
)
def test_what_is_refused(env: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        TextTask("x", env)


def tokens() -> Any:
    return Tokenize(make(TLDR))


def debate() -> Any:
    return Choose(make("debate-v0"), mask="info")


def test_tokens_and_turns_are_refused() -> None:
    with pytest.raises(TypeError, match=r"MultiDiscrete.*needs choices"):
        TextTask("x", tokens)
    with pytest.raises(TypeError, match=r"one acts after the other.*Partners\(env, team\)"):
        TextTask("x", debate)
    with pytest.raises(ValueError, match="max_steps=0: expected at least 1"):
        TextTask("x", choosing, max_steps=0)
