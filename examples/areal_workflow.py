"""AReaL: both seats learn, and every answer earns what its own seat earned."""

from __future__ import annotations

from typing import Any

from llm_marl_envs.bridges.harness import Endpoint, play_episode

ENV = "coop_writing_tldr-v0"
SEATS = ("brief_0", "detailed_0")
OPTIONS: dict[str, Any] = {"max_completion_length": 512, "retries": 0}


class Team:
    """Give `workflow="areal_workflow.Team"`, and `turn_discount=0` in the agent's settings."""

    async def run(self, data: dict[str, Any], **extra: Any) -> dict[str, float]:
        """The reward of each answer, under the id that AReaL gave it."""
        # AReaL answers at /chat/completions, and the key tells it whose session this is.
        options = {**OPTIONS, "prefix": "", "key": extra["api_key"]}
        learner = Endpoint(extra["base_url"], "default", options)
        episode = await play_episode(ENV, data["task"], seats=dict.fromkeys(SEATS, learner))
        return {turn.response.id: episode.undiscounted_return(turn.agent) for turn in episode.turns}
