"""How far a measurement is: a bar where tqdm is installed, else a count on standard error.

Functions that play episodes take any `Progress`. They tell how many episodes are to come with
`expect`, which only a `counter` hears.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Progress = Callable[[int], object]
"""called with the number of episodes just finished"""
SECONDS_BETWEEN_LINES = 10.0
"""Where nobody watches, e.g. in a log file, each refresh is a line of its own."""


def expect(progress: Progress | None, episodes: int) -> None:
    """Say that so many more episodes are to come."""
    if isinstance(progress, counter):
        progress.expect(episodes)


class counter:  # noqa: N801 - used as a function
    """A progress bar; `with counter(...) as progress` gives a `Progress`.

    Attributes:
        total: episodes, None where that is not known yet.
        about: what is counted.
        done: episodes that are finished.
    """

    def __init__(self, total: int | None, about: str) -> None:
        self.total, self.about = total, about
        self._bar: Any = None
        self.done = 0
        self._shown = float("-inf")

    def __enter__(self) -> counter:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return self
        self._bar = tqdm(total=self.total, unit="episode", desc=self.about)
        return self

    def expect(self, episodes: int) -> None:
        """Raise the total."""
        self.total = (self.total or 0) + episodes
        if self._bar is not None:
            self._bar.total = self.total  # shown at the next refresh

    def __call__(self, more: int) -> None:
        """Count finished episodes."""
        self.done += more
        if self._bar is not None:
            self._bar.update(more)
        elif sys.stderr.isatty():
            self._show("\r", "")
        elif time.monotonic() - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = time.monotonic()
            self._show("", "\n")

    def _show(self, begin: str, end: str) -> None:
        of = "" if self.total is None else f" of {self.total}"
        print(f"{begin}{self.about}: {self.done}{of}", end=end, file=sys.stderr, flush=True)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self.done:
            self._show("\r" if sys.stderr.isatty() else "", "\n")
