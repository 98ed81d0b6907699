"""Messages between processes: length-prefixed JSON over a stream socket, with descriptors beside.

Owns framing, size caps and the passing of descriptors. Does not own the meaning of messages nor the
encoding of Python values (`codec`). Nothing here ever unpickles.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

HEADER = struct.Struct(">I")
MESSAGE_CAP = 8 << 20  # bytes of one message; a longer one is a protocol error
MAX_FDS = 16  # descriptors accepted with one message
CHUNK = 1 << 16


class ProtocolError(ValueError):
    """The peer sent something that is not a message."""


class Channel:
    """One end of a conversation over a connected stream socket.

    `receive` raises EOFError when the peer is gone, TimeoutError when the socket has a time-out that
    expires, and ProtocolError for anything that is not a JSON message of at most `cap` bytes.
    """

    def __init__(self, sock: socket.socket, cap: int = MESSAGE_CAP) -> None:
        self.sock = sock
        self.cap = cap
        self.fds: list[int] = []
        self._buffer = bytearray()

    def send(self, message: object, fds: Sequence[int] = ()) -> None:
        """Send one JSON message, with `fds` attached to its first byte."""
        body = json.dumps(message, separators=(",", ":")).encode("ascii")
        data = HEADER.pack(len(body)) + body
        if fds:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
            sent = self.sock.sendmsg([data], [rights])
            data = data[sent:]
        if data:
            self.sock.sendall(data)

    def receive(self) -> Any:
        """Return the next message; descriptors that came with it are appended to `fds`."""
        self._fill(HEADER.size)
        (length,) = HEADER.unpack_from(self._buffer)
        if length > self.cap:
            raise ProtocolError(f"message of {length} bytes, at most {self.cap} are accepted")
        self._fill(HEADER.size + length)
        body = bytes(self._buffer[HEADER.size : HEADER.size + length])
        del self._buffer[: HEADER.size + length]
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"not JSON: {type(error).__name__}") from None

    def pending(self) -> bool:
        """Whether bytes of a further message have been read already."""
        return bool(self._buffer)

    def _fill(self, count: int) -> None:
        while len(self._buffer) < count:
            try:
                data, ancillary, _, _ = self.sock.recvmsg(CHUNK, socket.CMSG_SPACE(4 * MAX_FDS))
            except ConnectionError:
                raise EOFError("the peer is gone") from None
            self.fds += received_fds(ancillary)
            if not data:
                raise EOFError("the peer is gone")
            self._buffer += data


def received_fds(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Descriptors found in the ancillary data of one `recvmsg`."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
