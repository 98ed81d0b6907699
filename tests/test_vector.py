from __future__ import annotations

import threading
from typing import Any

import pytest
from toys import BareParallel, WordPair

from llm_marl_envs.vector import VectorTextEnv

BOTH = {"left_0": "x", "right_0": "y"}


class Waiting(WordPair):
    """Two of these finish a turn only if both are in it at once."""

    blocking = True
    barrier = threading.Barrier(2)

    def play(self, joint_action: Any) -> Any:
        self.barrier.wait(timeout=20)
        return super().play(joint_action)


def test_copies_step_together() -> None:
    copies = VectorTextEnv([WordPair(), WordPair()])
    first = copies.reset(seeds=[1, 2], options=[{"task": 0}, {"task": 1}])
    assert [infos["left_0"]["task_id"] for _, infos in first] == ["apple-birch", "apple-cedar"]
    results = copies.step([BOTH, None])
    assert results[1] is None
    assert results[0] == _single_step()
    copies.reset_at(0, seed=9)
    assert copies.envs[0].agents == ["left_0", "right_0"]
    copies.close()


def _single_step() -> Any:
    env = WordPair()
    env.reset(seed=1, options={"task": 0})
    return env.step(BOTH)


def test_seeds_default_to_each_copys_own() -> None:
    assert len(VectorTextEnv([WordPair(), WordPair()]).reset()) == 2


def test_environments_that_wait_are_stepped_by_threads() -> None:
    copies = VectorTextEnv([Waiting(), Waiting()])
    copies.reset(seeds=[0, 0])
    results = copies.step([BOTH, BOTH])
    assert results[0] == results[1]
    copies.close()
    copies.close()


def test_an_error_in_one_copy_is_raised() -> None:
    copies = VectorTextEnv([WordPair(), WordPair()])
    copies.reset()
    with pytest.raises(TypeError, match="expected str, got int"):
        copies.step([BOTH, {"left_0": 1, "right_0": ""}])  # type: ignore[dict-item]


def test_environments_of_others_work_too() -> None:
    copies = VectorTextEnv([BareParallel()])
    copies.reset()
    assert copies.step([{"short_0": "a", "tall_0": "b"}])[0][1] == {"short_0": 1, "tall_0": 0.25}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: VectorTextEnv([]), "at least one environment"),
        (lambda: VectorTextEnv([WordPair()] * 2), "one environment twice"),
        (lambda: VectorTextEnv([WordPair()]).reset(seeds=[1, 2]), "2 seeds for 1 environments"),
        (lambda: VectorTextEnv([WordPair()]).reset(options=[]), "0 options for 1 environments"),
        (lambda: VectorTextEnv([WordPair()]).step([]), "0 joint actions for 1 environments"),
    ],
)
def test_lengths_are_checked(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
