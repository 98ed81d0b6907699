"""A model behind an OpenAI-compatible server, in any seat.

Owns the requests to `/v1/chat/completions`: many at once, retries with growing waits, timeouts,
redirects that leave the key at home, and errors that quote the server. Standard library only.
"""

from __future__ import annotations

import copy
import json
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from llm_marl_envs.policies.control_strings import without_control
from llm_marl_envs.records import Request, Response
from llm_marl_envs.spaces import Message

KEY_VARIABLE = "LLM_MARL_API_KEY"
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
QUOTED_CHARS = 500
SEED_BITS = 31  # servers differ in how large a seed they take


class EndpointError(ConnectionError):
    """The server cannot be reached, or what it answers is of no use; the message quotes it."""


class _UselessError(Exception):
    """An answer that another attempt would not better."""


class _TransientError(Exception):
    """Worth another attempt, after at least `wait` seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(eq=False, repr=False)
class EndpointPolicy:
    """Asks a server for each action.

    A server's sampling may depend on what else it computes: equal seeds need not give equal texts.

    Args:
        url: of the server, with or without `/v1`, e.g. "http://localhost:8000".
        model: its name there; the only one that the server lists, where None.
        max_completion_length: most tokens of one action.
        temperature: 0 is greedy.
        concurrency: most requests under way at once.
        timeout: seconds that one attempt may take.
        retries: further attempts after a failure that may pass.
        options: further fields of the request body, e.g. {"top_p": 0.9}; they win.
        strip_control: whether control strings of known families (`<|im_end|>`) are removed from
            what is sent. The server renders the messages and would take them for its own.
        token_ids: ask for the ids and log-probs of every action, as vLLM gives them
            (`return_token_ids`), so that a trainer learns from exactly what was sampled. A server
            that sends none is an error.
        prefix: what the paths of the server begin with, "/v1" by the protocol; added to a `url`
            that does not end with it. "" for a server that answers at `/chat/completions`, and then
            `model` must be named.

    The key for the server is `key`, else the environment variable `LLM_MARL_API_KEY`, if it is set.
    It goes to the URL's own scheme, host and port alone: where the server redirects elsewhere, the
    request follows without it. No error and no record shows it; a copy or a pickle of the policy
    holds what was passed as `key`.

    Raises:
        ValueError: an argument out of range, no http URL or one with a password or a query, a key
            that no header can hold, or the model must be named.
        EndpointError: the list of models cannot be had.
    """

    url: str
    model: str | None = None
    _: KW_ONLY
    max_completion_length: int = 256
    temperature: float = 1.0
    concurrency: int = 16
    timeout: float = 120.0
    retries: int = 5
    options: Mapping[str, Any] | None = None
    strip_control: bool = True
    token_ids: bool = False
    key: str | None = None
    prefix: str = "/v1"

    def __post_init__(self) -> None:
        check_url(self.url)
        self._secret()  # one that cannot be sent is refused now
        if self.max_completion_length < 1 or self.concurrency < 1 or self.timeout <= 0:
            raise ValueError(
                f"max_completion_length={self.max_completion_length}, "
                f"concurrency={self.concurrency}, timeout={self.timeout}: "
                "expected at least 1, 1 and more than 0"
            )
        if self.temperature < 0 or self.retries < 0:
            raise ValueError(
                f"temperature={self.temperature}, retries={self.retries}: expected 0 or more"
            )
        base = self.url.rstrip("/")
        self.base = base if base.endswith(self.prefix) else base + self.prefix
        self.model = self.model or self._only_model()
        self.options = dict(self.options or {})
        self.identity = (
            f"{self.model} at {self.base}, at most {self.max_completion_length} tokens, "
            f"temperature {self.temperature:g}, {json.dumps(self.options, sort_keys=True)}"
            + ("" if self.strip_control else ", control strings sent")
        )

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One answer per request.

        Raises:
            EndpointError: a request failed for good; the message names it and quotes the server.
        """
        if not requests:
            return []
        with ThreadPoolExecutor(min(self.concurrency, len(requests)), "endpoint") as pool:
            asked = [pool.submit(self._answer, request) for request in requests]
            try:
                return [one.result() for one in asked]
            except BaseException:
                for one in asked:  # those not begun yet; an error is not repeated for each
                    one.cancel()
                raise

    def stretched(self, factor: int) -> EndpointPolicy:
        """The same model with actions `factor` times as long."""
        other = copy.copy(self)
        other.max_completion_length = self.max_completion_length * factor
        return other

    def _answer(self, request: Request) -> Response:
        body = {
            "model": self.model,
            "messages": [{"role": m.role, "content": self._sent(m)} for m in request.messages],
            "max_tokens": self.max_completion_length,
            "temperature": self.temperature,
            "seed": request.seed % 2**SEED_BITS,
            **({"return_token_ids": True, "logprobs": True} if self.token_ids else {}),
            **(self.options or {}),
        }
        try:
            return self._ask("/chat/completions", body, self._read)
        except EndpointError as error:
            raise EndpointError(
                f"task {request.task_id!r}, {request.agent}, turn {request.turn}: {error}"
            ) from error

    def _sent(self, message: Message) -> str:
        text = _valid(message.content)
        own = message.role == "assistant"
        return without_control(text, own=own) if self.strip_control else text

    def _read(self, answer: Any) -> Response:
        choice = answer["choices"][0]
        text = choice["message"]["content"]
        if text is not None and not isinstance(text, str):
            raise TypeError(f"content is {type(text).__name__}")
        usage = answer.get("usage") or {}
        counts = usage.get("prompt_tokens"), usage.get("completion_tokens")
        known = all(isinstance(one, int) for one in counts)
        prompt_ids, completion_ids, logprobs = _tokens(answer) if self.token_ids else (None,) * 3
        return Response(
            text=text or "",
            id=str(answer.get("id") or ""),
            cut=choice.get("finish_reason") == "length",
            policy=self.model or "",
            usage=(int(counts[0] or 0), int(counts[1] or 0)) if known else None,
            prompt_ids=prompt_ids,
            completion_ids=completion_ids,
            logprobs=logprobs,
        )

    def _only_model(self) -> str:
        names = self._ask("/models", None, lambda answer: [one["id"] for one in answer["data"]])
        if len(names) != 1:
            offered = self._hidden(str(names[:20]))
            raise ValueError(
                f"{self.base} offers the models {offered}: name one with model= "
                "(on the command line endpoint:URL#MODEL)"
            )
        return names[0]

    def _ask(self, path: str, body: Any, read: Any) -> Any:
        """One exchange with retries; `read` takes the decoded JSON apart."""
        url = self.base + path
        for attempt in range(self.retries + 1):
            try:
                return self._attempt(url, body, read)
            except _TransientError as error:
                if attempt == self.retries:
                    raise EndpointError(f"{url}: {error} (after {attempt + 1} attempts)") from error
                # Spread, or requests that were refused together would come back together.
                wait = FIRST_WAIT * 2**attempt * random.Random().uniform(1.0, 1.5)
                time.sleep(min(LONGEST_WAIT, max(error.wait, wait)))
        raise AssertionError("the loop returns or raises")

    def _secret(self) -> str:
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

    def _hidden(self, text: str) -> str:
        """What a server said, without the key that it may have repeated."""
        key = self._secret()
        return text.replace(key, "[key]") if key else text

    def _quote(self, content: bytes) -> str:
        text = self._hidden(content[: 8 * QUOTED_CHARS].decode("utf-8", "replace"))
        return repr(text[:QUOTED_CHARS]) + ("..." if len(text) > QUOTED_CHARS else "")

    def _attempt(self, url: str, body: Any, read: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        if key := self._secret():
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers)
        opener = urllib.request.build_opener(_Redirects)
        try:
            with opener.open(request, timeout=self.timeout) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            said = f"HTTP {error.code} {self._hidden(error.reason)}: {self._quote(_body(error))}"
            if error.code in RETRIED:
                raise _TransientError(said, _seconds(error.headers.get("Retry-After"))) from error
            if place := error.headers.get("Location"):
                said += f"; it sends on to {self._hidden(place)!r}, which is not followed: name "
                said += "the address that answers"
            raise EndpointError(f"{url}: {said}") from error
        except (OSError, HTTPException) as error:  # refused, reset, timed out, cut short
            raise _TransientError(f"no answer ({self._hidden(str(error))})") from error
        except ValueError as error:  # it sends on to what is no address
            raise EndpointError(f"{url}: no answer ({self._hidden(str(error))})") from error
        try:
            return read(json.loads(content))
        except _UselessError as error:
            raise EndpointError(f"{url}: {error}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise _TransientError(
                f"not the expected JSON ({self._hidden(repr(error))}): {self._quote(content)}"
            ) from error


def _tokens(answer: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
    """Prompt ids, ids of the action and their log-probs, where vLLM puts them.

    Raises:
        _UselessError: some are missing, or they do not belong together.
    """
    choice = answer["choices"][0]
    prompt = answer.get("prompt_token_ids") or choice.get("prompt_token_ids")
    ids = choice.get("token_ids")
    scored = (choice.get("logprobs") or {}).get("content")
    if prompt is None or ids is None or scored is None:
        raise _UselessError(
            "it sent no token ids and log-probs; expected `prompt_token_ids`, `token_ids` and "
            "`logprobs`, as vLLM sends them"
        )
    logprobs = tuple(float(one["logprob"]) for one in scored)
    if len(ids) != len(logprobs):
        raise _UselessError(f"it sent {len(ids)} token ids and {len(logprobs)} log-probs")
    return tuple(map(int, prompt)), tuple(map(int, ids)), logprobs


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
        raise ValueError(f"url={url!r}: expected e.g. 'http://localhost:8000'")


def _valid(text: str) -> str:
    """Lone surrogates, which models' bytes can leave in a text and which are no UTF-8, as `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _body(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read()
    except (OSError, HTTPException) as broken:
        return f"(its text broke off: {broken})".encode()


def _seconds(retry_after: str | None) -> float:
    """A `Retry-After` in seconds; 0 where it is a date, missing or nonsense."""
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
