"""Agent Lightning: one debater learns; the others are played by scripted experts."""

from __future__ import annotations

from typing import Any

import agentlightning as agl

from llm_marl_envs.bridges.harness import Endpoint, play_episode

ENV = "debate-v0"
LEARNER = "debater_0"
PARTNERS: dict[str, Any] = {"debater_1": "expert", "debater_2": "expert"}
OPTIONS: dict[str, Any] = {"max_completion_length": 512, "retries": 0}


@agl.rollout
async def debater(task: dict[str, Any], llm: agl.LLM) -> float:
    """The learner's return in an episode of the task named in the row."""
    # The address names the rollout, so the proxy knows whose tokens it records.
    options = {**OPTIONS, "key": llm.api_key, "options": llm.sampling_parameters}
    learner = Endpoint(llm.get_base_url(), llm.model, options)
    episode = await play_episode(ENV, task["task"], seats={LEARNER: learner, **PARTNERS})
    return episode.undiscounted_return(LEARNER)


def check(seed: int) -> None:
    """What Agent Lightning makes of the function is an agent that it awaits."""
    if not (isinstance(debater, agl.LitAgent) and debater.is_async()):
        raise TypeError(f"expected an asynchronous LitAgent, got {debater!r}")
