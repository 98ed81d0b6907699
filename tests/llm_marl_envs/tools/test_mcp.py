"""Tools of a real server that speaks the Model Context Protocol, started by the test."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import shlex
import signal
import subprocess
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
from llm_marl_envs.tools import mcp as module
from llm_marl_envs.tools import mcp_guard
from llm_marl_envs.tools.mcp import mcp, server_of

pytest.importorskip("mcp")
ODD = f"{sys.executable} {Path(__file__).parents[2] / 'support' / 'odd_mcp_server.py'}"
ITEM = '{"a": [42, "caf\u00e9 \\"x\\""]}'

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


# -- what servers answer --------------------------------------------------------------------------
def answered(tool: str) -> str:
    """What a tool of the odd server answers."""
    kind = mcp(f"{ODD} answers#{tool}")
    return kind.__new__(kind).call({}, None, random.Random(0))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("plain", "It is done.\nTwice."),
        ("structured", ITEM),
        ("alone", ITEM),
        ("beside", f"It is done.\n{ITEM}"),
        ("both", json.dumps(json.loads(ITEM), indent=1)),
        ("wrapped", "5"),
        ("embedded", "Oslo"),
        (
            "mixed",
            "[image image/png]\n[audio audio/wav]\n[resource link notes file:///a.txt]\n"
            f"[resource file:///c]\nOslo\n{ITEM}",
        ),
    ],
)
def test_all_that_an_answer_holds_is_told_once(tool: str, text: str) -> None:
    assert answered(tool) == text


@pytest.mark.parametrize(
    ("tool", "word"),
    [
        ("failed", "42"),
        ("failed_embedded", "^Oslo$"),
        ("refused", "^q must be a town$"),
        ("wrong", "none of the protocol: content.0"),
    ],
)
def test_an_error_says_what_the_server_says(tool: str, word: str) -> None:
    with pytest.raises(ValueError, match=word) as told:
        answered(tool)
    assert "\n" not in str(told.value)


def test_a_list_of_tools_has_pages_and_an_end() -> None:
    assert {"plain", "blocks"} <= {*server_of(f"{ODD} answers").tools()}
    endless = server_of(f"{ODD} endless")
    assert {*endless.tools()} == {*server_of(f"{ODD} answers").tools()}
    endless.close()


def test_what_a_server_prints_beside_its_answers_is_not_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own
    assert answered("plain")
    assert capfd.readouterr() == ("", "")


# -- servers that do not answer -------------------------------------------------------------------
@pytest.mark.parametrize(("tool", "end"), [("hangs", ""), ("blocks", " and is ended")])
def test_a_call_that_is_not_answered_is_the_servers_fault(
    tool: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make("debate-v0", tools={"debater_0": [f"mcp:{ODD} {tool}#{tool}"]})
    env.reset(seed=0)
    first = server_of(f"{ODD} {tool}")
    monkeypatch.setattr(module, "SECONDS", 0.4)
    monkeypatch.setattr(module, "ALIVE", 0.3)
    begun = time.perf_counter()
    with pytest.raises(ConnectionError, match=f"call of '{tool}' within 0.4 s{end}$"):
        env.step(f"Call: {tool}()")
    assert time.perf_counter() - begun < 5
    monkeypatch.undo()
    assert (server_of(f"{ODD} {tool}") is first) is (not end)
    server_of(f"{ODD} {tool}").close()


def living(processes: str) -> list[int]:
    """Those of a list of process ids that have not ended."""
    found = []
    for pid in map(int, processes.split()):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [pid] if state != "Z" else []
    return found


def written(file: Path) -> str:
    """What the silent server writes once it is there."""
    until = time.monotonic() + 20
    while not (file.is_file() and len(file.read_text().split()) == 3):
        assert time.monotonic() < until
        time.sleep(0.02)
    return file.read_text()


def all_ended(processes: str) -> bool:
    """Whether they end within some seconds."""
    until = time.monotonic() + 10
    while living(processes) and time.monotonic() < until:
        time.sleep(0.02)
    return not living(processes)


def test_a_server_that_never_answers_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.2)
    with pytest.raises(ConnectionError, match=r"no answer within 1 s$"):
        mcp(f"{ODD} silent {tmp_path / 'pids'}#x")
    assert living(written(tmp_path / "pids")) == []


def test_a_guard_whose_process_is_gone_ends_the_server(tmp_path: Path) -> None:
    guard = f"{sys.executable} -I -S {mcp_guard.__file__} $$ {ODD} silent {tmp_path / 'pids'}"
    with subprocess.Popen(["sh", "-c", f"{guard} & wait"], start_new_session=True) as shell:
        processes = written(tmp_path / "pids")
        assert len(living(processes)) == 3
        shell.kill()
    assert all_ended(processes)


@pytest.mark.full
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_process_that_is_killed(tmp_path: Path, by: int) -> None:
    program = (
        f"from llm_marl_envs.tools.mcp import mcp; mcp({ODD + f' silent {tmp_path}/pids#x'!r})"
    )
    with subprocess.Popen([sys.executable, "-c", program], env=dict(os.environ)) as ours:
        processes = written(tmp_path / "pids")
        assert len(living(processes)) == 3
        ours.send_signal(by)
        ours.wait(30)
    assert all_ended(processes)


REFUSAL = """
import json, sys
error = {"code": 1, "message": "not\\ntoday " * 99}
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""
REFUSES = shlex.join([sys.executable, "-c", REFUSAL])


@pytest.mark.parametrize(
    ("server", "error", "words"),
    [
        (REFUSES, ConnectionError, "begins a connection: not today not today"),
        ("no-such-command x", ConnectionError, "no command 'no-such-command' on the path"),
        ("python 'unclosed", ValueError, "python 'unclosed\": No closing quotation"),
        (" ", ValueError, "expected a command"),
        ("true", ConnectionError, "'true': .*Connection closed"),
        ("http://127.0.0.1:9/mcp", ConnectionError, "127.0.0.1:9.*Connection refused"),
        ("http://name.invalid/mcp", ConnectionError, "cannot be reached"),
    ],
)
def test_a_start_that_fails_says_why(server: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as refused:
        mcp(f"{server}#add")
    assert "\n" not in str(refused.value)
