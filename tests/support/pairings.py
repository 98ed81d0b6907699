"""Teams of experts for cross-play."""

from __future__ import annotations

from typing import Any

from support.toys import SameCase

from llm_marl_envs.experts import ExpertPolicy


def experts(convention: str | None, env: Any = None) -> dict[str, ExpertPolicy]:
    env = env or SameCase()
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env, convention))
