"""The side of a program: loads its source, then answers calls with plain values.

Owns loading, calling and the stand-ins for functions of other programs. Everything in this process
belongs to the program, this module included; nothing it sends is believed.

Messages received: {"id", "call", "args", "kwargs"} and, during a call, the answer to a request for
another program's function, or for a function that a test passed. Messages sent: one load report,
then per call any number of {"request", "args", "kwargs"} or {"lent", "args", "kwargs"} and a final
{"id", "value"} or {"id", "raised"}.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import codec, faults
from .wire import Channel

MAX_NAMES = 500


def serve(channel: Channel, job: dict[str, Any]) -> None:
    """Load `job["source"]` and answer calls until the other side hangs up."""
    module = new_module(job["name"])
    link = Link(channel)
    _install(module, link, job["imports"])
    report = load(job["source"], module, f"<{job['name']}>")
    if report is None:
        names = [n for n, v in list(vars(module).items()) if type(n) is str and callable(v)]
        report = {"ready": True, "names": names[:MAX_NAMES]}
    with link.lock:
        channel.send(report)
    if "ready" not in report:
        return
    while True:
        answer(channel, link, module, channel.receive())


def load(source: str, module: ModuleType, filename: str) -> dict[str, Any] | None:
    """Run a program's text in `module`. Returns None, or the report of what stopped it."""
    try:
        code = compile(source, filename, "exec", dont_inherit=True)
    except BaseException as error:  # noqa: BLE001 - the text may be anything; see faults.describe
        where = {"line": getattr(error, "lineno", None), "column": getattr(error, "offset", None)}
        return {"failed": "compile", **faults.describe(error), **where}
    try:
        exec(code, vars(module))
    except BaseException as error:  # noqa: BLE001 - untrusted code raises what it likes
        return {"failed": "run", **faults.describe(error), "line": _line_of(error, filename)}
    return None


def _line_of(error: BaseException, filename: str) -> int | None:
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == filename:
            line = step.tb_lineno
        step = step.tb_next
    return line


def new_module(name: str) -> ModuleType:
    """An empty module for a program."""
    module = ModuleType(f"program_{name}")
    # dataclasses and typing look a class's module up by name.
    sys.modules[module.__name__] = module
    return module


class Link:
    """Sends requests for other programs' functions while a call is being answered."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.lock = threading.Lock()
        self.open = True  # requests are answered while loading and during a call only

    def argument(self, data: Any) -> Any:
        """An argument of a test's call: a value, or a function that it passed."""
        lent = type(data) is dict and "lent" in data
        return self.stand_in("the function", data) if lent else codec.decode(data)

    def stand_in(self, name: str, which: dict[str, Any]) -> Callable[..., Any]:
        """What calls a function of another program, or one that a test passed."""

        def function(*args: Any, **kwargs: Any) -> Any:
            encoded = codec.encode(list(args))
            named = [[key, codec.encode(value)] for key, value in kwargs.items()]
            return self.ask(name, {**which, "args": encoded, "kwargs": named})

        function.__name__ = function.__qualname__ = name
        return function

    def ask(self, name: str, message: dict[str, Any]) -> Any:
        """Send a request and return or raise what is answered."""
        with self.lock:
            if not self.open:
                raise RuntimeError(f"{name} may only be called while a call is being answered")
            self.channel.send(message)
            reply = self.channel.receive()
        if "value" in reply:
            return codec.decode(reply["value"])
        names = faults.names_of(reply["raised"])
        error = faults.rebuild(names, reply["message"])
        raise error if error is not None else SystemExit(f"{name} raised {names[:1]}")


def _install(module: ModuleType, link: Link, imports: dict[str, list[str]]) -> None:
    """Put stand-ins into the program's globals, and into a module named after their owner."""
    for owner, names in imports.items():
        functions = {name: link.stand_in(name, {"request": name}) for name in names}
        vars(module).update(functions)
        if owner.isidentifier() and owner not in sys.modules:
            sys.modules[owner] = ModuleType(owner)
            vars(sys.modules[owner]).update(functions)


def answer(channel: Channel, link: Link, module: ModuleType, message: dict[str, Any]) -> None:
    """Make one call of the program's and send what it gave."""
    link.open = True
    try:
        args = [link.argument(data) for data in message["args"]]
        kwargs = {name: link.argument(data) for name, data in message["kwargs"]}
        reply = {"value": codec.encode_any(vars(module)[message["call"]](*args, **kwargs))}
    except BaseException as error:  # noqa: BLE001 - untrusted code raises what it likes
        reply = faults.describe(error)
    with link.lock:
        link.open = False
        channel.send({"id": message["id"], **reply})
