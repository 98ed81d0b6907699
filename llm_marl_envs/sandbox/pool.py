"""The pool of workers: what users of the sandbox call.

Owns the hand-out of workers to threads, retries, the cache of verdicts and the process-wide default
pool. Does not own the course of a run (`worker`) nor confinement (`layers`).
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import queue
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, Self

from .budget import Budget
from .jail.contract import Contract
from .jail.replacements import Replacement
from .layers import find_setup
from .records import InfraError, Job, KilledError, Limits, SandboxError, Status, Verdict
from .worker import Worker
from .zygote_link import RunLostError

CACHE_SIZE = 4096  # verdicts
CLOSE_SECONDS = 10.0  # beyond two wall limits, for runs under way when a pool is closed
# Outcomes that may differ when the same run is made again.
UNCERTAIN = ("infra_error", "wall_limit", "died")
CUT = ("cpu_limit", "wall_limit")


class Sandbox:
    """Runs model-written Python in confined processes and decides what it is worth outside them.

    Safe to use from many threads; each run takes one worker for itself, and callers wait for a free
    one. Workers start at their first run. A forked copy of the calling process must make its
    own sandbox and gets SandboxError from this one. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: Limits | None = None,
        *,
        require: str | Collection[str] = "auto",
        allow_unsafe: bool = False,
        on_infra: Literal["raise", "mask"] = "raise",
        preload: Sequence[str] = (),
        paths: Sequence[str] = (),
        cache: int = CACHE_SIZE,
    ) -> None:
        """Probe the machine's layers and prepare a pool.

        Args:
            workers: runs at the same time; default one per processor.
            limits: limits of every run, default `Limits()`; see `budget` for many runs at once.
            require: layers that must be in force, by name, or "auto" (see `layers`).
            allow_unsafe: run with resource limits only where nothing can be confined.
            on_infra: after a run failed twice for reasons outside the program, raise InfraError, or
                return a verdict with status "infra_error", which is no reward of 0.
            preload: modules that workers import before any program, such as "numpy".
            paths: directories of packages that programs may import.
            cache: verdicts remembered, 0 for none.

        Raises:
            SandboxUnavailable: a required layer cannot be had.
            ValueError: an argument is out of range.
        """
        count = workers if workers is not None else (os.cpu_count() or 1)
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"workers must be a whole number >= 1, got {workers!r}")
        if on_infra not in ("raise", "mask"):
            raise ValueError(f"on_infra must be 'raise' or 'mask', got {on_infra!r}")
        self.limits = limits or Limits()
        self.on_infra = on_infra
        self.setup = find_setup(require, allow_unsafe, tuple(preload), tuple(paths))
        self.isolation = self.setup.isolation
        self._workers = [Worker(self.setup, self.limits, next(_slots)) for _ in range(count)]
        self._free: queue.LifoQueue[Worker] = queue.LifoQueue()
        for worker in reversed(self._workers):
            self._free.put(worker)
        self._pid = os.getpid()
        self._closed = False
        self._cache = _Cache(cache)
        self._threads = ThreadPoolExecutor(count, "sandbox")  # starts none before it has work
        self._finalizer = weakref.finalize(self, _stop, self._workers, self._pid)

    # --- runs ---------------------------------------------------------------------------------

    def check(
        self,
        source: str | Mapping[str, str],
        *,
        entry_point: str,
        tests: str,
        exports: Mapping[str, Sequence[str]] | None = None,
        contracts: Mapping[str, Contract] | None = None,
        replaced: Mapping[str, Replacement] | None = None,
        budget: Budget | None = None,
    ) -> Verdict:
        """Run tests against one program, or against a team of programs.

        Args:
            source: the program, or {name: program}. The last one owns the entry point; each other
                runs in a process of its own and lends the functions that `exports` names to it, by
                value.
            entry_point: the function under test.
            tests: source that defines `check(candidate)`, or bare asserts, or test functions. It
                sees the entry point, also as `candidate`, and what it defines or imports itself.
            exports: {name of a program: names of its functions that the last program may call}.
            contracts: {exported function: the calls for which its author answers}; `Contract()` for
                those not named. They decide `Verdict.author` and nothing else.
            replaced: {exported function: what the last program gets in place of its values}. Both
                programs run as ever, and neither can tell.
            budget: what this run takes from, with others; a full one of its own if None.

        Returns:
            The verdict. Any text at all gets one. A run for which the budget does not suffice is
            stopped, or not made, and gets "cpu_limit" or "wall_limit".

        Raises:
            TypeError, ValueError: the arguments; or tests that cannot be run: they do not parse,
                hold no test, use names that nothing defines, or fail before they call the program.
            InfraError: see `on_infra`.
        """
        job = Job.of(source, entry_point, exports, tests, contracts, replaced)
        budget = budget or self.budget()
        over = budget.over()
        if over is not None:
            return self._unrun(over.status, over.detail)
        whole = budget.untouched and budget.limits == self.limits
        verdict = self._cache.get(job, whole, lambda: self._check(job, budget))
        budget.spend(job, verdict.cost)
        return verdict

    def budget(self) -> Budget:
        """A full budget: the limits of one run, which several runs may share."""
        return Budget(self.limits)

    def map(self, jobs: Iterable[Mapping[str, Any]], budget: Budget | None = None) -> list[Verdict]:
        """`check(**job)` for each job, all workers busy, verdicts in the order of the jobs.

        With a `budget` all of them share it; `budget.over()` then tells, whatever the number of
        workers, whether it sufficed for all of them together.
        """
        listed = list(jobs)
        self._usable()
        shared: dict[str, Any] = {"budget": budget} if budget else {}
        return list(self._threads.map(lambda job: self.check(**job, **shared), listed))

    def _check(self, job: Job, budget: Budget) -> Verdict:
        """Run once, and once more if the machinery failed, or may have failed.

        What may have been either, the machine or a program, counts against it the second time.
        """
        author = job.too_long()
        if author is not None:
            return self._unrun("load_error", "the text is too long", author)
        lost: list[str] = []
        kills = 0
        while len(lost) < 2:
            worker = self._take()
            try:
                return worker.check(job, budget)
            except KilledError as error:
                kills += 1
                if kills == 2:
                    return error.verdict
            except RunLostError as error:
                lost.append(str(error))
            finally:
                self._free.put(worker)
        if self.on_infra == "raise":
            raise InfraError(f"a run failed twice: {lost[-1]}")
        return self._unrun("infra_error", lost[-1])

    def _unrun(self, status: Status, detail: str, author: str | None = None) -> Verdict:
        return Verdict(status, 0, 0, detail[:200], author, self.isolation, 0.0, 0.0, 0.0)

    def _take(self) -> Worker:
        self._usable()
        worker = self._free.get()
        if self._closed:
            self._free.put(worker)
            self._usable()
        return worker

    def _usable(self) -> None:
        if os.getpid() != self._pid:
            raise SandboxError("this sandbox belongs to the process that forked this one; make one")
        if self._closed:
            raise SandboxError("this sandbox is closed")

    # --- life ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End all workers, waiting for runs under way. Further runs raise SandboxError."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        patience = 2 * self.limits.wall_seconds + CLOSE_SECONDS
        for _ in self._workers:
            with contextlib.suppress(queue.Empty):  # a thread that never came back holds it
                self._free.get(timeout=patience)
        self._threads.shutdown(wait=False)
        self._finalizer()
        for worker in self._workers:
            self._free.put(worker)  # wakes whoever waits, who then finds the pool closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stop(workers: list[Worker], pid: int) -> None:
    if os.getpid() == pid:
        for worker in workers:
            worker.stop()


_slots = itertools.count(1)  # the number of the next worker of this process


class _Cache:
    """Verdicts by job, least recently used first out; equal jobs under way are run once.

    A run that was cut because others had used up a part of its budget says nothing to anybody else.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Lock()
        self.verdicts: OrderedDict[bytes, Verdict] = OrderedDict()
        self.running: dict[bytes, Future[Verdict | None]] = {}

    def get(self, job: Job, whole: bool, run: Callable[[], Verdict]) -> Verdict:
        """The verdict on a job. `whole`: `run` has a full budget to itself."""
        if self.size == 0:
            return run()
        key = hashlib.sha256(repr(job).encode("utf-8", "surrogatepass")).digest()
        while True:
            with self.lock:
                if key in self.verdicts:
                    self.verdicts.move_to_end(key)
                    return self.verdicts[key]
                future = self.running.get(key)
                if future is None:
                    mine = self.running[key] = Future()
                    break
            verdict = future.result()
            if verdict is not None:
                return verdict
        try:
            verdict = run()
        except BaseException as error:
            self._leave(key, None)
            mine.set_exception(error)
            raise
        general = whole or verdict.status not in CUT
        self._leave(key, verdict if general else None)
        mine.set_result(verdict if general else None)
        return verdict

    def _leave(self, key: bytes, verdict: Verdict | None) -> None:
        with self.lock:
            del self.running[key]
            if verdict is not None and verdict.status not in UNCERTAIN:
                self.verdicts[key] = verdict
                if len(self.verdicts) > self.size:
                    self.verdicts.popitem(last=False)


# --- the default pool --------------------------------------------------------------------------

_default: Sandbox | None = None
_default_lock = threading.Lock()


def default_sandbox() -> Sandbox:
    """The pool of this process: one worker per processor, made when first asked for.

    A forked process gets its own. Closed at exit. Raises SandboxUnavailable where nothing can be
    confined.
    """
    global _default
    with _default_lock:
        if _default is None or _default._closed:
            _default = Sandbox()
            atexit.register(_default.close)
        return _default


def _after_fork() -> None:
    """In a forked child: forget the parent's pool, and a lock another thread may have held."""
    global _default, _default_lock
    _default = None
    _default_lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
