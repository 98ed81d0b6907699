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

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_marl_envs.bridges.harness import Awaited, play_episode
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.records import Episode, Request, Response, episode_to_dict
from llm_marl_envs.registry import make
from llm_marl_envs.spaces import Message

try:
    from inspect_ai import Task  # pyright: ignore[reportMissingImports]
    from inspect_ai.dataset import MemoryDataset, Sample  # pyright: ignore[reportMissingImports]
    from inspect_ai.model import (  # pyright: ignore[reportMissingImports]
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        get_model,
        model_roles,
    )
    from inspect_ai.scorer import (  # pyright: ignore[reportMissingImports]
        Score,
        Target,
        mean,
        scorer,
        stderr,
    )
    from inspect_ai.solver import (  # pyright: ignore[reportMissingImports]
        Generate,
        TaskState,
        solver,
    )
except ImportError as error:
    raise ImportError(
        "Inspect needs the extra 'inspect': pip install 'llm-marl-envs[inspect]'"
    ) from error

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
    env, played = make(env_id, **kwargs), dict(partners or {})
    unknown = sorted(set(played) - set(env.possible_agents))
    if unknown:
        raise ValueError(f"{env_id}, partners: no {unknown}; it has {list(env.possible_agents)}")
    samples = [
        Sample(id=one.id, input=f"{env_id}, task {one.id}") for one in env.unwrapped.source
    ]
    return Task(
        dataset=MemoryDataset(samples, name=env_id),
        solver=team(env_id, played, seed, kwargs),
        scorer=returns(),
        name=env_id,
    )


@solver
def team(
    env_id: str, partners: dict[str, Any], seed: int, kwargs: dict[str, Any]
) -> Any:
    """Plays the episode of a sample; arguments as `task`."""
    seats = list(make(env_id, **kwargs).possible_agents)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        asked_seats = [agent for agent in seats if agent not in partners]
        empty = [agent for agent in asked_seats if agent not in model_roles()]
        if empty:
            raise ValueError(
                f"{env_id}: nobody plays {empty}; name a model for each, e.g. model_roles="
                f"{{{empty[0]!r}: ...}}, or a partner, e.g. partners={{{empty[0]!r}: 'expert'}}"
            )
        models = {agent: get_model(role=agent) for agent in asked_seats}

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
                seats={**dict.fromkeys(asked_seats, asked), **partners},
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
        episode = state.metadata[EPISODE]
        ...

    return score
