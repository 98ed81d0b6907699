"""Calls between processes, as the judge sees them: who may call whom, by value.

Owns the exchange with programs, the requests of one program for a function of another, the
functions that tests lend to programs, and the trace. Everything received is decoded and encoded
anew before it goes on. Does not own tests nor verdicts (`judge`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from . import codec, faults
from .wire import Channel, ProtocolError

MAX_CALLS = 20_000  # of the entry point, of helpers and of lent functions, in one run
MAX_TRACE = 200  # helper calls that are reported
MAX_TRACE_TEXT = 4_096  # characters of one encoded value in the trace; longer ones become opaque
MAX_ERROR = 200


class Failure(BaseException):
    """A failure of a program that no `except` of a test may hide."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class Fatal(Failure):
    """A failure after which the program that caused it cannot answer any more."""

    def __init__(self, status: str, text: str, author: str) -> None:
        super().__init__(status, text)
        self.author = author


class Router:
    """Carries calls between tests and programs, and between programs, in plain values."""

    def __init__(self, job: dict[str, Any], peers: list[Channel]) -> None:
        self.programs: list[str] = job["programs"]
        self.exports: dict[str, list[str]] = job["exports"]
        self.peers = dict(zip(self.programs, peers, strict=True))
        self.main = self.programs[-1]
        self.functions: dict[str, list[str]] = {}  # callable names by program
        self.owner = {f: owner for owner, names in self.exports.items() for f in names}
        self.current = -1  # index of the unit that runs
        self.helper_calls: Counter[int] = Counter()  # by unit
        self.trace: list[list[Any]] = []
        self.lent: list[Callable[..., Any]] = []  # functions the test passed in the present call
        self.calls = 0
        self.received: set[str] = set()  # canonical values helpers returned in the present call

    def loaded(self, program: str) -> tuple[str, str, str] | None:
        """Wait for a program's load report. Returns (status, detail, author) if it failed."""
        while "request" in (message := self.receive(program)):
            self.relay(program, message)
        if message.get("ready") is True:
            names = message.get("names")
            if type(names) is not list:
                raise Fatal("protocol", "malformed load report", program)
            self.functions[program] = [n for n in names if type(n) is str]
            return None
        names = faults.names_of(message.get("raised"))
        if not names:
            raise Fatal("protocol", "malformed load report", program)
        text = message.get("message")
        detail = f"{names[0]}: {text[:MAX_ERROR]}" if type(text) is str else names[0]
        for place in ("line", "column"):
            if type(message.get(place)) is int:
                detail += f", {place} {message[place]}"
        status = "load_error"
        if message.get("failed") == "run":
            ends = {"SystemExit": "early_exit", "MemoryError": "memory"}
            status = next((ends[n] for n in names if n in ends), status)
        return status, detail, program

    def exchange(self, program: str, name: str, args: Any, kwargs: Any) -> dict[str, Any]:
        """One call of a program, serving its requests meanwhile. Returns its final reply."""
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise Fatal("protocol", f"more than {MAX_CALLS} calls", program)
        call = {"id": self.calls, "call": name, "args": args, "kwargs": kwargs}
        number = self.calls
        self.send(program, call)
        while True:
            reply = self.receive(program)
            if "request" in reply:
                self.relay(program, reply)
            elif "lent" in reply:
                self.call_lent(program, reply)
            else:
                break
        if reply.get("id") != number or type(reply["id"]) is not int:
            raise Fatal("protocol", "a reply to no call", program)
        return reply

    def lend(self, function: Callable[..., Any]) -> dict[str, int]:
        """The encoded form of a test's function, which the program may call until it returns."""
        self.lent.append(function)
        return {"lent": len(self.lent) - 1}

    def call_lent(self, program: str, message: dict[str, Any]) -> None:
        """Call a function that the test passed to the program, with plain values."""
        self.calls += 1
        try:
            function = self.lent[int(message["lent"])]
            args = codec.decode(message["args"])
            kwargs = {str(key): codec.decode(data) for key, data in message["kwargs"]}
        except (LookupError, TypeError, ValueError, OverflowError):
            raise Fatal("protocol", "a malformed call of a test's function", program) from None
        if self.calls > MAX_CALLS or program != self.main:
            raise Fatal("protocol", f"more than {MAX_CALLS} calls", program)
        try:
            answer = {"value": codec.encode_any(function(*args, **kwargs))}
        except Exception as error:  # noqa: BLE001 - the program is to see what the function raised
            answer = faults.describe(error)
        self.send(program, answer)

    def relay(self, program: str, message: dict[str, Any]) -> None:
        """Answer one program's request for a function of another, by value."""
        name = message["request"]
        owner = self.owner.get(name) if type(name) is str else None
        if owner is None or owner == program or program != self.main:
            raise Fatal("protocol", "a request for a function that is not exported", program)
        try:
            values, opaque = codec.decode_checked(message["args"])
            args = [codec.encode(value) for value in values]
            kwargs = []
            for key, data in message["kwargs"]:
                value, odd = codec.decode_checked(data)
                kwargs.append([str(key), codec.encode(value)])
                opaque = opaque or odd
        except (KeyError, TypeError, ValueError):
            raise Fatal("protocol", "a malformed request", program) from None
        if opaque:
            self.send(
                program, {"raised": ["TypeError"], "message": f"{name} takes plain values only"}
            )
            return
        if owner not in self.functions:
            stopped = self.loaded(owner)
            if stopped is not None:
                raise Fatal(*stopped)
        if name not in self.functions[owner]:
            text = f"name '{name}' is not defined"
            self.send(program, {"raised": ["NameError"], "message": text})
            return
        self.helper_calls[self.current] += 1
        reply = self.exchange(owner, name, args, kwargs)
        self.send(program, self.checked(owner, name, args, kwargs, reply))

    def checked(
        self, owner: str, name: str, args: Any, kwargs: Any, reply: dict[str, Any]
    ) -> dict[str, Any]:
        """A helper's reply, made anew from decoded parts, and noted in the trace."""
        if "value" in reply:
            try:
                result = codec.encode(codec.decode(reply["value"]))
            except codec.CodecError as error:
                text = f"{name} returned a malformed value: {error}"
                raise Fatal("protocol", text, owner) from None
            text = codec.canonical(result)
            self.received.add(text)
            answer: dict[str, Any] = {"value": result}
        else:
            names = faults.names_of(reply.get("raised"))
            status, text = ending(names, reply.get("message"))
            if status != "exception":
                raise Fatal(status, f"{name} raised {text}", owner)
            result = {"x": f"raised {text}"[: codec.MAX_NAME]}
            message = reply.get("message")
            answer = {"raised": names, "message": message if type(message) is str else ""}
        if len(self.trace) < MAX_TRACE:
            named = {"d": kwargs}
            whole = {"t": [*args, named] if kwargs else args}
            self.trace.append([self.current, name, _bounded(whole), _bounded(result)])
        return answer

    def send(self, program: str, message: object) -> None:
        """Send a message to a program. Raises Fatal if it is gone."""
        try:
            self.peers[program].send(message)
        except OSError:
            raise Fatal("died", f"{program} ended", program) from None

    def receive(self, program: str) -> dict[str, Any]:
        """The next message of a program. Raises Fatal if it is gone or talks nonsense."""
        try:
            message = self.peers[program].receive()
        except EOFError:
            raise Fatal("died", f"{program} ended", program) from None
        except ProtocolError as error:
            raise Fatal("protocol", str(error), program) from None
        except MemoryError:
            raise Fatal("memory", "a message that fills the tests' memory", program) from None
        if type(message) is not dict:
            raise Fatal("protocol", "a message that is no object", program)
        return message


def ending(names: list[str], message: Any) -> tuple[str, str]:
    """Status and text of an exception that travelled."""
    text = f"{names[0] if names else 'an unnamed exception'}"
    if type(message) is str and message:
        text += f": {message[:MAX_ERROR]}"
    if "SystemExit" in names:
        return "early_exit", text
    if "MemoryError" in names:
        return "memory", text
    return "exception", text


def _bounded(encoded: Any) -> Any:
    if len(codec.canonical(encoded)) > MAX_TRACE_TEXT:
        return {"x": "too large to report"}
    return encoded
