"""Teams of experts for cross-play, and stages for them."""

from __future__ import annotations

from typing import Any

from support.toys import SameCase

from llm_marl_envs.measure.paired import Stage
from llm_marl_envs.measure.runner import Plan
from llm_marl_envs.policies.expert import ExpertPolicy


def experts(convention: str | None, env: Any = None) -> dict[str, ExpertPolicy]:
    env = env or SameCase()
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env, convention))


def stage(env: Any, *, seed: int = 0, progress: Any = None, **plan: Any) -> Stage:
    """Copies of an environment with the episodes of a plan."""
    return Stage(env, Plan(seeds=(seed,), **plan), progress=progress)
