"""The side of the tests: runs them against stand-ins and decides the verdict.

Owns the running of units and the report; `routing` carries the calls. Tests are trusted;
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
from .routing import MAX_ERROR, Failure, Fatal, Router, ending
from .units import UNIT, Plan, split
from .wire import Channel, SocketChannel


class _Show(reprlib.Repr):
    """Short texts of values, the same in every run: no addresses, no error for long integers."""

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > LONG_BITS:
            return f"<an integer of {x.bit_length()} bits>"
        return super().repr_int(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        try:
            text = repr(x)
        except ValueError:  # a fraction of long integers
            text = ""
        return f"<{type(x).__name__}>" if not text or " object at 0x" in text else text[:60]


LONG_BITS = 4_000  # the interpreter refuses to write out much longer ones
_show = _Show()
_show.maxstring = _show.maxother = 60


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


class _Run(Router):
    def __init__(self, plan: Plan, job: dict[str, Any], peers: list[Channel]) -> None:
        super().__init__(job, peers)
        self.plan = plan
        self.entry: str = job["entry"]
        self.outcomes = [_Outcome() for _ in plan.units]
        self.last = ""  # what the entry point gave back last, for feedback
        self.raised: BaseException | None = None  # what a program raised last
        self.fatal: Fatal | None = None

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
        self.lent.clear()
        encoded = [self.lend(arg) if _is_function(arg) else codec.encode(arg) for arg in args]
        named = [[key, codec.encode(value)] for key, value in kwargs.items()]
        self.received.clear()
        try:
            reply = self.exchange(program, name, encoded, named)
            if "value" in reply:
                return self.value(program, name, reply["value"])
        except Fatal as fatal:
            self.fatal = fatal  # counts even where a test swallows it
            if self.current >= 0:
                self.outcomes[self.current].fail(fatal.status, str(fatal))
            raise
        names = faults.names_of(reply.get("raised"))
        error = faults.rebuild(names, reply.get("message"))
        status, text = ending(names, reply.get("message"))
        if error is None or status == "memory":
            self.fail(status, f"{name} raised {text}")
        self.raised = error
        raise error

    def value(self, program: str, name: str, data: Any) -> Any:
        """The value that a program returned to a test."""
        try:
            value, opaque = codec.decode_checked(data)
            if self.received and self.current >= 0:
                if codec.canonical(codec.encode(value)) in self.received:
                    self.outcomes[self.current].relayed = True
                value, opaque = codec.decode_checked(data)  # encoding may have eaten iterators
        except codec.CodecError as error:
            text = f"{name} returned a malformed value: {error}"
            raise Fatal("protocol", text, program) from None
        self.last = f"{name} returned {_show.repr(value)}"
        if opaque:
            self.fail("wrong", f"{self.last}, which is not made of plain values")
        return value

    def fail(self, status: str, text: str) -> NoReturn:
        """Fail the present unit whatever its `except` clauses do."""
        if self.current >= 0:
            self.outcomes[self.current].fail(status, text)
        raise Failure(status, text)

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
                [o.passed is True, o.error, self.helper_calls[i], o.relayed]
                for i, o in enumerate(self.outcomes)
            ],
            "trace": self.trace,
        }


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, (type, codec.Opaque))
