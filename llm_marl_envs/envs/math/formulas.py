"""Whether two answers are the same formula, by the library math-verify, behind a limit.

Needs the extra `math` (Apache-2.0). The library's own limits are alarms, which interrupt no long
operation in C, work in the main thread alone and touch the handlers of the process. So it runs in
one process beside this one (`formula_worker.py`), without them: the system ends that process when a
comparison takes too much processor time or memory. Then the answer is wrong, and the next
comparison begins a new process.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import select
import subprocess
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

WORKER = Path(__file__).with_name("formula_worker.py")
START_S = 120.0
"""Seconds to load the library."""
ANSWER_S = 60.0
"""Seconds of the clock; the process has 3 of the processor, see `formula_worker.py`."""


def check_installed() -> None:
    """Raise `ImportError` where math-verify is missing; the message names the extra."""
    if importlib.util.find_spec("math_verify") is None:
        raise ImportError(
            "compare='math' needs the extra: pip install 'llm-marl-envs[math]'; compare='exact' "
            "needs none and compares numbers and texts"
        )


class Comparer:
    """The process that compares; it begins when it is first needed. Threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def same(self, right: str, answer: str) -> bool:
        """Whether `answer` is the same as `right`; not where the comparison was ended.

        Raises:
            RuntimeError: the process did not begin, or did not answer within a minute.
        """
        with self._lock:
            line = ""
            try:
                process = self._process or self._begin()
                with suppress(BrokenPipeError):  # it has ended: there is no line either
                    _send(process, {"right": right, "answer": answer})
                line = _line(process, ANSWER_S)
            finally:
                if not line:
                    self._end()
            return line.strip() == "true"

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()

    def _begin(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._process = process  # so that it is ended where it does not begin
        line = _line(process, START_S).strip()
        if line != "ready":
            raise RuntimeError(
                f"math-verify could not be loaded in a process: {line or 'it ended'}"
            )
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what was still to be sent; nobody waits for it
                    pipe.close()


def _send(process: subprocess.Popen[str], asked: dict[str, str]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[str], seconds: float) -> str:
    """The next line; "" where the process has ended."""
    assert process.stdout is not None
    # One line is sent for each question, so nothing is ever left in the buffer of the stream.
    if not select.select([process.stdout], [], [], seconds)[0]:
        raise RuntimeError(f"the process of math-verify said nothing for {seconds:.0f} s")
    return process.stdout.readline()


_comparer = Comparer()
atexit.register(lambda: _comparer.close())


def _after_fork() -> None:
    """A forked process begins its own: two that read one pipe would take each other's answers."""
    global _comparer
    _comparer = Comparer()
    _same.cache_clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@lru_cache(maxsize=4096)
def _same(right: str, answer: str) -> bool:
    return _comparer.same(right, answer)


def same_formula(answer: str, right: str) -> bool:
    """Whether an answer is the same as the right one, as math-verify sees it.

    An answer that cannot be read is wrong, as is one whose comparison takes too long. `2+2` is the
    same as 4: whether an answer is worked out is asked first (`worked.py`), and costs no process.

    Raises:
        RuntimeError: the library could not be loaded.
    """
    return _same(right, answer)
