"""The zygote: imports the standard library once, then forks one confined child per request.

Owns the fork loop and the reporting of exits. It never sees a program or a test: jobs go straight
to the child over a socket that the zygote makes and gives away, so that no later child can find
anything of an earlier one in its memory.

Control protocol, on one stream socket. Requests are single bytes, the number of children wanted.
Replies are records of fixed size: READY once, with a descriptor of the zygote's own process; CHILD,
with the child's socket and a descriptor of its process; EXIT, with wait status, processor time in
microseconds and peak memory in KiB.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import errno
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence

from . import child, kernel, warm
from .confine import LINUX, Confinement, Policy
from .preloaded import PRELOADED
from .wire import CHILD, EXIT, FAILED, READY, RECORD

MAX_BATCH = 64  # each child takes two descriptors while it is made
SEND_TRIES, SEND_PAUSE = 2000, 0.005  # seconds
FORK_PAUSE = 10  # milliseconds before a fork that was refused is tried again


def main() -> None:
    """Serve until the control socket closes or the parent ends. Never returns.

    Children leave the loop and run from here: nothing on their stack, and nothing that they could
    reach from it, tells which child they are.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    parent = int(sys.argv[2])
    options = json.loads(sys.argv[3])
    sys.argv = sys.orig_argv = [""]  # of no use to programs
    sys.path += options["paths"]
    if options["processor"] is not None:
        with contextlib.suppress(OSError):  # it may have gone, and is a matter of speed alone
            os.sched_setaffinity(0, {options["processor"]})
    for name in [*PRELOADED, *options["preload"]]:
        importlib.import_module(name)
    for name in options["optional"]:
        with contextlib.suppress(ImportError):  # not every build has every module
            importlib.import_module(name)
    try:
        confinement = Confinement(Policy(**options["policy"]))
    except OSError as error:
        control.sendall(RECORD.pack(FAILED, 0, error.errno or 0, 0, 0))
        os._exit(1)
    child.run(_Zygote(control, parent, confinement).serve(), confinement)


class _Zygote:
    def __init__(self, control: socket.socket, parent: int, confinement: Confinement) -> None:
        self.control = control
        self.parent = parent
        self.confinement = confinement
        self.fork = kernel.fork if LINUX else os.fork
        self.owed = 0  # children that were asked for and are not yet made
        self.wake, write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> int:
        """Fork until the parent ends. Returns in children alone: the descriptor of their socket."""
        self.report(READY, os.getpid(), fds=_pidfd(os.getpid()))
        poll = select.poll()
        for fd in (self.control.fileno(), self.wake):
            poll.register(fd, select.POLLIN)
        if self.parent >= 0:
            poll.register(self.parent, select.POLLIN)
        warm.up()
        self.confinement.prepare()
        random.seed(0)  # the same program gives the same answers in every run
        gc.collect()
        gc.freeze()
        sys._getframe()  # what handlers of signals get is made now, not when the first one comes
        while True:
            for fd, _ in poll.poll(FORK_PAUSE if self.owed else None):
                if fd == self.wake:
                    self.reap()
                elif fd == self.control.fileno():
                    wanted = self.control.recv(1)
                    if not wanted:
                        os._exit(0)
                    self.owed += wanted[0]
                else:
                    os._exit(0)  # the parent has ended, whoever else holds the control socket
            if self.owed:
                # An earlier child may end meanwhile. Were that handled between two forks, the later
                # child would inherit what the handler leaves behind, and could tell.
                signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
                theirs = self.spawn(min(MAX_BATCH, self.owed))
                signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))  # in children, too
                if theirs is not None:
                    return theirs

    def spawn(self, count: int) -> int | None:
        """Fork `count` children, one right after the other. Returns a socket in each of them.

        Each fork makes every page that the zygote writes to afterwards cost a copy; done in one go,
        those copies are made once for all. Those that cannot be made, because a program's threads
        are all that the machine or the group allows, stay owed.
        """
        gc.collect()  # all children inherit the same counts, whatever was done since the last batch
        pairs = [_socket.socketpair() for _ in range(count)]  # low-level: fewer pages are touched
        pids: list[int] = []
        for _, theirs in pairs:
            pid = self.fork()
            if pid == 0:
                return theirs.detach()
            if pid < 0:
                break
            pids.append(pid)
        self.owed -= len(pids)
        for pid, (ours, theirs) in zip(pids, pairs, strict=False):
            theirs.close()
            self.report(CHILD, pid, fds=[ours.detach(), *_pidfd(pid)])
        return None

    def reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            spent = int((usage.ru_utime + usage.ru_stime) * 1e6)
            self.report(EXIT, pid, (status, spent, usage.ru_maxrss))

    def report(
        self, kind: int, pid: int, ended: tuple[int, int, int] = (0, 0, 0), fds: Sequence[int] = ()
    ) -> None:
        """Send a record, and give the descriptors away."""
        record = RECORD.pack(kind, pid, *ended)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        for _ in range(SEND_TRIES):
            try:
                self.control.sendmsg([record], rights)
                for fd in fds:
                    os.close(fd)
                return
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    os._exit(0)  # nobody listens any more
            time.sleep(SEND_PAUSE)  # other workers of this user have too many descriptors in flight
        os._exit(1)


def _pidfd(pid: int) -> list[int]:
    """A descriptor of a process, where there are such."""
    return [os.pidfd_open(pid)] if LINUX else []
