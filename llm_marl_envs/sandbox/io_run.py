"""One run of a script with standard input and output.

Owns the pipes and the reading of what the script wrote, as bytes up to a cap. Comparison with what
was expected happens in the caller's process, on text that only the caller holds.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
from contextlib import ExitStack

from .jail.script import EXIT_LOAD, EXIT_MEMORY
from .records import KilledError, Limits, Output
from .zygote_link import Child, Exit, Zygote, signal_name

STDERR_BYTES = 4096
PATIENCE = 40  # as in `worker`
_ENDINGS = {0: "pass", EXIT_LOAD: "load_error", EXIT_MEMORY: "memory"}


class StoppedError(Exception):
    """The script's process was stopped from outside."""


class _Pipe:
    """The reading end of a pipe, read until its cap."""

    def __init__(self, cap: int) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.cap = cap
        self.data = bytearray()
        self.open = True

    def pump(self) -> None:
        """Read what is there."""
        try:
            chunk = os.read(self.read_fd, 1 << 16)
        except BlockingIOError:
            return
        self.data += chunk[: self.cap + 1 - len(self.data)]
        self.open = bool(chunk) and len(self.data) <= self.cap

    def text(self) -> str:
        """What came, decoded."""
        return self.data[: self.cap].decode("utf-8", "replace")

    def close_write(self) -> None:
        """Close our copy of the writing end."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_write()
        os.close(self.read_fd)


def run(
    zygote: Zygote, source: str, stdin: str, limits: Limits, isolation: tuple[str, ...]
) -> Output:
    """Run a script once. Raises ZygoteLostError, StoppedError, KilledError, OSError."""
    (child,) = zygote.take(1)
    with ExitStack() as stack:
        stack.callback(child.close)
        stack.callback(child.kill)
        out, err = _Pipe(int(limits.output_kib * 1024)), _Pipe(STDERR_BYTES)
        stack.callback(out.close)
        stack.callback(err.close)
        with tempfile.TemporaryFile() as file:  # the child may read it, and may write no file
            file.write(stdin.encode("utf-8", "surrogateescape"))
            file.seek(0)
            fds = [file.fileno(), out.write_fd, err.write_fd]
            child.channel.sock.settimeout(limits.wall_seconds)
            child.channel.send({"role": "script", "source": source}, fds)
        began = time.monotonic()
        out.close_write()
        err.close_write()
        zygote.ask(1)
        limit = _read(child, (out, err), began, limits.wall_seconds)
        flood = len(out.data) > out.cap
        ended = None if limit or flood else zygote.wait(child, 1.0)
        wall = time.monotonic() - began
        child.kill()
        usage = ended or zygote.wait(child) or Exit(0, 0.0, 0.0)
        if limit and usage.cpu_s >= limits.cpu_seconds:
            limit, ended = False, usage
        status, detail = _status(limit, flood, ended, limits, err)
        numbers = (round(usage.cpu_s, 4), round(wall, 4), round(usage.rss_mib, 2))
        output = Output(status, out.text(), detail[:200], isolation, *numbers)  # type: ignore[arg-type]
        if status == "died" and ended is not None and os.WTERMSIG(ended.status) == signal.SIGKILL:
            raise KilledError(output)
        return output


def _read(child: Child, pipes: tuple[_Pipe, _Pipe], began: float, wall: float) -> bool:
    """Read both pipes to their end, or to the cap of the first. Returns whether time ran out."""
    out = pipes[0]
    poll = select.poll()
    by_fd = {pipe.read_fd: pipe for pipe in pipes}
    for fd in by_fd:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    deadline = began + wall
    while by_fd:
        left = deadline - time.monotonic()
        if left <= 0:
            if child.stopped():
                raise StoppedError("the script was stopped from outside")
            extended = began + min(wall + child.waited(), PATIENCE * wall)
            if extended <= time.monotonic():
                return True
            deadline = max(extended, time.monotonic() + 0.01)
            continue
        for fd, _ in poll.poll(left * 1000):
            by_fd[fd].pump()
            if not by_fd[fd].open:
                if len(out.data) > out.cap:
                    return False
                poll.unregister(fd)
                del by_fd[fd]
    return False


def _status(
    limit: bool, flood: bool, ended: Exit | None, limits: Limits, err: _Pipe
) -> tuple[str, str]:
    if limit:
        return "wall_limit", f"no end within {limits.wall_seconds:g} s"
    if flood:
        return "protocol", f"wrote more than {limits.output_kib:g} KiB"
    if ended is None:
        return "protocol", "closed its output and went on"
    if os.WIFEXITED(ended.status):
        lines = err.text().strip().splitlines()
        code = os.WEXITSTATUS(ended.status)
        return _ENDINGS.get(code, "exception"), lines[-1] if lines else f"exit status {code}"
    number = os.WTERMSIG(ended.status)
    used_up = number == signal.SIGKILL and ended.cpu_s >= limits.cpu_seconds
    if number == signal.SIGXCPU or used_up:
        return "cpu_limit", f"used {ended.cpu_s:.1f} s of processor time"
    return "died", f"was ended by {signal_name(number)}"


def same_output(got: str, expected: str, *, tolerance: float = 0.0) -> bool:
    """Whether two outputs agree line by line, up to white space at line ends and empty last lines.

    With `tolerance` > 0 lines are compared word by word, and words that are numbers may differ by
    that much, relative to the expected one or absolutely.
    """
    ours, theirs = (
        [line.split() for line in text.rstrip().splitlines()] for text in (got, expected)
    )
    if tolerance <= 0:
        strip = [[line.rstrip() for line in text.rstrip().splitlines()] for text in (got, expected)]
        return strip[0] == strip[1]
    if [len(words) for words in ours] != [len(words) for words in theirs]:
        return False
    pairs = zip((w for ws in ours for w in ws), (w for ws in theirs for w in ws), strict=True)
    return all(a == b or _close(a, b, tolerance) for a, b in pairs)


def _close(got: str, expected: str, tolerance: float) -> bool:
    try:
        a, b = float(got), float(expected)
    except ValueError:
        return False
    return abs(a - b) <= tolerance * max(1.0, abs(b))
