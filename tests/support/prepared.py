"""Python programs that begin with torch, TRL and the trainer already imported.

A server imports them once for all test processes and forks itself for each program, so a start
costs a tenth of a second instead of ten. Each program is a process with arguments, environment,
folder, streams, signals and status of its own. Its imports, the interpreter's options and the seed
of hashes are the server's: what is to show these starts `sys.executable`.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

HEAVY = ("torch.distributed.run", "trainers.train")
ALLOCATOR = "jemalloc_bg_thd"  # of pyarrow; jemalloc sees to forks itself
START_SECONDS, LONELY_SECONDS = 300.0, 60.0
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
ROOT = Path(__file__).parents[2]
_held: list[Any] = []  # while these connections are open, the server lives


@cache
def python() -> str:
    """A command that takes a Python program as `sys.executable` does; that itself off Linux."""
    if not sys.platform.startswith("linux"):
        return sys.executable
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    folder = Path(tempfile.gettempdir(), f"prepared-{run}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "socket").exists():
            _start(folder)
        keeper = socket.socket(socket.AF_UNIX)
        keeper.connect(str(folder / "socket"))
        keeper.sendall(b"k")
    _held.append(keeper)
    return str(folder / "python")


def _start(folder: Path) -> None:
    command = [sys.executable, "-P", __file__]
    line = shlex.join([sys.executable, "-IS", __file__, "--client", str(folder / "socket")])
    (folder / "python").write_text(f'#!/bin/sh\nexec {line} "$@"\n')
    (folder / "python").chmod(0o700)
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [*command, str(folder)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _held.append(server)
    until = time.monotonic() + START_SECONDS
    while not (folder / "socket").exists():
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"no server of programs: {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.05)


def client(path: str, arguments: list[str]) -> NoReturn:
    """Have the server run a program with this process's streams; ends as the program ended."""
    asked = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    socket.send_fds(server, [b"r"], [0, 1, 2])
    server.sendall(json.dumps(asked).encode())
    server.shutdown(socket.SHUT_WR)
    lines = server.makefile()
    pid = int(lines.readline())
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = int(lines.readline())
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.WEXITSTATUS(status))


class Server:
    """Forks for each client; ends with the last test process, and with it what still runs."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{path}.new")
        self.listener.listen(64)
        self.poll = select.poll()
        self.poll.register(self.listener, select.POLLIN)
        self.keepers: dict[int, socket.socket] = {}
        self.clients: dict[int, tuple[socket.socket, int, int]] = {}  # their fd -> it, pid, pidfd
        self.ends: dict[int, int] = {}  # pidfd -> the client's fd
        Path(f"{path}.new").rename(path)

    def serve(self) -> tuple[dict[str, Any], list[int]] | None:
        """Returns in children alone: what is asked for and the streams; None at the end."""
        while True:
            events = self.poll.poll(None if self.keepers else LONELY_SECONDS * 1000)
            for fd, _ in events:
                if fd == self.listener.fileno():
                    asked = self.accept()
                    if asked is not None:
                        return asked
                elif fd in self.ends:
                    self.report(self.ends.pop(fd))
                elif fd in self.clients:  # it is gone, so its program must not go on
                    self.poll.unregister(fd)
                    os.kill(self.clients[fd][1], signal.SIGKILL)
                elif fd in self.keepers:
                    self.poll.unregister(fd)
                    self.keepers.pop(fd).close()
            if not self.keepers and (not events or not self.listens()):
                for _, pid, _ in self.clients.values():
                    os.kill(pid, signal.SIGKILL)
                return None

    def listens(self) -> bool:
        """Whether somebody is waiting to be accepted."""
        return bool(select.select([self.listener], [], [], 0)[0])

    def accept(self) -> tuple[dict[str, Any], list[int]] | None:
        """A test process that only keeps the server alive, or a program: forks in that case."""
        one, _ = self.listener.accept()
        _, streams, _, _ = socket.recv_fds(one, 1, 3)
        if not streams:
            self.keepers[one.fileno()] = one
            self.poll.register(one, 0)  # hanging up is always reported
            return None
        asked = json.loads(b"".join(iter(lambda: one.recv(1 << 16), b"")))
        pid = os.fork()
        if pid == 0:
            for other in (self.listener, one, *self.keepers.values()):
                other.close()
            for client, _, pidfd in self.clients.values():
                client.close()
                os.close(pidfd)
            return asked, streams
        for stream in streams:
            os.close(stream)
        one.sendall(f"{pid}\n".encode())
        pidfd = os.pidfd_open(pid)
        self.clients[one.fileno()] = one, pid, pidfd
        self.ends[pidfd] = one.fileno()
        self.poll.register(one, 0)
        self.poll.register(pidfd, select.POLLIN)
        return None

    def report(self, fd: int) -> None:
        """Tell a client how its program ended."""
        one, pid, pidfd = self.clients.pop(fd)
        for other in (fd, pidfd):
            with contextlib.suppress(KeyError):  # the client has gone
                self.poll.unregister(other)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        with contextlib.suppress(OSError):  # nobody wants to know any more
            one.sendall(f"{status}\n".encode())
        one.close()


def become(asked: dict[str, Any], streams: list[int], shim: str, base: list[str]) -> None:
    """Run a program in this process as the interpreter would."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.executable = shim
    arguments, safe = list(asked["arguments"]), False
    while arguments[0] in ("-u", "-P"):
        safe = safe or arguments[0] == "-P"
        arguments.pop(0)
    paths = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:] = [*paths, *base]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    importlib.invalidate_caches()
    if arguments[0] == "-m":
        sys.path[:0] = [] if safe else [os.getcwd()]
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0].startswith("-"):
        raise ValueError(f"{arguments[0]}: expected -m, -u, -P or a file")
    else:
        sys.path[:0] = [] if safe else [os.path.dirname(os.path.abspath(arguments[0]))]
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def main() -> None:
    """Import, wait for programs and fork; in children, run one."""
    folder = Path(sys.argv[1])
    base = [one for one in sys.path if one != str(ROOT)]
    for name in HEAVY:
        importlib.import_module(name)
    threads = {Path(one, "comm").read_text().strip() for one in Path("/proc/self/task").iterdir()}
    threads -= {Path("/proc/self/comm").read_text().strip(), ALLOCATOR}
    if threads:
        raise RuntimeError(f"a process must not fork with these threads: {threads}")
    gc.collect()
    gc.freeze()
    server = Server(folder / "socket")
    asked = server.serve()
    if asked is not None:
        become(*asked, str(folder / "python"), base)
        return
    for name in ("socket", "python", "log", "lock"):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        client(sys.argv[2], sys.argv[3:])
    main()
