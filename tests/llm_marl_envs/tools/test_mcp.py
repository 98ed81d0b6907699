"""Tools of a real server that speaks the Model Context Protocol, started by the test."""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.branches import NotReplayableError
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.tools.mcp import mcp, server_of

pytest.importorskip("mcp")

SERVER = '''
import os

from mcp.server.mcpserver import MCPServer

server = MCPServer("numbers")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum of two
    numbers."""
    return a + b


@server.tool()
def shout(text: str) -> str:
    return text.upper()


@server.tool()
def leaves() -> str:
    os._exit(1)


@server.tool()
def fails() -> str:
    raise RuntimeError("inside")


server.run()
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("mcp") / "server.py"
    path.write_text(SERVER)
    return f"{sys.executable} {path}"


def told(server: str, tool: str, call: str) -> tuple[str, dict[str, Any]]:
    """What a seat is told of a call, and what its info keeps."""
    env = make("debate-v0", tools={"debater_0": [f"mcp:{server}#{tool}"]})
    team = dict.fromkeys(
        env.possible_agents, ScriptedPolicy(lambda r: call if r.turn == 0 else "x")
    )
    (episode,) = rollout(VectorTextEnv([env]), team, [Start(task=0)])
    first, second, *_ = episode.trajectory("debater_0")
    with pytest.raises(NotReplayableError, match="tools"):
        replay(episode, env)
    return second.messages[-1].content, first.info["call"]


@pytest.mark.parametrize(
    ("tool", "call", "result", "failed"),
    [
        ("add", 'Call: add({"a": 2, "b": 3})', "> 5", False),
        ("shout", "Call: shout(hello)", "> HELLO", False),
        ("shout", 'Call: shout({"words": "x"})', "text", True),
        ("fails", "Call: fails()", "fails", True),
        ("shout", 'Call: shout({"text": "\\ud800"})', "> ?", False),
    ],
)
def test_a_call_is_answered_by_the_server(
    server: str, tool: str, call: str, result: str, failed: bool
) -> None:
    news, facts = told(server, tool, call)
    assert result in news
    assert bool(facts["failed"]) is failed


def test_a_seat_is_told_what_the_server_says_of_the_tool(server: str) -> None:
    env = make("debate-v0", tools={"debater_0": [f"mcp:{server}#add"]})
    env.reset(seed=0)
    told = env.observe("debater_0")
    assert 'Call: add({"a": ..., "b": ...})\n  gives The sum of two numbers.' in told
    assert not env.unwrapped.replayable


@pytest.mark.parametrize("argument", ["", "#add", "python x.py#", "python x.py"])
def test_a_name_of_another_form_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="SERVER#TOOL"):
        mcp(argument)


def test_what_there_is_not(server: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="add, fails, leaves, shout"):
        make("debate-v0", tools={"debater_0": [f"mcp:{server}#subtract"]})
    with pytest.raises(ConnectionError, match="no_server"):
        mcp(f"{sys.executable} {tmp_path / 'no_server.py'}#add")


def test_a_server_that_is_gone_is_no_fault_of_the_seat(server: str, tmp_path: Path) -> None:
    """The episode fails as where any server breaks; the next call begins a new connection."""
    second = tmp_path / "second.py"
    second.write_text(SERVER)
    other = f"{sys.executable} {second}"
    first, healthy = server_of(server), server_of(other)
    env = make("debate-v0", tools={"debater_0": [f"mcp:{server}#leaves", f"mcp:{other}#shout"]})
    env.reset(seed=0)
    begun = time.perf_counter()
    with pytest.raises(ConnectionError, match="gone"):
        env.step("Call: leaves()")
    assert time.perf_counter() - begun < 20
    assert "> HI" in told(server, "shout", "Call: shout(hi)")[0]
    assert server_of(server) is not first
    assert server_of(other) is healthy
    assert healthy.answers()
    assert not first.answers()


def test_an_environment_goes_to_another_process(server: str) -> None:
    """Vector environments of other libraries pickle what they are given."""
    env = make("math_team-v1", tools={"actor": [f"mcp:{server}#add"]})
    env.reset(seed=0, options={"task": 3})
    env.step("6 3 5 4")
    again = pickle.loads(pickle.dumps(env))
    for copy in (env, again):
        copy.step('Call: add({"a": 2, "b": 3})')
        assert copy.observe("actor_0").messages[-1].content.splitlines()[1] == "> 5"
