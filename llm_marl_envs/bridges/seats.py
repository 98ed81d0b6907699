"""One seat of an environment, for libraries that know one agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from llm_marl_envs.core.spaces import Message
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.named import Context, seated
from llm_marl_envs.wrappers import Partners

Team = Mapping[str, Policy | str]


def one_seat(env_id: str, partners: Team | None, arguments: Mapping[str, Any]) -> Any:
    """The environment that is left to one seat; with no partners one agent plays all seats.

    Raises:
        ValueError: several seats are left, or as `make` and `Partners`.
    """
    if not partners:
        return make(env_id, single_seat=True, **arguments)
    env = Partners(make(env_id, **arguments), partners)
    if len(env.possible_agents) > 1:
        raise ValueError(
            f"{env_id}: {env.possible_agents} are left without a partner, and one seat is "
            "trained here; name partners for all others, or use MAGRPOTrainer"
        )
    return env


def made_once(env_id: str, partners: Team | None, arguments: Mapping[str, Any]) -> Team | None:
    """The partners as policies: a model that is named is loaded once, however many copies play."""
    return seated(partners, Context(env=make(env_id, **arguments))) if partners else None


def told_since(observation: str) -> str:
    """What a seat was told since its last action; a bare text is all there is."""
    messages: Sequence[Message] = getattr(observation, "messages", ())
    recent = takewhile(lambda message: message.role != "assistant", reversed(messages))
    news = [message.content for message in recent]
    return "\n\n".join(reversed(news)) if messages else str(observation)
