"""From fork to first job: cleans and confines a child, then lets its role take over.

Owns descriptors, signals and the choice of role. Roles are `program` (untrusted code answering
calls), `judge` (tests) and `probe`.
"""

from __future__ import annotations

import _socket
import os
import signal
from typing import Any, NoReturn

from . import examiner, probe, program
from .confine import Confinement
from .wire import EXIT_BROKEN, SocketChannel

SOCKET = 3  # the descriptor of every child's socket, whichever it was in the zygote
MAX_FD = 1 << 16


def run(theirs: int, confinement: Confinement) -> NoReturn:
    """Become a confined child that serves the socket `theirs`. Never returns and never raises.

    Standard streams are the zygote's, which are /dev/null.
    """
    code = EXIT_BROKEN
    try:
        signal.set_wakeup_fd(-1)
        _close_others(theirs, confinement.ruleset)
        confinement.apply()
        if theirs != SOCKET:
            os.dup2(theirs, SOCKET, inheritable=False)
            os.close(theirs)
        del theirs
        _serve()
        code = 0
    except (EOFError, ConnectionError):
        code = 0  # the other side has all it wanted
    except BaseException:  # noqa: BLE001 - whatever happens, a child must not return into the zygote's loop
        pass
    finally:
        os._exit(code)


def _close_others(theirs: int, ruleset: int | None) -> None:
    """Close every descriptor but the standard streams, the socket and the ruleset."""
    first = 3
    for kept in sorted({theirs, theirs if ruleset is None else ruleset}):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, MAX_FD)


def _serve() -> None:
    # The low-level class: the other one looks things up that need many pages, or system calls.
    channel = SocketChannel(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, SOCKET))
    job: dict[str, Any] = channel.receive()
    if job["role"] == "program":
        program.serve(channel.plain(), job)
    elif job["role"] == "judge":
        examiner.serve(channel, job)
    else:
        probe.serve(channel)
