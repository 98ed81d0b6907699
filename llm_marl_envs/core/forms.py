"""PettingZoo's two forms: who acts in any library's environment, and what its modules offer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel_wrapper

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


def parallel_form(env_class: Callable[..., Any], max_cycles: int = 1, **kwargs: Any) -> Any:
    """An environment under PettingZoo's name for the number of turns."""
    return env_class(turns=max_cycles, **kwargs)


def aec_form(env_class: Callable[..., Any], max_cycles: int = 1, **kwargs: Any) -> Any:
    """As `parallel_form`, in AEC form."""
    return parallel_to_aec(parallel_form(env_class, max_cycles, **kwargs))


def module_forms(env_class: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`parallel_env` and `env`, as PettingZoo's modules have them."""
    return partial(parallel_form, env_class), partial(aec_form, env_class)
