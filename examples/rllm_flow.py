"""rLLM: both seats learn from the calls that its gateway records."""

from __future__ import annotations

from typing import Any

import rllm
from rllm.types import AgentConfig, Episode, Step, Task, Trajectory

from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.core.records import Turn
from llm_marl_envs.policies import EndpointPolicy

ENV = "coop_writing_tldr-v0"
SEATS = ("brief_0", "detailed_0")
OPTIONS: dict[str, Any] = {"max_completion_length": 512, "retries": 0}


@rllm.rollout
async def team(task: Task, config: AgentConfig) -> Episode:
    """An episode of the task named in the row; every turn is a trajectory, in the order played."""
    # rLLM finds the tokens of a step by the order of calls, so one call comes after the other.
    policy = EndpointPolicy(config.base_url, config.model, concurrency=1, **OPTIONS)
    episode = await play_episode(ENV, task.metadata["task"], seats=dict.fromkeys(SEATS, policy))
    return Episode(
        trajectories=[
            Trajectory(
                name=turn.agent,
                steps=[step(turn)],
                reward=episode.undiscounted_return(turn.agent),
            )
            for turn in episode.turns
        ],
        is_correct=bool(episode.success),
    )


def step(turn: Turn) -> Step:
    """A turn as rLLM writes it; its gateway adds the tokens."""
    told = [{"role": message.role, "content": message.content} for message in turn.messages]
    chat = [*told, {"role": "assistant", "content": turn.action}]
    return Step(chat_completions=chat, model_response=turn.action, action=turn.action)
