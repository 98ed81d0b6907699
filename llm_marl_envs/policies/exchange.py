"""One question to an HTTP server and its answer, within a time that bounds all of it.

urllib's time-out is one of each read: a server that sends a byte now and then never meets it. So
the exchange runs in a thread of its own, and when its time is over, its connections are shut. Owns
no retries and no meaning of an answer.
"""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock, Thread
from typing import Any

MOST_BYTES = 1 << 28
"""Most bytes of an answer; log-probs of long samples stay far below."""
MOST_OF_AN_ERROR = 1 << 14


class HTTPRefusedError(Exception):
    """The server answered with an error, or sends elsewhere.

    Attributes:
        code: the status.
        reason: what stands beside it.
        headers: of the answer.
        content: the beginning of its text.
    """

    def __init__(self, error: urllib.error.HTTPError) -> None:
        super().__init__(f"HTTP {error.code}")
        self.code, self.reason, self.headers = error.code, str(error.reason), error.headers
        try:
            self.content = error.read(MOST_OF_AN_ERROR)
        except (OSError, HTTPException) as broken:
            self.content = f"(its text broke off: {broken})".encode()


def exchange(
    request: urllib.request.Request, seconds: float, *handlers: urllib.request.BaseHandler
) -> bytes:
    """What the server answers.

    Args:
        request: what is asked.
        seconds: that all of it may take, from the look-up of a name to the last byte.
        handlers: for urllib's opener, beside those of connections.

    Raises:
        HTTPRefusedError: the server says no.
        TimeoutError: the time is over.
        OSError, HTTPException, ValueError: as urllib.
    """
    answer: Future[bytes] = Future()
    lines = _Lines()

    def run() -> None:
        try:
            answer.set_result(_asked(request, seconds, lines, handlers))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    Thread(target=run, daemon=True, name="exchange").start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"timed out after {seconds:g} s") from None
    finally:
        lines.shut()


def _asked(request: urllib.request.Request, seconds: float, lines: _Lines, handlers: Any) -> bytes:
    opener = urllib.request.build_opener(lines.plain, lines.secure, *handlers)
    try:
        with opener.open(request, timeout=seconds) as answer:
            content = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise HTTPRefusedError(error) from error
    if len(content) > MOST_BYTES:
        raise HTTPException(f"an answer of more than {MOST_BYTES} bytes")
    if answer.length:  # `read` of so many bytes does not say that it broke off
        raise HTTPException(f"it broke off {answer.length} bytes before its end")
    return content


class _Lines:
    """The connections of one exchange, which can be shut while others read from them.

    A copy of each socket is kept: TLS takes the socket itself for its own.
    """

    def __init__(self) -> None:
        self.plain, self.secure = _Plain(self), _Secure(self)
        self._over = False
        self._sockets: list[socket.socket] = []
        self._lock = Lock()

    def connect(self, address: Any, timeout: Any = None, source: Any = None) -> socket.socket:
        """As `socket.create_connection`.

        Raises:
            TimeoutError: nobody waits any more.
            OSError: as there.
        """
        made = socket.create_connection(address, timeout, source)
        with self._lock:
            if self._over:
                made.close()
                raise TimeoutError("timed out")
            self._sockets.append(made.dup())
        return made

    def shut(self) -> None:
        """End what still reads or writes, and let nobody connect."""
        with self._lock:
            self._over = True
            for one in self._sockets:
                with suppress(OSError):  # it is shut already
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._sockets.clear()

    def opened(self, kind: Any, host: str, **settings: Any) -> HTTPConnection:
        """A connection of urllib's that connects by us, also to a proxy."""
        connection = kind(host, **settings)
        connection._create_connection = self.connect
        return connection


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self.lines = lines

    def http_open(self, req: Any) -> Any:
        return self.do_open(partial(self.lines.opened, HTTPConnection), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self.lines = lines

    def https_open(self, req: Any) -> Any:
        opened: Any = partial(self.lines.opened, HTTPSConnection)
        return self.do_open(opened, req)
