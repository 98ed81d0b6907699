"""The side of the tests: runs them against stand-ins and decides the verdict.

Owns the running of units, the routing of calls between programs, and the report. Tests are trusted;
what programs send is not: it is decoded into plain values here and nowhere runs. Does not own
limits on time, which the parent keeps, nor the reading of wait statuses.

Job: {"tests": source or null for those of the job before, "entry", "programs": [names, the last
owns the entry point], "exports": {program: [function names]}}, with one descriptor per program.
Report: see `_Run.report`.
"""

from __future__ import annotations

import builtins
import os
import random
import reprlib
import sys
import time
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from . import codec, faults
from .units import UNIT, Plan, split
from .wire import Channel, ProtocolError, SocketChannel

MAX_CALLS = 20_000  # of the entry point and of helpers, in one run
MAX_TRACE = 200  # helper calls that are reported
MAX_TRACE_TEXT = 4_096  # characters of one encoded value in the trace; longer ones become opaque
MAX_ERROR = 200

_show = reprlib.Repr()
_show.maxstring = _show.maxother = 60


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


def serve(channel: SocketChannel, job: dict[str, Any]) -> None:
    """Judge jobs that share their tests, one after another, until the parent hangs up."""
    plan: Plan | None = None
    while True:
        fds = channel.fds[:]
        channel.fds.clear()
        try:
            if job["tests"] is not None:
                plan = split(job["tests"], job["entry"])
            assert plan is not None, "the first job brings its tests"
            report = _Run(plan, job, [Channel(fd) for fd in fds]).run()
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            report = {"bad_tests": f"{type(error).__name__}: {error}"[:500]}
        for fd in fds:
            os.close(fd)
        channel.send({**report, "cpu": time.process_time()})
        job = channel.receive()


class _Outcome:
    """What became of one unit."""

    def __init__(self) -> None:
        self.passed: bool | None = None  # None: not reached
        self.error = ""
        self.status = "wrong"
        self.helper_calls = 0
        self.relayed = False

    def fail(self, status: str, error: str) -> None:
        if self.passed is not False:
            self.passed, self.status, self.error = False, status, error[:MAX_ERROR]


class _Unit:
    """The context manager around one unit."""

    def __init__(self, run: _Run, index: int) -> None:
        self.run = run
        self.index = index

    def __enter__(self) -> None:
        self.run.current = self.index
        self.run.last = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        run, outcome = self.run, self.run.outcomes[self.index]
        run.current = -1
        if error is None:
            if outcome.passed is None:
                outcome.passed = True
            return True
        if isinstance(error, Failure):
            outcome.fail(error.status, str(error))
            return not isinstance(error, Fatal)
        if isinstance(error, MemoryError):
            outcome.fail("memory", "MemoryError")
        elif error is run.raised:
            outcome.fail("exception", _text(error))
        else:
            outcome.fail("wrong", ", ".join(filter(None, (_text(error), run.last))))
        return True


def _text(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Run:
    def __init__(self, plan: Plan, job: dict[str, Any], peers: list[Channel]) -> None:
        self.plan = plan
        self.entry: str = job["entry"]
        self.programs: list[str] = job["programs"]
        self.exports: dict[str, list[str]] = job["exports"]
        self.peers = dict(zip(self.programs, peers, strict=True))
        self.main = self.programs[-1]
        self.functions: dict[str, list[str]] = {}  # callable names by program
        self.owner = {f: owner for owner, names in self.exports.items() for f in names}
        self.outcomes = [_Outcome() for _ in plan.units]
        self.current = -1
        self.last = ""  # what the entry point gave back last, for feedback
        self.raised: BaseException | None = None  # what a program raised last
        self.trace: list[list[Any]] = []
        self.fatal: Fatal | None = None
        self.calls = 0
        self.received: set[str] = set()  # canonical values helpers returned in the present call

    def run(self) -> dict[str, Any]:
        """Load, test, report."""
        try:
            for program in self.programs:
                stopped = self.loaded(program)
                if stopped is not None:
                    return self.report(*stopped)
            if self.entry not in self.functions[self.main]:
                text = f"{self.main} defines no function {self.entry}"
                return self.report("no_entry_point", text, self.main)
            random.seed(0)
            self.test()
        except Fatal as fatal:
            self.fatal = fatal
        if self.fatal is not None:
            return self.report(self.fatal.status, str(self.fatal), self.fatal.author)
        return self.report(None, "", None)

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

    def test(self) -> None:
        """Run every unit against the stand-ins."""
        module = ModuleType("tests")
        sys.modules["tests"] = module
        space = vars(module)
        space[UNIT] = lambda index: _Unit(self, index)
        for name in self.plan.names - vars(builtins).keys():
            if name in self.functions[self.main]:
                space[name] = self.stand_in(self.main, name)
            elif name in self.owner:
                space[name] = self.stand_in(self.owner[name], name)
            elif name in sys.modules and name in sys.stdlib_module_names:
                space[name] = sys.modules[name]
        candidate = self.stand_in(self.main, self.entry)
        space[self.entry] = space["candidate"] = candidate
        try:
            exec(self.plan.code, space)
            if self.plan.check:
                space["check"](candidate)
            for unit, name in self.plan.functions:
                with _Unit(self, unit):
                    space[name]()
            for unit, owner, method in self.plan.classes:
                with _Unit(self, unit):
                    space[owner](method).debug()
        except Failure:
            raise
        except Exception as error:  # noqa: BLE001 - outside any unit: the tests themselves are broken
            raise ValueError(f"outside any test: {_text(error)}") from None
        for outcome in self.outcomes:
            if outcome.passed is None:  # the tests returned before this one, as they would anywhere
                outcome.passed = True

    def stand_in(self, program: str, name: str) -> Callable[..., Any]:
        """A function that calls `name` in the program's process."""

        def candidate(*args: Any, **kwargs: Any) -> Any:
            return self.call(program, name, args, kwargs)

        candidate.__name__ = candidate.__qualname__ = name
        return candidate

    def call(self, program: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function for a test. Raises what it raised, or Failure."""
        encoded = codec.encode(list(args))
        named = [[key, codec.encode(value)] for key, value in kwargs.items()]
        self.received.clear()
        try:
            reply = self.exchange(program, name, encoded, named)
        except Fatal as fatal:
            self.fatal = fatal  # counts even where a test swallows it
            if self.current >= 0:
                self.outcomes[self.current].fail(fatal.status, str(fatal))
            raise
        if "value" not in reply:
            names = faults.names_of(reply.get("raised"))
            error = faults.rebuild(names, reply.get("message"))
            status, text = _ending(names, reply.get("message"))
            if error is None or status == "memory":
                self.fail(status, f"{name} raised {text}")
            self.raised = error
            raise error
        try:
            value, opaque = codec.decode_checked(reply["value"])
            if self.received and self.current >= 0:
                if codec.canonical(codec.encode(value)) in self.received:
                    self.outcomes[self.current].relayed = True
                # Encoding may have eaten iterators.
                value, opaque = codec.decode_checked(reply["value"])
        except codec.CodecError as error:
            raise Fatal(
                "protocol", f"{name} returned a malformed value: {error}", program
            ) from None
        self.last = f"{name} returned {_show.repr(value)}"
        if opaque:
            self.fail("wrong", f"{self.last}, which is not made of plain values")
        return value

    def fail(self, status: str, text: str) -> NoReturn:
        """Fail the present unit whatever its `except` clauses do."""
        if self.current >= 0:
            self.outcomes[self.current].fail(status, text)
        raise Failure(status, text)

    def exchange(self, program: str, name: str, args: Any, kwargs: Any) -> dict[str, Any]:
        """One call of a program, serving its requests meanwhile. Returns its final reply."""
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise Fatal("protocol", f"more than {MAX_CALLS} calls", program)
        call = {"id": self.calls, "call": name, "args": args, "kwargs": kwargs}
        number = self.calls
        self.send(program, call)
        while "request" in (reply := self.receive(program)):
            self.relay(program, reply)
        if reply.get("id") != number or type(reply["id"]) is not int:
            raise Fatal("protocol", "a reply to no call", program)
        return reply

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
        if self.current >= 0:
            self.outcomes[self.current].helper_calls += 1
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
            status, text = _ending(names, reply.get("message"))
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
        try:
            self.peers[program].send(message)
        except OSError:
            raise Fatal("died", f"{program} ended", program) from None

    def receive(self, program: str) -> dict[str, Any]:
        try:
            message = self.peers[program].receive()
        except EOFError:
            raise Fatal("died", f"{program} ended", program) from None
        except ProtocolError as error:
            raise Fatal("protocol", str(error), program) from None
        if type(message) is not dict:
            raise Fatal("protocol", "a message that is no object", program)
        return message

    def report(self, status: str | None, detail: str, author: str | None) -> dict[str, Any]:
        """What the parent is told; `status` None leaves the decision to the outcomes.

        Outcomes are lists of passed, error, helper calls, relayed.
        """
        failed = [
            (u, o) for u, o in zip(self.plan.units, self.outcomes, strict=True) if not o.passed
        ]
        if status is None:
            status = failed[0][1].status if failed else "pass"
            detail = f"{failed[0][0]} -> {failed[0][1].error}" if failed else ""
        return {
            "status": status,
            "detail": detail,
            "author": author,
            "outcomes": [
                [o.passed is True, o.error, o.helper_calls, o.relayed] for o in self.outcomes
            ],
            "trace": self.trace,
        }


def _ending(names: list[str], message: Any) -> tuple[str, str]:
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
