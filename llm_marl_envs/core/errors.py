"""What ends a command although nothing in this library is broken: work that failed, and a stop.

A mistake in what was asked needs no class of its own: it is a `ValueError`, `TypeError` or
`ImportError` that this library raises. How the command line tells all these from bugs is
`commands/exit_status.py`.
"""

from __future__ import annotations

import signal


class WorkFailedError(RuntimeError):
    """The work was begun and cannot go on; the message says why, so that nobody needs a traceback.

    Packages that add parts derive from it what they want to end like this.
    """


class Stopped(KeyboardInterrupt):
    """Somebody asked the work to stop.

    Args:
        said: what was kept and how to go on.
        signum: the signal that asked.

    Attributes:
        status: exit status of the command.
        resumable: whether something was kept from which the work can go on.
    """

    resumable: bool = False

    def __init__(self, said: str = "", signum: int = signal.SIGINT) -> None:
        super().__init__(said)
        self.said = said
        self.status = 128 + signum
