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
import logging
import os
import random
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import ValidationError

from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.files.foreign import QUOTED_CHARS, json_of
from llm_marl_envs.tools import mcp_guard
from llm_marl_envs.tools.base import Tool

SECONDS = 30.0
"""How long a call, or the start of a server, may take."""
ALIVE = 5.0
"""How long a server that failed may take to show that it is there."""
ENDING = 10.0
"""How long the SDK and the guard may take to end a server that does not want to; they need 7."""
MOST_PAGES = 100
"""Of a server's list of tools that are read."""
LOOKED_AT = 10_000
"""Characters of an answer in which its structured content is looked for."""

# What a server prints beside its answers is no error of ours, so it is no traceback of ours.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class Server:
    """A connection to a server, in a thread of its own, which begins at once.

    Args:
        server: a command line or an address.

    Raises:
        ImportError: the SDK is not installed; names the extra.
        ValueError: a command line that cannot be read.
        ConnectionError: there is no such command.
    """

    def __init__(self, server: str) -> None:
        with Extra("mcp", "a tool of an MCP server"):
            import mcp  # pyright: ignore[reportMissingImports]

        self.name = f"the MCP server {server!r:.200}"
        remote: Any = server
        if not server.startswith(("http://", "https://")):
            command, *arguments = self._guarded(server)
            remote = mcp.StdioServerParameters(
                command=command, args=arguments, encoding_error_handler="replace"
            )
        self._client = mcp.Client(remote)
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ready: Future[dict[str, Any]] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True, name="mcp")
        self._thread.start()
        atexit.register(self.close)

    def tools(self) -> dict[str, Any]:
        """Name -> tool, as the server lists them.

        Raises:
            ConnectionError: it cannot be started or reached; says why.
        """
        try:
            return self._ready.result(SECONDS)
        except Exception as error:
            why = f"no answer within {SECONDS:g} s" if not self._ready.done() else _cause(error)
            _forget(self)
            self.close()
            raise ConnectionError(f"{self.name}: {why}") from error

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the server answers; errors of the SDK as they come, TimeoutError after SECONDS."""
        return self._wait(lambda: self._client.call_tool(name, dict(arguments)), SECONDS)

    def answers(self) -> bool:
        """Whether the server is there."""
        try:
            self._wait(lambda: self._client.list_tools(cache_mode="bypass"), ALIVE)
        except Exception:  # noqa: BLE001 - whatever it is, there is no answer
            return False
        return True

    def close(self, wait: float = ENDING) -> None:
        """End the connection, and the server that was started for it, answer or not."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(wait)
        if not self._thread.is_alive():
            atexit.unregister(self.close)

    def _guarded(self, server: str) -> list[str]:
        """The command line, beside a guard that ends the server when this process is gone."""
        try:
            command = shlex.split(server)
        except ValueError as error:  # "No closing quotation"
            raise ValueError(f"{self.name}: {error}; it is read as a shell does") from error
        if not command:
            raise ValueError(f"{self.name}: expected a command or an address")
        if shutil.which(command[0]) is None:
            raise ConnectionError(f"{self.name}: no command {command[0]!r:.80} on the path")
        if os.name != "posix":
            return command
        return [sys.executable, "-I", "-S", mcp_guard.__file__, str(os.getpid()), *command]

    def _wait(self, ask: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> Any:
        if not self._thread.is_alive():
            raise ConnectionError(f"{self.name} is gone")
        asked = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        try:
            return asked.result(seconds)
        finally:
            asked.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the connection
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        """Hold the connection until the end; anyio's way to cancel lets the SDK end the server."""
        import anyio

        async def hold() -> None:
            async with self._client as client:
                self._ready.set_result(await _listed(client))
                await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await self._end.wait()
            group.cancel_scope.cancel()


async def _listed(client: Any) -> dict[str, Any]:
    """Name -> tool, of all pages of a server's list."""
    tools: dict[str, Any] = {}
    cursor = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools |= {tool.name: tool for tool in page.tools}
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _cause(error: BaseException) -> str:
    """What went wrong, in words: the first of several, and what the system said of it."""
    import mcp  # pyright: ignore[reportMissingImports]

    chain: list[BaseException] = []
    below: BaseException | None = error
    while below is not None and below not in chain:
        if isinstance(below, BaseExceptionGroup):
            below = below.exceptions[0]
            continue
        chain.append(below)
        below = below.__cause__ or below.__context__
    refused = [one for one in chain if isinstance(one, OSError) and one.errno]
    if refused:  # asyncio says "Connect call failed" of each
        number, words = refused[-1].errno or 0, refused[-1].strerror
        return f"cannot be reached: {os.strerror(number) if number > 0 else words}"
    if isinstance(chain[0], mcp.MCPError):
        return f"gave no answer that begins a connection: {_one_line(chain[0].message)}"
    return f"{type(chain[0]).__name__}: {_one_line(chain[0])}"


def _one_line(said: Any) -> str:
    return " ".join(str(said).split())[:QUOTED_CHARS]


_SERVERS: dict[str, Server] = {}
_LOCK = threading.Lock()  # environments step in threads


def server_of(server: str) -> Server:
    """The connection to a server, made once; errors as `Server` and `Server.tools`."""
    with _LOCK:
        if server not in _SERVERS:
            _SERVERS[server] = Server(server)
        connection = _SERVERS[server]
    connection.tools()
    return connection


def _forget(connection: Server) -> None:
    """Let the next call begin a new connection, unless another thread has begun one."""
    with _LOCK:
        for server in [name for name, one in _SERVERS.items() if one is connection]:
            del _SERVERS[server]


def called(server: str, name: str, arguments: Mapping[str, Any]) -> Any:
    """What a tool of a server answers.

    Raises:
        ConnectionError: the server is gone, or did not answer; where it is gone the next call
            begins a new connection.
        ValueError: it refused the call; says why.
    """
    import mcp  # pyright: ignore[reportMissingImports]

    connection = server_of(server)
    try:
        return connection.call(name, arguments)
    except Exception as error:
        hung = f"did not answer a call of {name!r:.80} within {SECONDS:g} s"
        late = isinstance(error, TimeoutError)
        if not connection.answers():
            _forget(connection)
            connection.close(wait=0)
            why = f"{hung} and is ended" if late else "is gone"
            raise ConnectionError(f"{connection.name} {why}") from error
        if late:
            raise ConnectionError(f"{connection.name} {hung}") from error
        if isinstance(error, mcp.MCPError):
            raise ValueError(error.message) from error
        if isinstance(error, ValidationError):
            return _mended(error)
        raise


def _mended(error: ValidationError) -> Any:
    """An answer without `content`, which the SDK refuses.

    Raises:
        ValueError: something else is wrong with it; says where.
    """
    import mcp  # pyright: ignore[reportMissingImports]

    first = error.errors(include_url=False)[0]
    if first["loc"] == ("content",) and first["type"] == "missing":
        return mcp.types.CallToolResult.model_validate({"content": [], **first["input"]})
    place = ".".join(map(str, first["loc"]))
    raise ValueError(f"the server's answer is none of the protocol: {place}: {first['msg']}")


class MCPTool(Tool):
    """A tool of a server; `mcp` makes the class of each.

    Attributes:
        argument: SERVER#TOOL, which makes the class.
        server: a command line or an address.
        parameters: the JSON schema of the arguments, as the server has it.
    """

    seconds = 2 * SECONDS + 3 * ALIVE  # a new start, a call and a look; each ends by itself
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
        """The parts of the answer as text, one below the other.

        Raises:
            ValueError: the server says that it failed.
            ConnectionError: as `called`.
        """
        answer = called(self.server, self.name, arguments)
        parts = [_shown(part) for part in answer.content]
        held = answer.structured_content
        if held is not None and not _holds("\n".join(parts)[:LOOKED_AT], held):
            parts.append(json.dumps(held, ensure_ascii=False))
        if answer.is_error:
            raise ValueError(" ".join(parts) or "it failed")
        return "\n".join(parts)


def _shown(part: Any) -> str:
    """A part of an answer: its text, or of which kind it is and what it is called."""
    inside = getattr(part, "resource", part)
    text = getattr(inside, "text", None)
    if isinstance(text, str):
        return text
    called = [str(getattr(inside, key, None) or "") for key in ("name", "uri", "mime_type")]
    return f"[{' '.join(filter(None, [part.type.replace('_', ' '), *called]))}]"


def _holds(text: str, held: Any) -> bool:
    """Whether every text and number in structured content stands in a text already."""
    if isinstance(held, Mapping):
        return all(_holds(text, one) for one in held.values())
    if isinstance(held, list):
        return all(_holds(text, one) for one in held)
    if not isinstance(held, str):
        return json.dumps(held) in text
    forms = (json.dumps(held)[1:-1], json.dumps(held, ensure_ascii=False)[1:-1])
    return held in text or any(form in text for form in forms)


@lru_cache
def mcp(argument: str) -> type[Tool]:
    """A tool of an MCP server, SERVER#TOOL.

    Raises:
        ValueError: no such form, or no such tool.
        ImportError, ConnectionError: as `Server`.
    """
    server, mark, name = argument.rpartition("#")
    if not (server and mark and name):
        raise ValueError(f"mcp:{argument:.200}: expected mcp:SERVER#TOOL")
    tools = server_of(server).tools()
    if name not in tools:
        known = ", ".join(sorted(tools)) or "no tools"
        raise ValueError(f"mcp:{argument:.200}: the server has {known:.200}")
    about = " ".join((tools[name].description or name).split())
    schema = {"properties": {}, **tools[name].input_schema}
    attributes = {"name": name, "description": about, "server": server, "parameters": schema}
    return type("MCPTool", (MCPTool,), {**attributes, "argument": argument})


def _unpickled(argument: str) -> Tool:
    made = mcp(argument)
    return made.__new__(made)
