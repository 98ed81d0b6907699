"""How far a piece of work is: one bar, or a few lines where nobody watches.

Functions that play episodes take any `Progress`. They tell how many episodes are to come with
`expect`, which only a `counter` hears.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tqdm.auto import tqdm

Progress = Callable[[int], object]
"""called with the number of episodes just finished"""
SECONDS_BETWEEN_LINES = 10.0
"""In a log file each refresh of a bar is a line of its own."""


def expect(progress: Progress | None, episodes: int) -> None:
    """Say that so many more episodes are to come."""
    if isinstance(progress, counter):
        progress.expect(episodes)


class counter(tqdm):  # noqa: N801 - used as a function
    """A bar of `tqdm`; `with counter(...) as progress` gives a `Progress`.

    Where standard error is neither a terminal nor shown by a notebook, it writes a line every
    `SECONDS_BETWEEN_LINES`.

    Args:
        total: how many are to come, None where that is not known yet.
        about: what is counted.
        unit: one of them.
    """

    def __init__(self, total: int | None, about: str | None = None, unit: str = "episode") -> None:
        self.watched = sys.stderr.isatty() or "ipykernel" in sys.modules
        super().__init__(
            total=total,
            desc=about,
            unit=unit,
            mininterval=0.1 if self.watched else SECONDS_BETWEEN_LINES,
            dynamic_ncols=True,
        )

    def expect(self, more: int) -> None:
        """Raise the total, which is shown at the next refresh."""
        self.total = (self.total or 0) + more

    def __call__(self, more: int) -> None:
        """Count what is finished."""
        self.update(more)

    def set_postfix(self, *args: Any, **kwargs: Any) -> None:
        """Show values beside the bar: at once, or in the next line where nobody watches."""
        super().set_postfix(*args, refresh=self.watched, **kwargs)
