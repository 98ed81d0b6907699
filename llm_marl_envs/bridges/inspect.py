"""Environments of this library as tasks of Inspect: seats are model roles.

    from inspect_ai import eval
    from llm_marl_envs.bridges.inspect import task

    eval(
        task("debate-v0", partners={"debater_2": "expert"}, split="test"),
        model=None,
        model_roles={"debater_0": "openai/gpt-5", "debater_1": "vllm/Qwen/Qwen3-4B"},
        limit=50,
    )

A sample is a task of the split, played once per epoch. Its score holds `return`, the team's mean,
and `success`; the score's metadata has each seat's return and reward terms. `state.metadata`
has the whole episode under "episode", as transcripts keep it. Needs the extra `inspect`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llm_marl_envs.bridges.harness import Awaited, play_episode
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.records import (
    Request,
    Response,
    episode_from_dict,
    episode_to_dict,
)
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.wrappers.partners import divided

with Extra("inspect", "Inspect's bridge"):
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        get_model,
        model_roles,
    )
    from inspect_ai.scorer import Score, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, TaskState, solver

SPOKEN = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
EPISODE = "episode"
"""Where a sample's metadata has the episode."""


def task(
    env_id: str,
    *,
    partners: Mapping[str, Policy | str] | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> Any:
    """An environment as a task of Inspect.

    Args:
        env_id: as `make`.
        partners: agent -> policy, or its name ("expert"), of seats that no model role plays.
        seed: the reset seed of every episode.
        kwargs: arguments of `make`, e.g. `split="test"`.

    Raises:
        ValueError: no such environment or argument, or a partner in a seat that there is not. In a
            run: a seat that neither a role nor a partner plays, by name.
    """
    env = make(env_id, **kwargs)
    seats, policies = divided(env, partners)
    samples = [Sample(id=t.id, input=f"{env_id}, task {t.id}") for t in env.unwrapped.source]
    return Task(
        dataset=MemoryDataset(samples, name=env_id),
        solver=team(env_id, seats, policies, seed, kwargs),
        scorer=returns(),
        name=env_id,
    )


@solver
def team(
    env_id: str, seats: list[str], partners: dict[str, Any], seed: int, kwargs: dict[str, Any]
) -> Any:
    """Plays the episode of a sample.

    Args:
        env_id: as `make`.
        seats: agents that model roles play.
        partners: agent -> policy of the others.
        seed: the reset seed.
        kwargs: arguments of `make`.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        empty = [agent for agent in seats if agent not in model_roles()]
        if empty:
            raise ValueError(
                f"{env_id}: nobody plays {empty}; name a model for each, e.g. model_roles="
                f"{{{empty[0]!r}: ...}}, or a partner, e.g. partners={{{empty[0]!r}: 'expert'}}"
            )
        models = {agent: get_model(role=agent) for agent in seats}

        async def ask(request: Request) -> Response:
            output = await models[request.agent].generate(
                [SPOKEN[message.role](content=message.content) for message in request.messages]
            )
            state.output = output
            cut = bool(output.choices) and output.stop_reason == "max_tokens"
            return Response(text=output.completion, cut=cut, policy=str(models[request.agent]))

        with Awaited(ask) as asked:
            episode = await play_episode(
                env_id,
                str(state.sample_id),
                seats={**dict.fromkeys(seats, asked), **partners},
                seed=seed,
                sample_seed=state.epoch,
                env_kwargs=kwargs,
            )
        state.metadata[EPISODE] = episode_to_dict(episode)
        state.messages += [
            ChatMessageAssistant(content=f"{turn.agent}: {turn.action}") for turn in episode.turns
        ]
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def returns() -> Any:
    """The team's return, and success; NaN, which Inspect leaves out, where nobody says."""

    async def score(state: TaskState, target: Target) -> Score:
        if EPISODE not in state.metadata:  # a limit of Inspect ended the sample
            nothing = {"return": math.nan, "success": math.nan}
            return Score(value=nothing, explanation="the episode was not played to its end")
        episode = episode_from_dict(state.metadata[EPISODE])
        success = math.nan if episode.success is None else float(episode.success)
        return Score(
            value={"return": episode.team_task_return, "success": success},
            metadata={
                "returns": {a: episode.task_return(a) for a in episode.agents},
                "reward_terms": {a: episode.terms_of(a) for a in episode.agents},
                "added_terms": {a: episode.added_terms_of(a) for a in episode.agents},
                "stop_reason": str(episode.stop_reason),
            },
        )

    return score
