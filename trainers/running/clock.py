"""Where the time of a run goes: seconds of each part, none counted twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REST = "update"
"""What is in no other part: losses, gradients, steps."""


class Clock:
    """Counts seconds of parts; within a part another may run, and its time is its own.

    Attributes:
        watch: is called with the name of the part that begins, or goes on.

    >>> with clock.part("rollout"):          # counts 3 of 5 seconds
    ...     with clock.part("sampling"):     # counts 2
    """

    def __init__(self) -> None:
        self.watch: Callable[[str], object] = lambda name: None
        self._seconds: dict[str, float] = {}
        self._open: list[str] = [REST]
        self._since = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count to this part while the block runs."""
        self._count()
        self._open.append(name)
        self.watch(name)
        try:
            yield
        finally:
            self._count()
            self._open.pop()
            self.watch(self._open[-1])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Count nothing while the block runs, whatever parts run in it."""
        self._count()
        before = dict(self._seconds)
        try:
            yield
        finally:
            self._seconds, self._since = before, time.perf_counter()

    def taken(self) -> dict[str, float]:
        """Part -> seconds since this was last called."""
        self._count()
        found, self._seconds = self._seconds, {}
        return found

    def _count(self) -> None:
        now = time.perf_counter()
        name = self._open[-1]
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._since = now
