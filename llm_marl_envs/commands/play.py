"""One episode with a person in a seat: what `llm-marl play` does.

Owns who plays the other seats and how the result is shown; `rollout` drives the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core import TextEnv
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.human import HumanPolicy
from llm_marl_envs.policies.scripted import ExpertPolicy, RandomPolicy
from llm_marl_envs.records import Episode
from llm_marl_envs.registry import make
from llm_marl_envs.rendering import print_text
from llm_marl_envs.rollout import rollout
from llm_marl_envs.seeds import Start
from llm_marl_envs.vector import VectorTextEnv


def play(
    env_id: str,
    *,
    agent: str | None = None,
    task: int | str | None = None,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Episode:
    """Play one episode from standard input and print what came of it.

    Args:
        env_id: a registered id.
        agent: the person's seat; the last one where None.
        task: id or index of the task; drawn by the seed where None.
        seed: reset seed; also the partners'.
        env_kwargs: arguments of the environment.

    Raises:
        ValueError: no such environment, seat or task.
    """
    env = make(env_id, **(env_kwargs or {}))
    seat = env.possible_agents[-1] if agent is None else agent
    if seat not in env.possible_agents:
        raise ValueError(f"no agent {seat!r} in {env_id}; its seats are {env.possible_agents}")
    env.reset(seed=seed, options=None if task is None else {"task": task})
    team: dict[str, Policy] = {a: partner(env, a) for a in env.possible_agents if a != seat}
    for other, policy in team.items():
        print(f"{other} is played by {type(policy).__name__}")
    team[seat] = HumanPolicy()
    start = Start(task=task, seed=seed, sample_seed=seed)
    episode = rollout(VectorTextEnv([env]), team, [start])[0]
    print_text(summary(episode))
    return episode


def partner(env: Any, agent: str) -> Policy:
    """The environment's expert for `agent` on the task that runs, random text where it has none."""
    inner = env.unwrapped
    if isinstance(inner, TextEnv):
        try:
            inner.expert(inner.task, agent, (inner.conventions(inner.task) or ("",))[0])
        except ValueError:  # what `expert` raises where there is none
            return RandomPolicy()
        return ExpertPolicy(inner)
    return RandomPolicy()


def summary(episode: Episode) -> str:
    """Every action with its reward and the terms that make it up, and how the episode ended."""
    parts = ["=== what happened ==="]
    for turn in episode.turns:
        terms = ", ".join(f"{name} {value:+g}" for name, value in turn.reward_terms.items())
        parts.append(
            f"--- {turn.agent}, turn {turn.index} ---\n{turn.action}\n"
            f"reward {turn.reward:+g}" + (f" ({terms})" if terms else "")
        )
    returns = ", ".join(f"{a} {episode.undiscounted_return(a):g}" for a in episode.agents)
    solved = {True: "solved", False: "not solved", None: "ended"}[episode.success]
    parts.append(f"task {episode.task_id}: {solved} ({episode.stop_reason}); return: {returns}")
    return "\n".join(parts)
