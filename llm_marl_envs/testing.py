"""`check_text_env`: the contract of a text environment, shipped so that others can use it.

PettingZoo's own tests pass environments that are not deterministic after the first step, touch the
global random state or send observations outside of their space; these checks close the gaps.
"""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from llm_marl_envs.policies.base import Policy, derive_seed
from llm_marl_envs.policies.scripted import RandomPolicy, ScriptedPolicy
from llm_marl_envs.records import Episode, Turn
from llm_marl_envs.rollout import Start, rollout
from llm_marl_envs.spaces import Message, Observation
from llm_marl_envs.vector import VectorTextEnv

# Model text that has broken parsers: empty, newlines, any script, controls, a lone surrogate,
# unclosed constructs. An environment answers each with a reward, never an exception.
JUNK = (
    "",
    "\n\n\n",
    "naïve “quotes” — 漢字 🦜",
    "\x00\x1b[31m",
    "\ud800",
    "```python\ndef",
    "(" * 5000,
    "}{{%s}",
)
REWARD_TOLERANCE = 1e-9


def check_text_env(
    make_env: Callable[[], Any],
    *,
    solution: Callable[[Any], Mapping[str, Policy]] | None = None,
    solution_return: float | None = None,
    seeds: Sequence[int] = (0, 1, 2),
) -> None:
    """Check an environment against the contract.

    Args:
        make_env: returns a fresh environment, parallel or AEC.
        solution: environment -> a team that solves it.
        solution_return: the exact undiscounted return per agent that the solution earns.
        seeds: reset seeds to try.

    Raises:
        AssertionError: what is broken, in words.
    """
    policies: list[Policy] = [RandomPolicy(), *(ScriptedPolicy(lambda r, j=j: j) for j in JUNK)]
    for seed in seeds:
        for policy in policies:
            _check_pair(make_env, policy, seed)
    _check_misuse(make_env)
    if solution is not None:
        env = make_env()
        for seed in seeds:
            episode = rollout(VectorTextEnv([env]), solution(env), [Start(seed=seed)])[0]
            _check_solution(episode, solution_return)


def _check_solution(episode: Episode, expected: float | None) -> None:
    for agent in episode.agents:
        paid = episode.undiscounted_return(agent)
        assert expected is None or math.isclose(paid, expected, abs_tol=REWARD_TOLERANCE), (
            f"the solution earned {agent} {paid}, expected {expected} (task {episode.task_id})"
        )
    assert episode.success is not False, f"the solution failed task {episode.task_id}"


def _check_pair(make_env: Callable[[], Any], policy: Policy, seed: int) -> None:
    """Play one episode on two copies; check each record and that they agree."""
    random.seed(seed)
    np.random.seed(seed)
    before = (random.getstate(), np.random.get_state()[1].tobytes())  # type: ignore[union-attr]
    episodes, env = [], None
    for _ in range(2):
        env = make_env()
        team = dict.fromkeys(env.possible_agents, policy)
        episodes.append(
            rollout(VectorTextEnv([env]), team, [Start(seed=seed, sample_seed=seed)])[0]
        )
    after = (random.getstate(), np.random.get_state()[1].tobytes())  # type: ignore[union-attr]
    assert before == after, "the environment touched a global random generator; own an RNG instead"
    assert episodes[0] == episodes[1], f"two copies with seed {seed} played different episodes"
    inner: Any = env.unwrapped  # type: ignore[union-attr]
    for turn in episodes[0].turns:
        _check_turn(turn, inner)
    for agent in episodes[0].agents:
        _check_chat(episodes[0].trajectory(agent), inner)
        low, high = inner.reward_range
        paid = episodes[0].undiscounted_return(agent)
        assert low - REWARD_TOLERANCE <= paid <= high + REWARD_TOLERANCE, (
            f"{agent} returned {paid}, outside of the documented range {(low, high)}"
        )


def _check_turn(turn: Turn, env: Any) -> None:
    where = f"{turn.agent}, turn {turn.index}"
    observation = Observation.of(turn.messages)
    assert env.observation_space(turn.agent).contains(observation), f"{where}: not in its space"
    assert turn.messages and turn.messages[-1].role == "user", f"{where}: nothing was asked"
    for duplicate in (copy.deepcopy(observation), pickle.loads(pickle.dumps(observation))):
        assert duplicate == observation and duplicate.messages == observation.messages, (
            f"{where}: the observation does not survive a copy"
        )
    assert math.isfinite(turn.reward), f"{where}: reward {turn.reward}"
    total = sum(turn.reward_terms.values())
    assert math.isclose(total, turn.reward, abs_tol=REWARD_TOLERANCE), (
        f"{where}: reward terms sum to {total}, the reward is {turn.reward}"
    )
    assert "success" in turn.info and "action_truncated" in turn.info, f"{where}: info lacks keys"
    assert "action_mask" not in turn.info, f"{where}: PettingZoo would hand it to the text space"


def _check_chat(trajectory: Sequence[Turn], env: Any) -> None:
    if not env.append_only:
        return
    for earlier, later in zip(trajectory, trajectory[1:], strict=False):
        text = earlier.action[: env.max_action_chars]
        kept = (*earlier.messages, Message("assistant", text))
        assert later.messages[: len(kept)] == kept, (
            f"{later.agent}, turn {later.index}: the chat does not extend the one before"
        )


def _check_misuse(make_env: Callable[[], Any]) -> None:
    env = make_env()
    agent = env.possible_agents[0]
    assert env.observation_space(agent) is env.observation_space(agent), "spaces must be kept"
    env.reset(seed=0)
    bad: Any = 7 if hasattr(env, "agent_selection") else dict.fromkeys(env.possible_agents, 7)
    try:
        env.step(bad)
    except TypeError as error:
        assert "int" in str(error), f"the error does not say what came: {error}"
    else:
        raise AssertionError("an action that is no str was accepted")
    env.reset(seed=0)
    assert env.state_space.contains(env.state()), "state() is not in state_space"


def episode_digest(make_env: Callable[[], Any], seeds: Sequence[int] = (0, 1)) -> str:
    """A hash of whole random episodes: equal in every process, whatever PYTHONHASHSEED."""
    env = make_env()
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    starts = [Start(seed=s, sample_seed=derive_seed("digest", s)) for s in seeds]
    episodes = rollout(VectorTextEnv([env]), team, starts)
    return hashlib.sha256(repr(episodes).encode("utf-8", "backslashreplace")).hexdigest()
