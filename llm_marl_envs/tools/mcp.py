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
        thread = threading.Thread(target=self._run, args=(ready,), daemon=True, name="mcp")
        thread.start()
        try:
            self.tools = ready.result(SECONDS)
        except Exception as error:
            raise ConnectionError(
                f"MCP server {server!r}: {type(error).__name__}: {error}"
            ) from error
        atexit.register(self.close, thread)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the server answers; errors of the SDK as they come.

        Raises:
            ConnectionError: the server is gone; the next call begins a new connection.
        """
        try:
            return self._wait(self._client.call_tool(name, dict(arguments)), SECONDS)
        except Exception:
            try:
                self._wait(self._client.list_tools(), ALIVE)
            except Exception as error:
                server_of.cache_clear()
                raise ConnectionError(f"the MCP server of {name!r} is gone") from error
            raise

    def _wait(self, asked: Any, seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(seconds)

    def close(self, thread: threading.Thread) -> None:
        """End the connection, and the server that was started for it."""
        if thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            thread.join(SECONDS)

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


@lru_cache
def server_of(server: str) -> Server:
    """The connection to a server, made once."""
    return Server(server)


class MCPTool(Tool):
    """A tool of a server; `mcp` makes the class of each.

    Attributes:
        server: a command line or an address.
        parameters: the JSON schema of the arguments, as the server has it.
    """

    seconds = SECONDS + 2 * ALIVE
    blocking = True
    replayable = False
    server: ClassVar[str]
    parameters: ClassVar[dict[str, Any]]

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """As they are, for the server checks them, but for characters that no pipe carries."""
        text = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")
        return json.loads(text)

    def schema(self) -> dict[str, Any]:
        """As the server has it."""
        return self.parameters

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The texts of the answer, one below the other.

        Raises:
            ValueError: the server says that it failed.
        """
        answer = server_of(self.server).call(self.name, arguments)
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
    return type("MCPTool", (MCPTool,), attributes)
