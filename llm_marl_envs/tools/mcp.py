"""`mcp:SERVER#TOOL`: a tool of a server that speaks the Model Context Protocol, by its own SDK.

    make("debate-v0", tools={"debater_0": ["mcp:python my_server.py#weather"]})
    make("debate-v0", tools={"debater_0": ["mcp:http://localhost:8000/mcp#weather"]})

A server is a command that is started here, or an address. All environments of a process share it.
What it answers may change from call to call, so an episode that called it does not replay, and an
algorithm that plays branches is refused.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import random
import shlex
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, ClassVar

from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.tools.base import Tool

SECONDS = 30.0
"""How long a call, or the start of a server, may take."""
ALIVE = 5.0
"""How long a server that failed may take to show that it is there."""


class Server:
    """A connection to a server, in a thread of its own.

    Args:
        server: a command line or an address.

    Raises:
        ImportError: the SDK is not installed; names the extra.
        ConnectionError: it cannot be started or reached.
    """

    def __init__(self, server: str) -> None:
        with Extra("mcp", "a tool of an MCP server"):
            import mcp  # pyright: ignore[reportMissingImports]

        remote: Any = server
        if not server.startswith(("http://", "https://")):
            command, *arguments = shlex.split(server)
            remote = mcp.StdioServerParameters(command=command, args=arguments)
        self._client = mcp.Client(remote)
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        ready: Future[dict[str, Any]] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True, name="mcp")
        self._thread.start()
        atexit.register(self.close)
        try:
            self.tools = ready.result(SECONDS)
        except Exception as error:
            self.close()
            why = f"{type(error).__name__}: {error}"
            raise ConnectionError(f"MCP server {server!r}: {why}") from error

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the server answers; errors of the SDK as they come."""
        return self._wait(self._client.call_tool(name, dict(arguments)), SECONDS)

    def answers(self) -> bool:
        """Whether the server is there."""
        if not self._thread.is_alive():
            return False
        try:
            self._wait(self._client.list_tools(), ALIVE)
        except Exception:  # noqa: BLE001 - whatever it is, there is no answer
            return False
        return True

    def close(self) -> None:
        """End the connection, and the server that was started for it."""
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(ALIVE)

    def _wait(self, asked: Any, seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(seconds)

    def _run(self, ready: Future[dict[str, Any]]) -> None:
        try:
            self._loop.run_until_complete(self._serve(ready))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the connection
            if not ready.done():
                ready.set_exception(error)

    async def _serve(self, ready: Future[dict[str, Any]]) -> None:
        async with self._client as client:
            listed = await client.list_tools()
            ready.set_result({tool.name: tool for tool in listed.tools})
            await self._end.wait()


_SERVERS: dict[str, Server] = {}
_LOCK = threading.Lock()  # environments step in threads


def server_of(server: str) -> Server:
    """The connection to a server, made once."""
    with _LOCK:
        if server not in _SERVERS:
            _SERVERS[server] = Server(server)
        return _SERVERS[server]


def called(server: str, name: str, arguments: Mapping[str, Any]) -> Any:
    """What a tool of a server answers.

    Raises:
        ConnectionError: the server is gone; the next call begins a new connection.
    """
    connection = server_of(server)
    try:
        return connection.call(name, arguments)
    except Exception as error:
        if connection.answers():
            raise
        with _LOCK:  # another thread may have found it out, and begun anew
            if _SERVERS.get(server) is connection:
                del _SERVERS[server]
        connection.close()
        raise ConnectionError(f"the MCP server {server!r} is gone") from error


class MCPTool(Tool):
    """A tool of a server; `mcp` makes the class of each.

    Attributes:
        argument: SERVER#TOOL, which makes the class.
        server: a command line or an address.
        parameters: the JSON schema of the arguments, as the server has it.
    """

    seconds = SECONDS + 2 * ALIVE
    blocking = True
    replayable = False
    argument: ClassVar[str]
    server: ClassVar[str]
    parameters: ClassVar[dict[str, Any]]

    def __reduce__(self) -> Any:
        """By the name of its class, which another process makes anew."""
        return _unpickled, (self.argument,), vars(self)

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """As they are, for the server checks them, but for characters that no pipe carries."""
        text = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")
        return json_of(text)

    def schema(self) -> dict[str, Any]:
        """As the server has it."""
        return self.parameters

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The texts of the answer, one below the other.

        Raises:
            ValueError: the server says that it failed.
        """
        answer = called(self.server, self.name, arguments)
        parts = [getattr(part, "text", f"[{part.type}]") for part in answer.content]
        if answer.is_error:
            raise ValueError(" ".join(parts) or "it failed")
        return "\n".join(parts)


@lru_cache
def mcp(argument: str) -> type[Tool]:
    """A tool of an MCP server, SERVER#TOOL.

    Raises:
        ValueError: no such form, or no such tool.
        ImportError, ConnectionError: as `Server`.
    """
    server, mark, name = argument.rpartition("#")
    if not (server and mark and name):
        raise ValueError(f"mcp:{argument}: expected mcp:SERVER#TOOL")
    tools = server_of(server).tools
    if name not in tools:
        raise ValueError(f"mcp:{argument}: the server has {', '.join(sorted(tools)) or 'no tools'}")
    about = " ".join((tools[name].description or name).split())
    schema = {"properties": {}, **tools[name].input_schema}
    attributes = {"name": name, "description": about, "server": server, "parameters": schema}
    return type("MCPTool", (MCPTool,), {**attributes, "argument": argument})


def _unpickled(argument: str) -> Tool:
    made = mcp(argument)
    return made.__new__(made)
