"""A seat behind NeMo Gym's interface: the same texts and rewards as in process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.toys import Relay, WordPair

from llm_marl_envs import register
from llm_marl_envs.bridges.nemo_gym import seat_server, text_of


class Base:
    def __init__(self) -> None:
        self.session_state: dict[str, Any] = {}


def response(*texts: str) -> Any:
    parts = [SimpleNamespace(type="output_text", text=text) for text in texts]
    call = SimpleNamespace(type="function_call", name="ignored")
    return SimpleNamespace(output=[call, SimpleNamespace(type="message", content=parts)])


@pytest.fixture(autouse=True)
def toys(own_registry: None) -> None:
    register("pair-v0", WordPair)
    register("relay-v0", Relay, api="aec")


def test_two_sessions_of_two_turns_side_by_side():
    async def played() -> list[Any]:
        server: Any = seat_server(Base, "pair-v0", {"right_0": "expert"})()
        openings = [await server.reset({"task": "fig-apple"}, name) for name in "ab"]
        assert openings == [("Say your word.\n\nYour word: fig", {})] * 2
        wrong = await server.step(response("kiwi"), {}, "a")
        right = await server.step(response("f", "ig"), {}, "b")
        again = await server.step(response("fig"), {}, "a")
        for name in "ab":
            await server.close_session(name)
        assert server.session_state == {}
        return [wrong, right, again]

    wrong, right, again = asyncio.run(played())
    assert wrong == (
        "Again.",
        0.5,
        False,
        False,
        {"reward_terms": {"words": 0.5}, "success": False},
    )
    assert right == (None, 1.0, True, False, {"reward_terms": {"words": 1.0}, "success": True})
    assert again == (None, 0.5, True, False, {"reward_terms": {"words": 0.5}, "success": True})


def test_turn_by_turn_and_tasks_of_the_row():
    async def played() -> Any:
        team = {"runner_1": "expert", "runner_2": "expert"}
        server: Any = seat_server(Base, "relay-v0", team)()
        opening, _ = await server.reset({"task": "cedar-fig", "seed": 3}, "a")
        return await server.step(response(opening.removeprefix("The word: ")), {}, "a")

    _, reward, ended, _, info = asyncio.run(played())
    assert (reward, ended, info["success"]) == (1.0, True, True)


def test_what_cannot_be():
    with pytest.raises(ValueError, match=r"\['runner_0', 'runner_1'\] are left without a partner"):
        seat_server(Base, "relay-v0", {"runner_2": "expert"})
    assert text_of(SimpleNamespace(output=[])) == ""
    assert text_of(SimpleNamespace(output=[SimpleNamespace(type="message", content="x")])) == "x"
