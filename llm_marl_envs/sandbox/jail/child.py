"""From fork to first job: cleans and confines a child, then lets its role take over.

Owns descriptors, signals and the choice of role. Roles are `program` (untrusted code answering
calls), `script` (untrusted code with standard input and output), `judge` (tests) and `probe`.
"""

from __future__ import annotations

import os
import random
import signal
import socket
from typing import Any, NoReturn

from . import judge, probe, program, script
from .confine import Confinement
from .wire import Channel

EXIT_BROKEN = 70  # the child's own machinery failed; no verdict may rest on it
_SOCKET, _RULESET, _FIRST_FREE = 3, 4, 5
_HIGH = 200  # where descriptors are parked while the low numbers are laid out


def run(theirs: socket.socket, null: int, confinement: Confinement, zygote: int) -> NoReturn:
    """Become a confined child that serves `theirs`. Never returns and never raises."""
    code = EXIT_BROKEN
    try:
        channel, ruleset = _descriptors(theirs, null, confinement.ruleset)
        _signals()
        confinement.apply(zygote, ruleset)
        _serve(channel)
        code = 0
    except (EOFError, ConnectionError):
        code = 0  # the other side has all it wanted
    except BaseException:  # whatever happens, a child must not return into the zygote's loop
        pass
    finally:
        os._exit(code)


def _descriptors(theirs: socket.socket, null: int, ruleset: int | None) -> tuple[Channel, int | None]:
    """Keep the socket and the ruleset, /dev/null as standard streams, nothing else."""
    os.dup2(theirs.detach(), _HIGH)
    if ruleset is not None:
        os.dup2(ruleset, _HIGH + 1)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.dup2(_HIGH, _SOCKET, inheritable=False)
    first = _SOCKET + 1
    if ruleset is not None:
        os.dup2(_HIGH + 1, _RULESET, inheritable=False)
        first = _RULESET + 1
    os.closerange(first, 1 << 16)
    # Made before seccomp, which allows neither getsockopt nor getsockname.
    channel = Channel(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=_SOCKET))
    return channel, _RULESET if ruleset is not None else None


def _signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _serve(channel: Channel) -> None:
    job: dict[str, Any] = channel.receive()
    random.seed(0)  # the same program gives the same answers in every run
    role = job["role"]
    if role == "program":
        program.serve(channel, job)
    elif role == "judge":
        judge.serve(channel, job)
    elif role == "script":
        script.serve(channel, job)
    elif role == "probe":
        probe.serve(channel)
    else:
        raise ValueError(f"unknown role {role!r}")
