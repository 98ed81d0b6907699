"""Messages between processes: length-prefixed JSON over a stream socket, with descriptors beside.

Owns framing, size caps and the passing of descriptors. Does not own the meaning of messages nor the
encoding of Python values (`codec`). Nothing here ever unpickles.
"""

from __future__ import annotations

import _socket
import array
import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

HEADER_BYTES = 4
# What a zygote reports: kind, pid, status, microseconds, KiB.
RECORD = struct.Struct("=Biiqq")
READY, CHILD, EXIT, FAILED = 1, 2, 3, 4
EXIT_BROKEN = 70  # status of a child whose own machinery failed; no verdict may rest on it
MESSAGE_CAP = 8 << 20  # bytes of one message; a longer one is a protocol error
MAX_FDS = 16  # descriptors accepted with one message
CHUNK = 1 << 16
_to_text = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_from_text = json.JSONDecoder().decode


class ProtocolError(ValueError):
    """The peer sent something that is not a message."""


class Channel:
    """One end of a conversation over a connected stream socket, by its descriptor alone.

    `receive` raises EOFError when the peer is gone and ProtocolError for anything that is not a
    JSON message of at most `cap` bytes.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.cap = MESSAGE_CAP
        self.size = 0  # bytes of the last message received
        self._buffer = b""

    def send(self, message: object) -> None:
        """Send one JSON message. Raises OSError."""
        data = _packed(message)
        sent = os.write(self.fd, data)
        while sent < len(data):
            data = data[sent:]
            sent = os.write(self.fd, data)

    def receive(self) -> Any:
        """Return the next message."""
        data = self._buffer
        while len(data) < HEADER_BYTES:
            data += self._more()
        length = int.from_bytes(data[:HEADER_BYTES], "big")
        if length > self.cap:
            raise ProtocolError(f"message of {length} bytes, at most {self.cap} are accepted")
        self.size = length
        end = HEADER_BYTES + length
        if len(data) < end:
            parts = [data]
            missing = end - len(data)
            while missing > 0:
                parts.append(self._more())
                missing -= len(parts[-1])
            data = b"".join(parts)
        self._buffer = data[end:]
        try:
            return _from_text(data[HEADER_BYTES:end].decode())
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"not JSON: {type(error).__name__}") from None

    def _more(self) -> bytes:
        try:
            data = os.read(self.fd, CHUNK)
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError("the peer is gone")
        return data


class SocketChannel(Channel):
    """A channel that passes descriptors too, and keeps to a time-out where the socket has one.

    `receive` also raises TimeoutError. Descriptors that come are appended to `fds`.
    """

    def __init__(self, sock: socket.socket | _socket.socket) -> None:
        super().__init__(sock.fileno())
        self.sock = sock
        self.fds: list[int] = []

    def plain(self) -> Channel:
        """The rest of this conversation over the bare descriptor; this object ends."""
        channel = Channel(self.sock.detach())
        channel._buffer = self._buffer
        return channel

    def send(self, message: object, fds: Sequence[int] = ()) -> None:
        """Send one JSON message, with `fds` attached to its first byte. Raises OSError."""
        data = _packed(message)
        if fds:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
            data = data[self.sock.sendmsg([data], [rights]) :]
        if data:
            self.sock.sendall(data)

    def _more(self) -> bytes:
        try:
            data, ancillary, _, _ = self.sock.recvmsg(CHUNK, socket.CMSG_SPACE(4 * MAX_FDS))
        except ConnectionError:
            raise EOFError("the peer is gone") from None
        self.fds += received_fds(ancillary)
        if not data:
            raise EOFError("the peer is gone")
        return data


def _packed(message: object) -> bytes:
    body = _to_text(message).encode("ascii")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def fits(text: str) -> bool:
    """Whether a text can be sent with a job, whose other parts are small."""
    room = MESSAGE_CAP // 2
    return 12 * len(text) <= room or len(_to_text(text)) <= room  # as two escapes: \ud83d\ude00


def received_fds(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Descriptors found in the ancillary data of one `recvmsg`."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
