"""Runs the code that children run, once in the zygote, so that all of them share its traces.

The interpreter adapts code as it runs, and creates what it needs on first use; each such write in a
child would copy a page of memory. Nothing of a task is involved: the texts below are all there is.
"""

from __future__ import annotations

import _socket
import os
import socket

from . import codec, program
from .wire import Channel, SocketChannel

_SOURCE = "import math\nLIMIT = 10\n\ndef double(x: int) -> int:\n    return 2 * x\n"
_VALUES: tuple[object, ...] = (1, 2.5, "text", None, True, [1, [2]], (1, "a"), {"k": [1]}, {1, 2})
_ROUNDS = 20  # more than the interpreter waits before it adapts a piece of code


def up() -> None:
    """Exercise loading, calling, and both directions of the codec and of the wire."""
    ours, theirs = socket.socketpair()
    remote = Channel(theirs.fileno())
    for _ in range(_ROUNDS):
        first = SocketChannel(
            _socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, os.dup(ours.fileno()))
        )
        remote.send({"role": "warm"})
        first.receive()
        local = first.plain()
        module = program.new_module("warm")
        program.load(_SOURCE, module, "<warm>")
        for value in _VALUES:
            encoded = codec.encode_any(value)
            local.send({"id": 1, "call": "double", "args": [encoded], "kwargs": []})
            codec.decode(remote.receive()["args"][0])
        call = {"id": 1, "call": "double", "args": [2], "kwargs": []}
        program.answer(local, program.Link(local), module, call)
        remote.receive()
        os.close(local.fd)
    ours.close()
    theirs.close()
