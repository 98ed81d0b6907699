"""A child that tries what confinement should refuse, and says what it could do.

Owns the attempts; `layers` in the parent compares the answers with the layers that were asked for.
Every attempt is harmless when it succeeds.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

from .wire import SocketChannel


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _lazy_import() -> None:
    import colorsys  # noqa: F401  (pure Python, small, and not preloaded)


ATTEMPTS: dict[str, Callable[[], object]] = {
    "fork": _fork,
    "socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "signal": lambda: os.kill(os.getppid(), signal.SIGCONT),
    "list_root": lambda: os.listdir("/"),
    "read_passwd": lambda: open("/etc/passwd", "rb").close(),
    "write_tmp": lambda: os.close(os.open("/tmp/.probe", os.O_CREAT | os.O_WRONLY, 0o600)),
    "lazy_import": _lazy_import,
}


def serve(channel: SocketChannel) -> None:
    """Try everything once and report {attempt: it worked}, with the user id."""
    report: dict[str, object] = {}
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
            report[name] = True
        except Exception:  # noqa: BLE001 - refused, in whatever way
            report[name] = False
    report["uid"] = os.getuid()
    channel.send(report)
