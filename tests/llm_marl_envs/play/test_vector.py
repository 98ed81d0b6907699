from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from support.toys import BareParallel, WordPair

from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy

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
    copies.envs[0].reset(seed=9)
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


# -- rollouts in chunks --------------------------------------------------------------------------
class Stepping(WordPair):
    """Waits in its first turn until a policy is asked again."""

    blocking = True
    asked = threading.Event()

    def play(self, joint_action: Any) -> Any:
        if self._taken["left_0"] == 1 and not self.asked.wait(timeout=20):
            raise TimeoutError("nobody was asked while this environment stepped")
        return super().play(joint_action)


def test_the_next_chunk_is_asked_while_the_first_one_steps() -> None:
    calls: list[int] = []

    class Asked(RandomPolicy):
        def act(self, requests: Any) -> Any:
            calls.append(len(requests))
            if len(calls) == 2:
                Stepping.asked.set()
            return super().act(requests)

    copies = VectorTextEnv([Stepping() for _ in range(4)])
    policy = Asked()
    rollout(copies, dict.fromkeys(BOTH, policy), [Start(task=i) for i in range(4)], chunks=2)
    assert calls[:2] == [4, 4]
    copies.close()


@pytest.mark.parametrize("blocking", [False, True])
def test_chunks_change_nothing_in_the_episodes(blocking: bool) -> None:
    copies = VectorTextEnv([WordPair(turns=3) for _ in range(5)])
    for env in copies.envs:
        env.blocking = blocking
    starts = [Start(task=n % 7, seed=n, sample_seed=n) for n in range(13)]
    # The word is said or not by the request's own seed.
    say = ScriptedPolicy(lambda r: r.task_id.split("-")[r.agent == "right_0"] * (r.seed % 2))
    seats = dict.fromkeys(BOTH, say)
    plain = rollout(copies, seats, starts)
    for chunks in (2, 3, 5, 99):
        assert rollout(copies, seats, starts, chunks=chunks) == plain
    assert len({len(episode.turns) for episode in plain}) > 1  # they end at different times
    copies.close()


class Failing(WordPair):
    """The first copy fails at once, the others finish a little later."""

    blocking = True
    finished = 0
    lock = threading.Lock()

    def play(self, joint_action: Any) -> Any:
        if self.task.id == "apple-birch":
            raise RuntimeError("the first step failed")
        time.sleep(0.05)
        with self.lock:
            Failing.finished += 1
        return super().play(joint_action)


def test_no_step_goes_on_after_an_error() -> None:
    copies = VectorTextEnv([Failing() for _ in range(6)])
    seats = dict.fromkeys(BOTH, ScriptedPolicy(lambda _: "x"))
    with pytest.raises(RuntimeError, match="first step failed"):
        rollout(copies, seats, [Start(task=i) for i in range(6)], chunks=2)
    assert Failing.finished == 5
    time.sleep(0.1)
    assert Failing.finished == 5
    copies.close()


@pytest.mark.parametrize("chunks", [0, -1, 1.5])
def test_chunks_are_checked(chunks: Any) -> None:
    copies = VectorTextEnv([WordPair()])
    with pytest.raises(ValueError, match="chunks must be a whole number"):
        rollout(copies, dict.fromkeys(BOTH, RandomPolicy()), [Start()], chunks=chunks)
