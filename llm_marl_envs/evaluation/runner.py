"""Play held-out tasks with a team and sum up what it earned.

Owns which episodes an evaluation plays and the summary of them. Any policies will do: language
models, scripted experts, people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_marl_envs.evaluation.metrics import bootstrap_interval
from llm_marl_envs.policies import Team, derive_seed
from llm_marl_envs.records import Episode
from llm_marl_envs.rollout import Context, Start, rollout
from llm_marl_envs.vector import VectorTextEnv, env_factory

DEFAULT_COPIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamResult:
    """What a team earned.

    Attributes:
        episodes: every episode, grouped by task (`samples` in a row each).
        n_tasks: tasks played.
        samples: episodes per task.
        success: share of episodes that solved their task, None where the environment does not say.
        success_ci95: its 95 % bootstrap interval over tasks.
        mean_return: undiscounted team return, mean over episodes.
        return_ci95: its 95 % bootstrap interval over tasks.
        reward_terms: name -> its sum over an episode, mean over episodes and agents.
    """

    episodes: tuple[Episode, ...]
    n_tasks: int
    samples: int
    success: float | None
    success_ci95: tuple[float, float] | None
    mean_return: float
    return_ci95: tuple[float, float]
    reward_terms: dict[str, float]


def evaluate_team(
    env: Any,
    team: Team,
    *,
    n_tasks: int | None = None,
    samples: int = 1,
    seed: int = 0,
    copies: int = DEFAULT_COPIES,
    context: Context = "append",
    progress: Callable[[int], object] | None = None,
) -> TeamResult:
    """Play the first `n_tasks` tasks of the environment's split, `samples` times each.

    Args:
        env: a registered id, a function that makes the environment, or an environment; its own
            `split` says which tasks are meant.
        team: agent -> policy.
        n_tasks: None plays all tasks; more than there are is an error.
        samples: episodes per task; they differ in the policies' randomness.
        seed: of resets and sampling.
        copies: how many episodes run at once.
        context: as in `rollout`.
        progress: called with the number of episodes just finished.

    Raises:
        ValueError: a number out of range, or the team does not fit the environment.
    """
    make_env = env_factory(env)
    first = make_env()
    source = getattr(first.unwrapped, "source", None)
    available = len(source) if source is not None else None
    count = n_tasks if n_tasks is not None else available
    if count is None or count < 1 or (available is not None and count > available):
        raise ValueError(
            f"n_tasks={n_tasks}: expected 1 to {available}"
            if available
            else f"n_tasks={n_tasks}: this environment has no task source, so give a number"
        )
    if samples < 1 or copies < 1:
        raise ValueError(f"samples={samples}, copies={copies}: expected at least 1 each")
    starts = [
        Start(
            task=task if available else None,
            seed=derive_seed("evaluate", seed, task) % 2**32,
            sample_seed=derive_seed("evaluate", seed, task, sample),
        )
        for task in range(count)
        for sample in range(samples)
    ]
    envs = [first, *(make_env() for _ in range(min(copies, len(starts)) - 1))]
    vector = VectorTextEnv(envs)
    episodes = rollout(vector, team, starts, context=context, progress=progress)
    vector.close()
    return summarise(episodes, samples)


def summarise(episodes: Sequence[Episode], samples: int) -> TeamResult:
    """The result of episodes that come in runs of `samples` per task."""
    n_tasks = len(episodes) // samples
    returns = np.array([e.team_return for e in episodes]).reshape(n_tasks, samples)
    judged = [e.success for e in episodes]
    success = success_ci = None
    if all(one is not None for one in judged):
        solved = np.array(judged, dtype=np.float64).reshape(n_tasks, samples)
        success = float(solved.mean())
        success_ci = bootstrap_interval(solved.mean(axis=1).tolist())
    terms: dict[str, float] = {}
    for episode in episodes:
        for turn in episode.turns:
            for name, value in turn.reward_terms.items():
                share = value / len(episode.agents) / len(episodes)
                terms[name] = terms.get(name, 0.0) + share
    return TeamResult(
        episodes=tuple(episodes),
        n_tasks=n_tasks,
        samples=samples,
        success=success,
        success_ci95=success_ci,
        mean_return=float(returns.mean()),
        return_ci95=bootstrap_interval(returns.mean(axis=1).tolist()),
        reward_terms=terms,
    )
