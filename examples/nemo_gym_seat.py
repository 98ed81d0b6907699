"""NeMo Gym: a server for one debater; the other two are scripted.

With NeMo Gym installed, `resources_servers/debate/app.py` is these three lines:

    from resources_servers.gymnasium import GymnasiumServer
    Debater = debater(GymnasiumServer)
    Debater.run_webserver()
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from llm_marl_envs import make
from llm_marl_envs.bridges.nemo_gym import seat_server

PARTNERS = {"debater_1": "expert", "debater_2": "expert"}


def debater(base: type) -> type:
    """The server, on NeMo Gym's base class."""
    return seat_server(base, "debate-v0", PARTNERS)


class Interface:
    """The part of `GymnasiumServer` (0.5.0) that the server relies on."""

    def __init__(self) -> None:
        self.session_state: dict[str, Any] = {}


def answer(text: str) -> Any:
    """A response as NeMo Gym hands it on."""
    part = SimpleNamespace(type="output_text", text=text)
    return SimpleNamespace(output=[SimpleNamespace(type="message", content=[part])])


def check(seed: int) -> str:
    """Play an episode in each of two sessions, turn by turn, through the interface alone."""

    async def played() -> int:
        server: Any = debater(Interface)()
        task = make("debate-v0").source[seed].id
        for session in ("a", "b"):
            told, _ = await server.reset({"task": task, "seed": seed}, session)
            assert told
        turns = 0
        for session in ("a", "b"):
            over = False
            while not over:
                said = answer("I do not know. Answer: unknown")
                told, reward, ended, cut, info = await server.step(said, {}, session)
                over, turns = ended or cut, turns + 1
                assert (told is None) is over
                assert isinstance(reward, float)
                assert set(info) == {"reward_terms", "success"}
            await server.close_session(session)
        assert not server.session_state
        return turns

    return f"{asyncio.run(played())} turns"


if __name__ == "__main__":
    print(check(seed=0))
