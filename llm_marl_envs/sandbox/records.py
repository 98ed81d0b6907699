"""What goes into the sandbox and what comes out: limits, verdicts, errors.

Owns frozen records and the names of statuses. Does not run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from .jail.contract import Contract
from .jail.replacements import Replacement
from .jail.wire import fits

Status = Literal[
    "pass",  # every test passed
    "wrong",  # a test failed on the value it got
    "exception",  # the program raised where the test did not expect it
    "early_exit",  # the program left: sys.exit, os._exit, exec
    "died",  # a signal ended the program: segmentation fault, abort; twice, where it is SIGKILL
    "cpu_limit",
    "wall_limit",
    "memory",
    "protocol",  # what the program sent is no message, or far too much of it
    "load_error",  # the text does not compile, or raises while it is loaded
    "no_entry_point",
    "infra_error",  # the machinery failed, not the program: never a reward
]
STATUSES: tuple[str, ...] = get_args(Status)


class SandboxError(RuntimeError):
    """The sandbox cannot do what was asked."""


class SandboxUnavailable(SandboxError):  # noqa: N818 - a state of the machine, no fault
    """The layers that were required cannot be had on this machine."""


class InfraError(SandboxError):
    """A run failed twice for reasons outside the program. It says nothing about the program."""


class KilledError(Exception):
    """A process of a run ended in a way that may be the machine's doing or the program's.

    `verdict` is what the run is worth if that happens again.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


@dataclass(frozen=True)
class Limits:
    """Limits of one run, or of all runs that share a `Budget`.

    Raises ValueError if one is out of range.
    """

    cpu_seconds: int = 2
    """Processor time of each program and of the tests, whole seconds, at least 1. A program may use
    this much and is stopped soon after; where its time cannot be read, the kernel stops it before
    twice as much."""
    wall_seconds: float = 6.0
    """Elapsed time, without the time that processes waited for a processor."""
    memory_mib: int = 512
    """Address space of each process beyond the interpreter's own, at least 16."""

    def __post_init__(self) -> None:
        if not (isinstance(self.cpu_seconds, int) and self.cpu_seconds >= 1):
            raise ValueError(f"cpu_seconds must be a whole number >= 1, got {self.cpu_seconds!r}")
        for name, least in (("wall_seconds", 0.05), ("memory_mib", 16)):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and value >= least):
                raise ValueError(f"{name} must be a number >= {least}, got {value!r}")


@dataclass(frozen=True)
class TestOutcome:
    """What became of one test."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    passed: bool
    error: str
    """Empty if passed or not reached; else the error, at most 200 characters."""
    helper_calls: int
    """Calls of exported functions of other programs during this test."""
    relayed: bool
    """Whether a value that the entry point returned equals, type-strictly, one that an exported
    function returned during the same call, the first item of one, or one as another type."""
    boolean: bool
    """Whether the entry point returned something, and nothing but bools."""


@dataclass(frozen=True)
class Cost:
    """What one run used, counted as `Limits` counts."""

    cpu: Mapping[str, float] = field(default_factory=dict)
    """Program -> processor seconds; "" for the tests."""
    wall: float = 0.0
    """Elapsed seconds without those in which its processes waited for a processor."""


HelperCall = tuple[int, str, tuple[Any, ...], Any]
"""Test index (-1 outside any test), function, arguments (keyword ones as a last dict), result."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of `Sandbox.check`, decided outside the process of the program."""

    status: Status
    passed: int
    """Tests that passed, of `total`."""
    total: int
    """0 where the tests were not reached because a program did not load."""
    detail: str
    """First failing test and its error, or what else went wrong; at most 200 characters."""
    author: str | None
    """The program to which the failure is charged; None for a pass, for a wrong value, and where no
    program is to blame. See docs/sandbox.md for the rule."""
    isolation: tuple[str, ...]
    """Layers that confined the run, as `doctor` names them."""
    cpu_s: float
    """Processor time of all programs of the run, seconds."""
    wall_s: float
    """Elapsed time, seconds."""
    max_rss_mib: float
    """Peak memory of the largest program, MiB."""
    outcomes: tuple[TestOutcome, ...] = ()
    """One per test."""
    helper_trace: tuple[HelperCall, ...] = ()
    """The first 200 calls of exported functions, in order. Values that are not plain, or whose
    encoded form is longer than 4,096 characters, are `Opaque`."""
    cost: Cost = Cost()
    """What the run took from its `Budget`."""

    @property
    def ok(self) -> bool:
        """Whether every test passed."""
        return self.status == "pass"


@dataclass(frozen=True)
class Job:
    """One run, normalised."""

    programs: tuple[tuple[str, str], ...]  # (name, source); the last owns the entry point
    entry_point: str
    exports: tuple[tuple[str, tuple[str, ...]], ...]
    tests: str
    contracts: tuple[tuple[str, Contract], ...] = ()  # exported function -> what it may be given
    replaced: tuple[tuple[str, Replacement], ...] = ()  # exported function -> its other answers

    @staticmethod
    def of(
        source: str | Mapping[str, str],
        entry_point: str,
        exports: Mapping[str, Any] | None,
        tests: str,
        contracts: Mapping[str, Contract] | None = None,
        replaced: Mapping[str, Replacement] | None = None,
    ) -> Job:
        """Check the arguments of `Sandbox.check`. Raises TypeError or ValueError."""
        programs = dict(source) if isinstance(source, Mapping) else {"main": source}
        if not programs:
            raise ValueError("source names no program; give a text or {name: text, ...}")
        for name, text in [*programs.items(), ("tests", tests), ("entry_point", entry_point)]:
            if not isinstance(text, str) or not isinstance(name, str):
                raise TypeError(f"{name!r} must be a str, got {type(text).__name__}")
        if not fits(tests):
            raise ValueError(f"the tests are too long: {len(tests)} characters")
        helpers = list(programs)[:-1]
        lent = {owner: tuple(names) for owner, names in (exports or {}).items()}
        for owner, names in lent.items():
            if owner not in helpers:
                raise ValueError(f"exports name {owner!r}; programs that may export: {helpers}")
            if not all(isinstance(n, str) for n in names):
                raise TypeError(f"exports of {owner!r} must be function names, got {names!r}")
        exported = {name for names in lent.values() for name in names}
        _check_named(exported, contracts or {}, "contract", Contract)
        _check_named(exported, replaced or {}, "replacement", Replacement)
        return Job(
            tuple(programs.items()),
            entry_point,
            tuple(lent.items()),
            tests,
            tuple((contracts or {}).items()),
            tuple((replaced or {}).items()),
        )

    def too_long(self) -> str | None:
        """The first program whose text cannot be sent, None where all can be."""
        return next((name for name, text in self.programs if not fits(text)), None)


def _check_named(exported: set[str], records: Mapping[str, Any], what: str, kind: type) -> None:
    for name, record in records.items():
        if name not in exported:
            raise ValueError(f"{what}s name {name!r}; exported are {sorted(exported)}")
        if not isinstance(record, kind):
            raise TypeError(f"the {what} of {name!r} must be a {kind.__name__}, got {record!r}")
