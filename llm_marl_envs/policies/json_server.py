"""JSON to and from a server: retries with growing waits, and a key that stays home.

Errors quote the server, never the key.
"""

from __future__ import annotations

import json
import os
import random
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.parse import urlsplit

from llm_marl_envs.files.foreign import QUOTED_CHARS, json_of
from llm_marl_envs.policies.exchange import HTTPRefusedError, exchange

S = TypeVar("S")
T = TypeVar("T")
KEY_VARIABLE = "LLM_MARL_API_KEY"
LASTING = frozenset({501, 505, 506, 508, 510, 511, 526})
"""Errors of a server that another attempt would not better."""
RETRIED = frozenset({408, 409, 425, 429, *range(500, 600)}) - LASTING
"""Those that pass; 520 to 530 are of proxies, 529 of a server with too much to do."""
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0


class EndpointError(ConnectionError):
    """The server cannot be reached, or what it answers is of no use; the message quotes it."""


class LostServerError(EndpointError):
    """No answer, for now: refused, timed out, cut short, or an error of the server itself."""


class UselessAnswerError(Exception):
    """An answer that another attempt would not better."""


class _TransientError(Exception):
    """Worth another attempt, after at least `wait` seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def at_once(ask: Callable[[T], S], what: Sequence[T], concurrency: int) -> list[S]:
    """`ask` of each, in order, so many at once; after an error those not begun are not asked."""
    if not what:
        return []
    with ThreadPoolExecutor(min(concurrency, len(what)), "asked") as pool:
        asked = [pool.submit(ask, item) for item in what]
        try:
            return [future.result() for future in asked]
        except BaseException:
            for future in asked:
                future.cancel()
            raise


def valid(text: str) -> str:
    """A text as servers take it: lone surrogates, which are no UTF-8, as `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class JsonServer:
    """A server that takes and gives JSON.

    Attributes:
        base: its address, before every path.
        timeout: seconds that one attempt may take, from the look-up of the name to the last byte.
        retries: further attempts after a failure that may pass.
        key: sent as a bearer token to the address's own scheme, host and port alone; the variable
            `LLM_MARL_API_KEY` where None.

    Raises:
        ValueError: a key that no header can hold.
    """

    base: str
    _: KW_ONLY
    timeout: float = 120.0
    retries: int = 5
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.secret()  # one that cannot be sent is refused now

    def ask(self, path: str, body: Any, read: Any, decode: Callable[[bytes], Any] = json_of) -> Any:
        """One exchange with retries.

        Args:
            path: behind the server's address, e.g. "/models".
            body: what is posted, None for a GET.
            read: takes the decoded answer apart; a `UselessAnswerError` of it is final, what is
                not as expected is asked again.
            decode: of the answer's bytes.

        Raises:
            LostServerError: no attempt brought an answer.
            EndpointError: the server refused for good.
        """
        url = self.base + path
        for attempt in range(self.retries + 1):
            try:
                return self._attempt(url, body, lambda content: read(decode(content)))
            except _TransientError as error:
                if attempt == self.retries:
                    raise LostServerError(
                        f"{url}: {error} (after {attempt + 1} attempts)"
                    ) from error
                # Spread, or requests that were refused together would come back together.
                wait = FIRST_WAIT * 2**attempt * random.Random().uniform(1.0, 1.5)
                time.sleep(min(LONGEST_WAIT, max(error.wait, wait)))
        raise AssertionError("the loop returns or raises")

    def secret(self) -> str:
        """The key, "" without one.

        Raises:
            ValueError: it holds what no header can.
        """
        where = KEY_VARIABLE if self.key is None else "key"
        key = (os.environ.get(KEY_VARIABLE, "") if self.key is None else self.key).strip()
        if not (key.isascii() and key.isprintable()):
            raise ValueError(
                f"{where}: expected printable ASCII characters (its value is not shown)"
            )
        return key

    def hidden(self, text: str) -> str:
        """What a server said, without the key that it may have repeated."""
        if key := self.secret():
            text = text.replace(key, "[key]").replace(json.dumps(key)[1:-1], "[key]")
        return text

    def quoted(self, said: Any) -> str:
        """The beginning of what a server said, without the key or a half of it."""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        near = text[: 8 * QUOTED_CHARS]
        kept = self.hidden(near)
        if near != text:  # the cut may have left a half
            kept = kept[: -len(json.dumps(self.secret()))]
        return kept[:QUOTED_CHARS] + ("..." if len(text) > QUOTED_CHARS else "")

    def _attempt(self, url: str, body: Any, read: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        if key := self.secret():
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers)
        try:
            content = exchange(request, self.timeout, _Redirects())
        except HTTPRefusedError as error:
            said = self.quoted(error.content)
            text = f"HTTP {error.code} {self.quoted(error.reason)}: {said!r}"
            if error.code in RETRIED:
                raise _TransientError(text, _seconds(error.headers.get("Retry-After"))) from error
            if place := error.headers.get("Location"):
                text += f"; it sends on to {self.quoted(place)!r}, which is not followed: name "
                text += "the address that answers"
            raise EndpointError(f"{url}: {text}") from error
        except (OSError, HTTPException) as error:  # refused, reset, timed out, cut short
            raise _TransientError(f"no answer ({self.quoted(error)})") from error
        except ValueError as error:  # it sends on to what is no address
            raise EndpointError(f"{url}: no answer ({self.quoted(error)})") from error
        try:
            return read(content)
        except UselessAnswerError as error:
            raise EndpointError(f"{url}: {self.quoted(error)}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            what, said = self.quoted(repr(error)), self.quoted(content)
            raise _TransientError(f"not the expected answer ({what}): {said!r}") from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server elsewhere, but takes nothing of ours to another origin beside the question.

    307 and 308 repeat the question. The other codes would drop it, so a question does not follow
    them. `None` leaves the answer to the caller as an `HTTPError`.
    """

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The next request: with all our headers at home, elsewhere with the content's type."""
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.data is not None and code not in (307, 308)):
            return None
        kept = dict(req.headers)  # what the connection needs, e.g. Host, is not among them
        if _origin(newurl) != _origin(req.full_url):
            kept = {name: value for name, value in kept.items() if name == "Content-type"}
        return urllib.request.Request(newurl, req.data, kept, unverifiable=True)


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def check_url(url: str) -> None:
    """Refuse what is no address of a server, or holds a secret that files would keep.

    Raises:
        ValueError: no http URL, or one with a user, a password, a query or a fragment; what stands
            there is not shown.
    """
    parts = urlsplit(url)
    if "@" in url or parts.query or parts.fragment:
        raise ValueError(
            "the server's URL holds a user, a password, a query or a fragment: expected e.g. "
            f"'http://localhost:8000', and the key in the environment variable {KEY_VARIABLE}"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url={url!r:.200}: expected e.g. 'http://localhost:8000'")


def _seconds(retry_after: str | None) -> float:
    """A `Retry-After` in seconds; 0 where it is a date, missing or nonsense."""
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
