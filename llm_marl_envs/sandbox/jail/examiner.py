"""The side of the tests: runs them against stand-ins and decides the verdict.

Owns the running of units and the report; `routing` carries the calls. Does not own limits on time
nor the reading of wait statuses, which are the parent's. Tests are trusted, what programs send is
not. Tests are broken only where they fail before they call the program: afterwards every failure,
of the tests or of the judge itself, may be the doing of a value, and counts against it.

Job: {"tests": source or null for those of the job before, "entry", "programs": [names, the last
owns the entry point], "exports": {program: [function names]}, "contracts": {function: fields of a
`Contract`}, "replaced": {function: fields of a `Replacement`}}, with one descriptor per program;
the first job has one more, of the ledger's page.
"""

from __future__ import annotations

import os
import random
import reprlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from . import codec, faults
from .ledger import JUDGE, NOBODY, Ledger, open_page
from .replacements import trivial_uses
from .routing import MAX_ERROR, Failure, Fatal, Router, ending
from .source import ERRORS
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
        except Exception:  # noqa: BLE001 - a fraction of long integers, or too little memory
            text = ""
        return f"<{type(x).__name__}>" if not text or " object at 0x" in text else text[:60]


LONG_BITS = 4_000  # the interpreter refuses to write out much longer ones
_show = _Show()
_show.maxstring = _show.maxother = 60


class TestsError(Exception):
    """The tests failed before they called the program, as they would with any program."""

    __test__ = False  # not a test class, whatever pytest thinks of the name


def serve(channel: SocketChannel, job: dict[str, Any]) -> None:
    """Judge jobs that share their tests, one after another, until the parent hangs up."""
    plan: Plan | None = None
    page = open_page(channel.fds.pop())
    while True:
        fds = channel.fds[:]
        channel.fds.clear()
        try:
            if job["tests"] is not None:
                plan = split(job["tests"], job["entry"])
            assert plan is not None, "the first job brings its tests"
            ledger = Ledger(job["programs"], page)
            report = _Run(plan, job, [Channel(fd) for fd in fds], ledger).run()
        except (*ERRORS, TestsError) as error:
            report = {"bad_tests": _text(error)[:500]}
        for fd in fds:
            os.close(fd)
        channel.send({**report, "cpu": time.process_time()})
        job = channel.receive()


@dataclass
class _Outcome:
    """What became of one unit."""

    passed: bool | None = None  # None: not reached
    error: str = ""
    status: str = "wrong"
    author: str | None = None
    relayed: bool = False
    boolean: bool | None = None

    def fail(self, status: str, error: str, author: str | None = None) -> None:
        if self.passed is not False:
            self.passed, self.status, self.error = False, status, error[:MAX_ERROR]
            self.author = author


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it may hold any value, such as an integer of 5,000 digits
        text = ", ".join(map(_show.repr, error.args))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Run(Router):
    def __init__(
        self, plan: Plan, job: dict[str, Any], peers: list[Channel], ledger: Ledger | None = None
    ) -> None:
        super().__init__(job, peers, ledger)
        self.plan = plan
        self.entry: str = job["entry"]
        self.outcomes = [_Outcome() for _ in plan.units]
        self.asked = False  # whether the tests have called the program
        self.last = ""  # what the entry point gave back last, for feedback
        self.raised: BaseException | None = None  # what a program raised last
        self.raiser: str | None = None  # and to whom it is charged
        self.giver: str | None = None  # who answers for the value that the tests look at
        self.fatal: Fatal | None = None

    def run(self) -> dict[str, Any]:
        """Load, test, report. Raises TestsError."""
        try:
            for program in self.programs:
                self.load(program)
            if self.entry not in self.functions[self.main]:
                text = f"{self.main} defines no function {self.entry}"
                raise Fatal("no_entry_point", text, self.main)
            random.seed(0)
            self.ledger.turn(JUDGE, NOBODY)
            self.test()
        except TestsError:
            raise
        except Fatal as fatal:
            self.fatal = fatal
        except Exception as error:  # noqa: BLE001 - whatever programs have sent, there is a verdict
            status = "memory" if isinstance(error, MemoryError) else "protocol"
            self.fatal = Fatal(status, f"the tests: {_text(error)}", self.main)
        return self.report()

    def test(self) -> None:
        """Run every unit against a stand-in for the entry point. Raises TestsError or Fatal."""
        module = ModuleType("tests")
        sys.modules["tests"] = module
        space = vars(module)
        space.update((name, sys.modules[name]) for name in self.plan.modules)
        space[UNIT] = self.unit
        candidate = self.stand_in(self.entry)
        space[self.entry] = space["candidate"] = candidate
        try:
            exec(self.plan.code, space)
            if self.plan.check:
                space["check"](candidate)
        except Fatal:
            raise
        except BaseException as error:  # noqa: BLE001 - outside any unit; a SystemExit of the tests, too
            if not self.asked:
                raise TestsError(f"outside any test: {_text(error)}") from None
            if not isinstance(error, Failure):
                self.outcome().fail(*self.reading(error))
            return
        for outcome in self.outcomes:
            if outcome.passed is None and self.fatal is None:
                outcome.passed = True  # the tests returned before it, as they would anywhere

    @contextmanager
    def unit(self, index: int) -> Iterator[None]:
        """Around one unit: what it raises fails it, and does not hide those after it."""
        self.current, self.last = index, ""
        outcome = self.outcomes[index]
        try:
            yield
            if outcome.passed is None:
                outcome.passed = True
        except Fatal:
            raise
        except Failure:
            pass  # noted where it was raised
        except BaseException as error:  # noqa: BLE001 - whatever the tests raise
            outcome.fail(*self.reading(error))
        finally:
            self.current = -1

    def reading(self, error: BaseException) -> tuple[str, str, str | None]:
        """Status, text and author of what ended a unit, or the tests between units."""
        if isinstance(error, MemoryError):
            return "memory", "MemoryError", self.giver
        if error is self.raised:
            return "exception", _text(error), self.raiser
        return "wrong", ", ".join(filter(None, (_text(error), self.last))), None

    def outcome(self) -> _Outcome:
        """That of the present unit; between units that of the next one, behind all of the last."""
        if self.current >= 0:
            return self.outcomes[self.current]
        return next((o for o in self.outcomes if o.passed is None), self.outcomes[-1])

    def stand_in(self, name: str) -> Callable[..., Any]:
        """A function that calls `name` in main's process."""

        def candidate(*args: Any, **kwargs: Any) -> Any:
            return self.call(self.main, name, args, kwargs)

        candidate.__name__ = candidate.__qualname__ = name
        return candidate

    def call(self, program: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function for a test. Raises what it raised, or Failure."""
        self.asked = True
        self.begin()
        try:
            encoded = [self.packed(arg) for arg in args]
            named = [[key, self.packed(value)] for key, value in kwargs.items()]
            reply = self.exchange(program, name, encoded, named)
            if "value" in reply:
                return self.value(program, name, reply["value"])
        except Fatal as fatal:
            self.fatal = fatal  # counts even where a test swallows it
            if self.current >= 0:
                self.outcomes[self.current].fail(fatal.status, str(fatal))
            raise
        except (codec.CodecError, MemoryError, RecursionError) as error:
            # The judge's own, not one that a test may expect of the program.
            status = "memory" if isinstance(error, MemoryError) else "wrong"
            self.fail(status, _text(error), self.giver)
        names = faults.names_of(reply.get("raised"))
        error = faults.rebuild(names, reply.get("message"))
        status, text = ending(names, reply.get("message"))
        author = self.thrower(program, names, reply.get("message"))
        if error is None or status == "memory":
            self.fail(status, f"{name} raised {text}", author)
        if isinstance(error, StopIteration):
            # Raised as such it would end a `map` or `filter` of the tests as if all was checked.
            error = RuntimeError(f"{name} raised {text}")
        self.raised, self.raiser = error, author
        raise error

    def packed(self, value: Any) -> Any:
        """An argument of a test's as it travels: a function is lent, anything else is copied."""
        if isinstance(value, (type, codec.Opaque)) or not callable(value):
            return codec.encode(value)
        return self.lend(value)

    def value(self, program: str, name: str, data: Any) -> Any:
        """The value that a program returned to a test."""
        giver = self.received.get(codec.canonical(data)) if self.received else None
        self.giver = giver or program
        self.ledger.turn(JUDGE, self.giver)
        try:
            value, opaque = codec.decode_checked(data)
            if self.current >= 0:
                outcome = self.outcomes[self.current]
                outcome.boolean = outcome.boolean is not False and type(value) is bool
            if self.received and self.current >= 0:
                self.outcomes[self.current].relayed |= bool(giver) or self.relays(value)
                if not giver:  # encoding may have eaten iterators
                    value, opaque = codec.decode_checked(data)
        except codec.CodecError as error:
            text = f"{name} returned a malformed value: {error}"
            raise Fatal("protocol", text, program) from None
        self.last = f"{name} returned {_show.repr(value)}"
        if opaque:
            text = f"{self.last}, which is not made of plain values"
            self.fail("wrong", text, giver or self.odd or program)
        return value

    def relays(self, value: Any) -> bool:
        """Whether a value is one that a helper gave, an item of one, or one as another type."""
        text = codec.canonical(codec.encode(value))
        return text in self.received or any(
            codec.canonical(use) == text for data in self.values for use in trivial_uses(data)
        )

    def fail(self, status: str, text: str, author: str | None = None) -> NoReturn:
        """Fail the present unit whatever its `except` clauses do."""
        self.outcome().fail(status, text, author)
        raise Failure(status, text)

    def report(self) -> dict[str, Any]:
        """What the parent is told. Outcomes are those of `TestOutcome`, as lists.

        `ended` is the program whose process has ended, if that is the failure.
        """
        status, detail, author = "pass", "", None
        failed = [number for number, outcome in enumerate(self.outcomes) if not outcome.passed]
        if self.fatal is not None:
            status, detail, author = self.fatal.status, str(self.fatal), self.fatal.author
        elif failed:
            first = self.outcomes[failed[0]]
            detail = f"{self.plan.units[failed[0]]} -> {first.error}"
            status, author = first.status, first.author
        return {
            "status": status,
            "detail": detail,
            "author": author,
            "ended": self.fatal.ended if self.fatal else "",
            "outcomes": [
                [o.passed is True, o.error, self.helper_calls[i], o.relayed, o.boolean is True]
                for i, o in enumerate(self.outcomes)
            ],
            "trace": self.trace,
        }
