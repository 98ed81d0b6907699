"""Environments of this library for verifiers: one agent and one trace per seat.

verifiers loads an environment from a module, by its name. This is the whole module:

    from llm_marl_envs.bridges.verifiers import InProcess, environment

    __all__ = ["InProcess", "Tasks", "Team"]
    Tasks, Team = environment("debate-v0")

Each seat is an `AgentConfig` of the environment's config under its own name, so it may have a
model, a client and sampling of its own. A seat's return is its trace's reward `return`. `success`,
the number of turns and the sums of the reward terms are metrics, and `info["turns"]` has the
reward and its terms turn by turn. Needs the extra `verifiers`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from llm_marl_envs.bridges.harness import Awaited, play_episode
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.records import Episode, Request, Response
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.wrappers.partners import divided

with Extra("verifiers", "verifiers' bridge"):
    import verifiers.v1 as vf
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    from pydantic import create_model
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.types import AssistantMessage


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes a tenth of a second, in which no other agent goes on."""
    return ssl.create_default_context()


class InProcess(vf.Harness[vf.HarnessConfig]):
    """A chat without tools, in this process; verifiers' own starts a `uv` process per agent."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: Mapping[str, str],
        data: Any,
    ) -> Any:
        """One answer to the chat, through verifiers' endpoint, which records it."""
        system, prompt = self.resolve_prompt(data)
        chat: list[Any] = [] if system is None else [{"role": "system", "content": system}]
        chat += [message_to_wire(message) for message in prompt or []]
        http = DefaultAsyncHttpxClient(verify=_certificates())
        async with AsyncOpenAI(
            base_url=endpoint, api_key=secret, max_retries=0, http_client=http
        ) as client:
            await client.chat.completions.create(model=ctx.model, messages=chat)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class Seat:
    """One seat's exchange with its agent.

    Args:
        agent: the seat's name.
        exchange: its open `Interaction`.
    """

    def __init__(self, agent: str, exchange: Any) -> None:
        self.agent, self.exchange = agent, exchange
        self.heard = 0
        self.over = False

    async def ask(self, request: Request) -> Response:
        """What the agent says to what is new to it; "" once a limit of verifiers ended it.

        Raises:
            RuntimeError: its model or harness failed; the message names the seat.
        """
        if self.over:
            return Response(text="")
        new = [m for m in request.messages[self.heard :] if m.role != "assistant"]
        self.heard = len(request.messages)
        segment = await self.exchange.turn([{"role": m.role, "content": m.content} for m in new])
        if errors := self.exchange.trace.errors:
            raise RuntimeError(
                f"task {request.task_id!r}, {self.agent}, turn {request.turn}: "
                f"{errors[-1].type}: {errors[-1].message}"
            )
        self.over = segment.terminated
        texts = [m.content for m in segment.messages if isinstance(m, AssistantMessage)]
        return Response(text=(texts[-1] if texts else "") or "")

    def book(self, episode: Episode) -> None:
        """What the seat earned, on its trace."""
        trace, turns = self.exchange.trace, episode.trajectory(self.agent)
        trace.record_reward("return", episode.undiscounted_return(self.agent))
        for name, value in sorted(episode.terms_of(self.agent).items()):
            trace.record_metric(name, value)
        trace.record_metric("turns", len(turns))
        if episode.success is not None:
            trace.record_metric("success", episode.success)
        trace.info["turns"] = [
            {"reward": turn.reward, "reward_terms": dict(turn.reward_terms)} for turn in turns
        ]


def environment(
    env_id: str,
    *,
    partners: Mapping[str, Policy | str] | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> tuple[type[Any], type[Any]]:
    """The taskset and the environment of an id, as classes for a module's `__all__`.

    Args:
        env_id: as `make`.
        partners: agent -> policy, or its name ("expert"), of seats that are no agents of verifiers.
        seed: the reset seed of every episode, so all episodes of a task are one group.
        kwargs: arguments of `make`, e.g. `split="test"`.

    Raises:
        ValueError: no such environment or argument, an unknown partner, or no seat is left.
    """
    env = make(env_id, **kwargs)
    source = env.unwrapped.source
    seats, policies = divided(env, partners)
    roles: dict[str, Any] = {
        seat: (vf.AgentConfig, vf.AgentConfig(runtime=vf.SubprocessConfig())) for seat in seats
    }
    config = create_model("SeatsConfig", __base__=vf.EnvConfig, **roles)

    class Tasks(vf.Taskset[vf.Task, vf.TasksetConfig]):
        """The tasks of the environment's split, by id."""

        def load(self) -> Iterable[Any]:
            """One task per task of the environment."""
            return (vf.Task(vf.TaskData(id=task.id, name=task.id)) for task in source)

    class Team(vf.Env[config]):  # pyright: ignore[reportInvalidTypeForm]
        """Plays an episode; each seat is an agent."""

        async def run(self, task: Any, agents: Any) -> None:
            """One episode of one task."""
            async with AsyncExitStack() as stack:
                team = {}
                for agent in seats:
                    exchange = getattr(agents, agent).interaction(task)
                    team[agent] = Seat(agent, await stack.enter_async_context(exchange))
                asked = stack.enter_context(Awaited(lambda r: team[r.agent].ask(r)))
                episode = await play_episode(
                    env_id,
                    task.data.id,
                    seats={**dict.fromkeys(seats, asked), **policies},
                    seed=seed,
                    env_kwargs=kwargs,
                )
                for seat in team.values():
                    seat.book(episode)

    return Tasks, Team
