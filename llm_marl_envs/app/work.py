"""What goes on in a thread while pages look at it, and how much of that there may be at once."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from abc import ABC, abstractmethod

from llm_marl_envs.core.errors import WorkFailedError

MOST = 64
"""Works that are kept at once."""
IDLE_SECONDS = 1800.0
"""How long one is kept that nobody looks at."""
EXPECTED = (ValueError, TypeError, ImportError, OSError, WorkFailedError)
"""Errors whose text was written for who sees it; others go to the log, with their tracebacks."""
LONGEST_SECONDS = 7200.0
"""How long one may go on."""
log = logging.getLogger(__name__)


class StoppedError(Exception):
    """The work was closed; raised within its thread."""


class TooManyError(RuntimeError):
    """So many works are going on that no further one can begin."""


class Work(ABC):
    """One thread's work. What a page reads of it is only replaced, never changed in place.

    Attributes:
        changed: held while something of it changes; whoever waits is told.
        error: why it could not go on, None so far.
        done: whether it has ended, well or not.
        closed: whether it is to stop.
        begun, used: when it was made and when a page last looked at it, in seconds of a clock that
            never jumps.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.error: str | None = None
        self.done = False
        self.closed = False
        self.begun = self.used = time.monotonic()

    @abstractmethod
    def work(self) -> None:
        """What is to be done; raises `StoppedError` soon after `closed` is set."""

    def begin(self) -> None:
        """Start the thread; it does not keep the program alive."""
        threading.Thread(target=self._run, daemon=True, name=type(self).__name__).start()

    def close(self) -> None:
        """Ask it to stop."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def check(self) -> None:
        """Raise `StoppedError` once it is closed, or has taken too long."""
        if self.closed:
            raise StoppedError("It was left.")
        if self.left_seconds <= 0:
            raise StoppedError(f"It was stopped after {LONGEST_SECONDS / 60:.0f} minutes.")

    @property
    def left_seconds(self) -> float:
        """How long it may still go on."""
        return self.begun + LONGEST_SECONDS - time.monotonic()

    @property
    def waiting(self) -> bool:
        """Whether it waits for a person."""
        return False

    def rest(self, seconds: float) -> None:
        """Wait until it has ended or waits for a person, or the seconds have passed."""
        with self.changed:
            self.changed.wait_for(lambda: self.done or self.waiting, timeout=seconds)

    def _run(self) -> None:
        error = None
        try:
            self.work()
        except (StoppedError, *EXPECTED) as problem:
            error = str(problem) or type(problem).__name__
        except Exception as problem:
            log.exception("%s failed", type(self).__name__)
            error = f"{type(problem).__name__}: {problem}"
        with self.changed:
            self.error, self.done = error, True
            self.changed.notify_all()


class Works:
    """Works by key. A key cannot be guessed, so nobody comes upon what another began.

    Args:
        most: how many are kept.
        idle_seconds: how long one is kept that nobody looks at.
    """

    def __init__(self, most: int = MOST, idle_seconds: float = IDLE_SECONDS) -> None:
        self.most = most
        self.idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._kept: dict[str, Work] = {}

    def begin(self, work: Work) -> str:
        """Start a work; returns its key.

        Raises:
            TooManyError: there are as many already, and all of them go on.
        """
        with self._lock:
            self._tidy()
            key = secrets.token_urlsafe(16)
            self._kept[key] = work
        work.begin()
        return key

    def get(self, key: str) -> Work | None:
        """The work of a key; None where there is none, or none any more."""
        with self._lock:
            work = self._kept.get(key)
            if work is not None:
                work.used = time.monotonic()
            return work

    def leave(self, key: str) -> None:
        """Close a work and forget it."""
        with self._lock:
            work = self._kept.pop(key, None)
        if work is not None:
            work.close()

    def close(self) -> None:
        """Close all."""
        for key in [*self._kept]:
            self.leave(key)

    def _tidy(self) -> None:
        """Close what is idle, and one that has ended where there is no room."""
        now = time.monotonic()
        idle = [k for k, work in self._kept.items() if now - work.used > self.idle_seconds]
        ended = sorted(
            (k for k, work in self._kept.items() if work.done and k not in idle),
            key=lambda key: self._kept[key].used,
        )
        over = len(self._kept) - len(idle) - self.most + 1
        if over > len(ended):
            raise TooManyError(f"{self.most} episodes are being played; try again in some minutes")
        for key in [*idle, *ended[: max(0, over)]]:
            self._kept.pop(key).close()
