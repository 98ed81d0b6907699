"""A program that runs a server, and ends it with all that it has started.

    python mcp_guard.py PARENT COMMAND [ARGUMENT ...]

It ends them when the server ends, when it gets SIGTERM, or when the process PARENT, which started
it, is gone, however that ended. It uses the standard library alone, so it starts quickly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PAUSE = 0.1
"""Seconds between two looks."""
GRACE = 1.0
"""Seconds that a server and what it started have to end by themselves."""
PR_SET_CHILD_SUBREAPER = 36
"""Option of Linux's prctl: what loses its parent becomes a child of this process."""


def run(parent: int, command: Sequence[str]) -> int:
    """Run the server; returns its exit status."""
    with contextlib.suppress(PermissionError):  # of a session's first process: it has its group
        os.setpgid(0, 0)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    with contextlib.suppress(OSError, AttributeError):  # elsewhere who leaves the group escapes
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = subprocess.Popen(command)
    for pipe in (0, 1):  # they are the server's, and end with it
        os.close(pipe)
    while server.poll() is None and not asked and os.getppid() == parent:
        time.sleep(PAUSE)
    _end_all()
    return server.poll() or 0


def _end_all() -> None:
    os.killpg(0, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while _reaped() and time.monotonic() < until:
        time.sleep(PAUSE / 10)
    while left := _children():  # the children of what is ended here come next
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _reaped()
        time.sleep(PAUSE / 10)
    if _reaped():  # there is no list of them here
        os.killpg(0, signal.SIGKILL)


def _reaped() -> bool:
    """Whether there are children still, once those that have ended are let go."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _children() -> list[int]:
    """Of this process, by Linux's list; elsewhere none."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii")
    except OSError:
        return []
    return [int(one) for one in listed.split()]


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
