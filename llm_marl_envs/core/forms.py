"""PettingZoo's two forms, of any library's environment: who is to act, and what it is shown."""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper

from llm_marl_envs.core.spaces import Message


def as_played(env: Any) -> Any:
    """A turn-based environment that was made parallel as it was before; any other as it is.

    The parallel form asks agents whose answers it throws away.
    """
    return env.aec_env if isinstance(env, turn_based_aec_to_parallel_wrapper) else env


def acting(env: Any) -> list[str]:
    """The agents to act now; dead agents of a turn-based environment are stepped over."""
    if not isinstance(env, AECEnv):
        return list(env.agents)
    while env.agents:
        agent = env.agent_selection
        if not (env.terminations[agent] or env.truncations[agent]):
            return [agent]
        env.step(None)
    return []


def messages_of(observation: str) -> tuple[Message, ...]:
    """What an observation shows; a bare text is one message."""
    return getattr(observation, "messages", None) or (Message("user", str(observation)),)
