"""The parent's handle on one zygote process and on the children that it forks.

Owns starting, asking for children, reading exits, and ending. Every exchange has a time limit. A
zygote that is gone, stopped or silent raises `RunLostError` or another OSError. Never forks the
calling process: the zygote is spawned by exec. Children are killed through descriptors of their
processes, which cannot hit a recycled pid and work across pid namespaces.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import launch
from .cgroup import Cgroup
from .jail.wire import CHILD, EXIT, READY, RECORD, SocketChannel, received_fds

LINUX = sys.platform.startswith("linux")
START_SECONDS = 60.0  # a loaded machine may take long to import the standard library
REPLY_SECONDS = 20.0
BATCH = 8  # children forked at a time; cheaper than one by one
POLL_SECONDS = 0.25  # how often a silent zygote is looked at


class RunLostError(OSError):
    """A run failed for reasons outside the programs."""


@dataclass
class Child:
    """A confined process that waits for a job, or runs one."""

    pid: int  # as the zygote sees it
    channel: SocketChannel
    pidfd: int | None
    exit: Exit | None = None
    closed: bool = False

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        elif not LINUX and not self.closed:
            # Never on Linux, where the number may belong to another pid namespace.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Release its descriptors."""
        self.channel.sock.close()
        self.closed = True
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def waited(self) -> float:
        """Seconds its main thread was ready but had no processor; 0 if it ended, or unknown."""
        fields = _proc(self.pidfd, "schedstat").split()
        return int(fields[1]) / 1e9 if len(fields) == 3 else 0.0

    def used(self) -> float:
        """Processor seconds of all its threads so far; 0 where that is unknown."""
        if self.exit is not None:
            return self.exit.cpu_s
        if self.pidfd is None or not LINUX:
            return 0.0
        try:  # the clock of another process: its number inverted, and CPUCLOCK_SCHED
            return time.clock_gettime(~_host_pid(self.pidfd) << 3 | 2)
        except OSError:
            return 0.0  # it has just ended; the zygote's report will say

    def stopped(self) -> bool:
        """Whether somebody has stopped it with a signal or a debugger."""
        return _stopped(self.pidfd)


@dataclass(frozen=True)
class Exit:
    """How a child ended."""

    status: int  # as waitpid gives it
    cpu_s: float
    rss_mib: float


def signal_name(number: int) -> str:
    """Such as "SIGSEGV"; most real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def readable(sock: socket.socket | _socket.socket, seconds: float) -> bool:
    """Wait for something to read. Unlike select(), this knows no highest descriptor."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _proc(pidfd: int | None, name: str) -> str:
    """A file of /proc for the process behind a descriptor; empty where it cannot be read."""
    if pidfd is None:
        return ""
    try:
        with open(f"/proc/{_host_pid(pidfd)}/{name}") as file:
            return file.read()
    except OSError:
        return ""


def _host_pid(pidfd: int | None) -> int:
    """The number, as this process sees it, of the process behind a descriptor. Raises OSError."""
    with open(f"/proc/self/fdinfo/{pidfd}") as info:
        pid = next((int(line[4:]) for line in info if line.startswith("Pid:")), -1)
    if pid <= 0:
        raise ProcessLookupError(f"descriptor {pidfd} is of no living process")
    return pid


def _stopped(pidfd: int | None) -> bool:
    _, _, state = _proc(pidfd, "stat").rpartition(") ")
    return state[:1] in ("T", "t")


@dataclass
class Zygote:
    """One running zygote. Not thread-safe: it belongs to one worker."""

    control: socket.socket
    process: subprocess.Popen[bytes]
    group: Cgroup | None = None
    pidfd: int | None = None
    ready: list[Child] = field(default_factory=list)
    asked: int = 0  # children requested and not yet received
    alive: dict[int, Child] = field(default_factory=dict)

    @staticmethod
    def start(prefix: list[str], options: Mapping[str, object], group: Cgroup | None) -> Zygote:
        """Spawn a zygote; `wait_ready` completes the start. Raises OSError."""
        ours, theirs = socket.socketpair()
        parent = os.pidfd_open(os.getpid()) if LINUX else os.dup(theirs.fileno())
        try:
            line = launch.command(theirs.fileno(), parent if LINUX else -1, options)
            process = subprocess.Popen(
                [*prefix, *line],
                env=launch.ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), parent),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(parent)
        return Zygote(ours, process, group)

    def wait_ready(self) -> None:
        """Wait until it has imported all it will. Raises OSError."""
        kind, _, _, fds = self._record(time.monotonic() + START_SECONDS)
        if kind != READY:
            raise RunLostError("the zygote could not prepare its layers")
        self.pidfd = fds[0] if fds else None
        if self.group is not None:  # before the first child, so that all of them are in it
            self.group.add(self.process.pid)
            self.group.add(_host_pid(self.pidfd))
        # If memory runs out, the sandbox goes first; inherited by every child.
        with contextlib.suppress(OSError):  # not Linux, or /proc is not ours to write
            Path(f"/proc/{self.process.pid}/oom_score_adj").write_text("900")

    def ask(self, count: int) -> None:
        """Ask for enough children that `count` are ready; they are forked meanwhile."""
        missing = count - len(self.ready) - self.asked
        if missing > 0:
            missing = max(missing, BATCH)
            self.control.settimeout(REPLY_SECONDS)
            self.control.sendall(bytes([missing]))
            self.asked += missing

    def take(self, count: int) -> list[Child]:
        """`count` fresh children. Raises OSError."""
        self.ask(count)
        deadline = time.monotonic() + REPLY_SECONDS
        while len(self.ready) < count:
            self._handle(deadline)
        taken, self.ready = self.ready[:count], self.ready[count:]
        return taken

    def wait(self, child: Child, seconds: float = REPLY_SECONDS) -> Exit | None:
        """How a child ended; None if it still runs after `seconds`. Raises OSError."""
        deadline = time.monotonic() + seconds
        while child.exit is None:
            try:
                self._handle(deadline)
            except TimeoutError:
                return None
        return child.exit

    def _handle(self, deadline: float) -> None:
        kind, pid, (status, spent, peak), fds = self._record(deadline)
        if kind == CHILD:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fds[0])
            child = Child(pid, SocketChannel(sock), fds[1] if len(fds) > 1 else None)
            self.asked -= 1
            self.alive[pid] = child
            self.ready.append(child)
        elif kind == EXIT and pid in self.alive:
            self.alive.pop(pid).exit = Exit(status, spent / 1e6, peak / 1024)

    def _record(self, deadline: float) -> tuple[int, int, list[int], list[int]]:
        """The next report: kind, pid, numbers, descriptors. Each is sent and comes as a whole."""
        self._await(deadline)
        try:
            data, ancillary, _, _ = self.control.recvmsg(RECORD.size, socket.CMSG_SPACE(4 * 2))
        except ConnectionError:
            data, ancillary = b"", []
        fds = received_fds(ancillary)
        if len(data) < RECORD.size:
            raise RunLostError("the zygote ended")
        kind, pid, *numbers = RECORD.unpack(data)
        return kind, pid, numbers, fds

    def _await(self, deadline: float) -> None:
        """Wait until the zygote speaks. Raises TimeoutError, or RunLostError if stopped."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the zygote does not answer")
            if readable(self.control, min(left, POLL_SECONDS)):
                return
            if _stopped(self.pidfd):
                raise RunLostError("the zygote is stopped")

    def close(self) -> None:
        """End the zygote and all its children, and release every descriptor."""
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            os.close(self.pidfd)
            self.pidfd = None
        else:
            self.process.kill()
        self.control.close()
        for child in [*self.ready, *self.alive.values()]:
            child.kill()
            child.close()
        self.ready.clear()
        self.alive.clear()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.group is not None:
            self.group.remove()
