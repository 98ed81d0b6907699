"""NeMo Gym: one seat of an environment behind its Gymnasium-style server.

    from resources_servers.gymnasium import GymnasiumServer

    Seat = seat_server(GymnasiumServer, "debate-v0", {"debater_1": "expert", "debater_2": "expert"})
    if __name__ == "__main__":
        Seat.run_webserver()

NeMo Gym is not on the package index, so its base class is given. Written against version 0.5.0:
`await reset(metadata, session_id)` and `await step(action, metadata, session_id)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from llm_marl_envs.bridges.seats import Team, made_once, one_seat, told_since


def seat_server(base: type, env_id: str, partners: Team | None = None, **arguments: Any) -> type:
    """A subclass of NeMo Gym's `GymnasiumServer` that plays one seat.

    A row of the dataset may name the episode: `task` (an id or index) and `seed`, by default 0. The
    seat is told each message once, system messages too. The reward of a step is what the seat is
    paid from this action to its next; `info` holds the terms and the success.

    Args:
        base: `GymnasiumServer` of `resources_servers.gymnasium`.
        env_id: of a text environment.
        partners: agent -> policy or its name, for all seats but one; None: one agent plays all.
        arguments: of `make`.

    Raises:
        ValueError: no such environment or partner, or several seats are left.
    """
    team = made_once(env_id, partners, arguments)
    one_seat(env_id, team, arguments)  # what cannot be is said now

    class SeatServer(base):
        """One copy of the environment for each session."""

        async def reset(
            self, metadata: Mapping[str, Any], session_id: str | None = None
        ) -> tuple[str, dict[str, Any]]:
            """Begin the row's episode; what the seat is told."""
            env = one_seat(env_id, team, arguments)
            options = {"task": metadata["task"]} if "task" in metadata else None
            seed = int(metadata.get("seed", 0))
            observations, _infos = await asyncio.to_thread(env.reset, seed=seed, options=options)
            self.session_state[session_id] = env
            return told_since(observations[env.possible_agents[0]]), {}

        async def step(
            self, action: Any, metadata: Mapping[str, Any], session_id: str | None = None
        ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
            """Act with the text of the model's response.

            Raises:
                KeyError: no episode was begun in this session.
            """
            env = self.session_state[session_id]
            (seat,) = env.possible_agents
            played = await asyncio.to_thread(env.step, {seat: text_of(action)})
            observations, rewards, ended, cut, infos = played
            over = ended[seat] or cut[seat]
            news = None if over else told_since(observations[seat])
            kept = {name: infos[seat].get(name) for name in ("reward_terms", "success")}
            return news, float(rewards[seat]), ended[seat], cut[seat], kept

        async def close_session(self, session_id: str | None) -> None:
            """Close the session's environment."""
            env = self.session_state.pop(session_id, None)
            if env is not None:
                env.close()

    return SeatServer


def text_of(response: Any) -> str:
    """All text of a model's response, in the form of OpenAI's Responses API."""
    contents = [item.content for item in response.output if item.type == "message"]
    parts = [
        content
        if isinstance(content, str)
        else "".join(part.text for part in content if part.type == "output_text")
        for content in contents
    ]
    return "".join(parts)
