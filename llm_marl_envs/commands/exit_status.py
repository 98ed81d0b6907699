"""How a command ends: a line and a status for a mistake or a stop, a traceback for a bug.

Status 0 is fine, 2 a mistake in what was asked, 1 work that failed, 130 Ctrl-C and 143 SIGTERM,
which batch systems send before they kill. A mistake is an error that a `raise` of this library, or
of a package behind one of its doors, makes; what the system refuses (files, network); or a missing
package. Any other error, a `ValueError` of numpy's for one, is a bug and keeps its traceback.
"""

from __future__ import annotations

import linecache
import os
import re
import signal
import sys
import threading
import traceback as tracebacks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from llm_marl_envs.core.errors import Stopped, WorkFailedError
from llm_marl_envs.core.plugins import entries, groups

MISTAKE, FAILURE = 2, 1
LONGEST_WORD = 200
MISTAKES = (ValueError, TypeError, ImportError)
"""What a mistake is raised as; files and the network have `OSError`."""
WITHOUT_DOCSTRINGS = "; Python runs with -OO, without the docstrings that this needs: leave -OO out"


def ending(
    run: Callable[[], int | None], name: str, *, traceback: bool = False, again: str = ""
) -> int:
    """Run a command; returns its exit status.

    Args:
        run: the command; returns its exit status, None for 0.
        name: begins each line on standard error.
        traceback: let mistakes through as well.
        again: what to say of a stop that does not say itself how to go on.

    Raises:
        Exception: a bug; or anything, with `traceback`.
    """
    try:
        with _sigterm_stops():
            return run() or 0
    except KeyboardInterrupt as stop:
        message = stop.said if isinstance(stop, Stopped) else ""
        _say(f"{name}: {message or 'stopped' + (again and '; ' + again)}")
        return stop.status if isinstance(stop, Stopped) else 128 + signal.SIGINT
    except BrokenPipeError:  # `llm-marl list | head -1`; what reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        if traceback or not (is_said(error) or sys.flags.optimize > 1):
            raise
        said = one_line(error)
        lacking = sys.flags.optimize > 1 and (not is_said(error) or "docstring" in said)
        _say(f"{name}: {said}{WITHOUT_DOCSTRINGS if lacking else ''}")
        return MISTAKE if isinstance(error, (*MISTAKES, OSError)) else FAILURE


def is_said(error: BaseException) -> bool:
    """Whether an error is a message to the user, not a bug."""
    network = type(error).__module__.startswith("httpx")
    if network or isinstance(error, (OSError, WorkFailedError)):
        return True
    if isinstance(error, ImportError) and _top(error.name or "") not in packages():
        return True
    return isinstance(error, (*MISTAKES, FloatingPointError)) and _raised_on_purpose(error)


def _raised_on_purpose(error: BaseException) -> bool:
    """Whether it comes from a `raise` in one of `packages`, not from a call that went wrong."""
    steps = list(tracebacks.walk_tb(error.__traceback__))
    if not steps:
        return False
    names = steps[-1][0].f_globals
    run = names.get("__spec__")  # with `python -m` the name is `__main__`
    (last,) = tracebacks.extract_tb(error.__traceback__, limit=-1)
    # Where the message of a `raise` goes wrong, the column is that of the message.
    statement = linecache.getline(last.filename, last.lineno or 0)[last.colno or 0 :]
    ours = _top(run.name if run is not None else names["__name__"]) in packages()
    return ours and statement.lstrip().startswith("raise ")


def packages() -> set[str]:
    """Top-level packages whose errors are messages: this one, and those behind its doors."""
    declared = [entry for group in groups() for entry in entries(group).values()]
    return {_top(__name__), *(_top(entry.value) for entry in declared)}


def _top(name: str) -> str:
    return name.partition(".")[0].partition(":")[0]


def one_line(error: BaseException) -> str:
    """An error's message and notes in one line; a traceback behind an empty line keeps its own."""
    message, _, quoted = str(error).partition("\n\n")
    parts = (message or type(error).__name__, *getattr(error, "__notes__", ()))
    line = without_long_words("; ".join(" ".join(part.split()) for part in parts))
    return f"{line}\n{quoted}" if quoted.startswith("Traceback") else line


def without_long_words(line: str) -> str:
    """A line in which each word longer than `LONGEST_WORD` has lost its middle."""
    half, most = LONGEST_WORD // 2, LONGEST_WORD
    return re.sub(rf"\S{{{most + 1},}}", lambda m: f"{m[0][: half - 3]}...{m[0][-half:]}", line)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _sigterm_stops() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C, so that files are closed and locks released."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stopped(signum=signum)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
