"""A model behind an OpenAI-compatible server, in any seat.

Owns the requests to `/v1/chat/completions`, many at once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeGuard

from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.files.foreign import QUOTED_CHARS, yaml_of
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.policies.control_strings import without_control
from llm_marl_envs.policies.json_server import (
    EndpointError,
    JsonServer,
    UselessAnswerError,
    at_once,
    check_url,
    valid,
)
from llm_marl_envs.tools.native import FORMATS, ToolFormat, line_of, native_chat

SEED_BITS = 31  # servers differ in how large a seed they take
MOST_COUNTED = 2**53
"""Whole numbers below it are exact as floats, too."""
LENGTHS = ("max_tokens", "max_completion_tokens")
"""What servers call the most tokens of an answer."""
TEXT_PARTS = ("text", "output_text")
BESIDE = {"tool_calls", "refusal", "reasoning", "reasoning_content"}
"""What a message may hold in place of content; some servers leave out what is null."""
IMPOSSIBLE = -9999.0
"""By OpenAI's protocol the log-prob of a token that is none of the likely ones."""
ROUNDED = 1e-4
"""A log-prob that is so far above 0 is rounded."""


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
        tool_format: how agents call tools: "line", or "native" for the protocol's own format, which
            the server must know to show its model and to read.
        options: further fields of the request body, e.g. {"top_p": 0.9}; they win. One of None is
            left out: {"max_tokens": None, "max_completion_tokens": 64} for servers that know only
            the newer name, {"seed": None} for those that take no seed.
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
    tool_format: ToolFormat = "line"
    options: Mapping[str, Any] | None = None
    strip_control: bool = True
    token_ids: bool = False
    key: str | None = None
    prefix: str = "/v1"

    def __post_init__(self) -> None:
        check_url(self.url)
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
        refuse_other("tool_format", self.tool_format, FORMATS)
        base = self.url.rstrip("/")
        self.base = base if base.endswith(self.prefix) else base + self.prefix
        self._server = JsonServer(
            self.base, timeout=self.timeout, retries=self.retries, key=self.key
        )
        self.model = self.model or self._only_model()
        self.options = dict(self.options or {})
        self.identity = (
            f"{self.model} at {self.base}, at most {self.max_completion_length} tokens, "
            f"temperature {self.temperature:g}, {json.dumps(self.options, sort_keys=True)}"
            + ("" if self.strip_control else ", control strings sent")
            + ("" if self.tool_format == "line" else ", calls native")
        )

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One answer per request.

        Raises:
            EndpointError: a request failed for good; the message names it and quotes the server.
        """
        return at_once(self._answer, requests, self.concurrency)

    def stretched(self, factor: int) -> EndpointPolicy:
        """The same model with actions `factor` times as long."""
        other = copy.copy(self)
        other.max_completion_length = self.max_completion_length * factor
        longer = {k: factor * v for k, v in (self.options or {}).items() if k in LENGTHS and v}
        other.options = {**(self.options or {}), **longer}
        return other

    def _answer(self, request: Request) -> Response:
        tools = request.tools if self.tool_format == "native" else None
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [self._sent(message) for message in native_chat(request.messages, tools)],
            **({"tools": self._cleaned([*tools.schemas], own=False)} if tools else {}),
            "max_tokens": self.max_completion_length,
            "temperature": self.temperature,
            "seed": request.seed % 2**SEED_BITS,
            **({"return_token_ids": True, "logprobs": True} if self.token_ids else {}),
            **(self.options or {}),
        }
        body = {name: value for name, value in body.items() if value is not None}
        try:
            return self._server.ask("/chat/completions", body, self._read)
        except EndpointError as error:
            raise EndpointError(
                f"task {request.task_id!r}, {request.agent}, turn {request.turn}: {error}"
            ) from error

    def _sent(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message as the server gets it; arguments of calls are JSON texts there."""
        sent = self._cleaned(message, own=message["role"] == "assistant")
        for call in sent.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        return sent

    def _cleaned(self, value: Any, *, own: bool) -> Any:
        """All texts in a value as they may be sent."""
        if isinstance(value, str):
            text = valid(value)
            return without_control(text, own=own) if self.strip_control else text
        if isinstance(value, Mapping):
            cleaned = self._cleaned
            return {cleaned(key, own=own): cleaned(part, own=own) for key, part in value.items()}
        return (
            [self._cleaned(part, own=own) for part in value] if isinstance(value, list) else value
        )

    def _read(self, answer: Any) -> Response:
        choice = answer["choices"][0]
        text = _content(choice["message"])
        calls = choice["message"].get("tool_calls") if self.tool_format == "native" else None
        written = json.dumps(calls) if calls else ""
        if calls:
            text = line_of(calls if isinstance(calls, list) else [calls], text)
        prompt_ids, completion_ids, logprobs = _tokens(answer) if self.token_ids else (None,) * 3
        return Response(
            text=text,
            written=written,
            id=str(answer.get("id") or "")[:QUOTED_CHARS],
            cut=choice.get("finish_reason") == "length",
            policy=self.model or "",
            usage=_usage(answer),
            prompt_ids=prompt_ids,
            completion_ids=completion_ids,
            logprobs=logprobs,
        )

    def _only_model(self) -> str:
        names = self._server.ask("/models", None, _names)
        if len(names) != 1:
            offered = self._server.quoted(names[:20])
            raise ValueError(
                f"{self.base} offers the models {offered}: name one with model= "
                "(on the command line endpoint:URL#MODEL)"
            )
        return names[0]


def at_endpoint(argument: str) -> tuple[str, str | None, dict[str, Any]]:
    """URL, model and options of `URL#MODEL?FIELD=VALUE&FIELD=VALUE`; values are read as YAML.

    Raises:
        ValueError: a field without a value, or twice, or a value that is no YAML.
    """
    url, _, rest = argument.partition("#")
    model, _, fields = rest.partition("?")
    options: dict[str, Any] = {}
    for field in fields.split("&") if fields else ():
        name, equals, value = field.partition("=")
        if not (name and equals) or name in options:
            raise ValueError(
                f"endpoint field {field!r:.80}: expected FIELD=VALUE once, as in "
                "URL#MODEL?max_tokens=null&max_completion_tokens=64"
            )
        options[name] = yaml_of(value, f"endpoint field {name!r:.80}")
    return url, model or None, options


def _names(answer: Any) -> list[str]:
    names = [model["id"] for model in answer["data"]]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a model's id is no text")
    return names


def _content(message: Mapping[str, Any]) -> str:
    """What a message says; "" where a parser of reasoning left nothing, or the model only called.

    A list of parts is the texts among them: some servers put thoughts into parts of their own.

    Raises:
        LookupError, TypeError: no message.
    """
    if "content" not in message and not BESIDE & {*message}:
        raise KeyError("content")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part["type"] in TEXT_PARTS)
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    return content or ""


def _usage(answer: Any) -> tuple[int, int] | None:
    """Prompt and completion tokens, where a server's counts can be believed."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return None
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens")
    prompt, completion = (c if _whole(c) else None for c in counts)
    return None if prompt is None or completion is None else (prompt, completion)


def _whole(count: Any) -> TypeGuard[int]:
    return type(count) is int and 0 <= count < MOST_COUNTED


def _tokens(answer: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
    """Prompt ids, ids of the action and their log-probs, where vLLM puts them.

    Raises:
        UselessAnswerError: some are missing, they do not belong together, or they are no ids and no
            log-probs.
    """
    choice = answer["choices"][0]
    prompt = answer.get("prompt_token_ids") or choice.get("prompt_token_ids")
    ids = choice.get("token_ids")
    scored = (choice.get("logprobs") or {}).get("content")
    if prompt is None or ids is None or scored is None:
        raise UselessAnswerError(
            "it sent no token ids and log-probs; expected `prompt_token_ids`, `token_ids` and "
            "`logprobs`, as vLLM sends them"
        )
    return checked_ids(prompt), *sampled(ids, scored)


def checked_ids(ids: Any) -> tuple[int, ...]:
    """Token ids as a server sends them.

    Raises:
        UselessAnswerError: one is no whole number from 0.
    """
    wrong = [one for one in ids if not _whole(one)]
    if wrong:
        raise UselessAnswerError(f"it sent the token id {wrong[0]!r:.80}; expected whole numbers")
    return tuple(ids)


def sampled(ids: Any, scored: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The ids of an action and their log-probs, {"logprob": ...} each, as a server sends them.

    Raises:
        UselessAnswerError: they differ in number, or one cannot be of a token that was sampled.
    """
    logprobs = tuple(entry["logprob"] for entry in scored)
    if len(ids) != len(logprobs):
        raise UselessAnswerError(f"it sent {len(ids)} token ids and {len(logprobs)} log-probs")
    for value in logprobs:
        if not finite(value) or not IMPOSSIBLE < value <= ROUNDED:
            raise UselessAnswerError(
                f"it sent the log-prob {value!r:.80} of a sampled token; expected at most 0, finite"
            )
    return checked_ids(ids), tuple(min(0.0, float(value)) for value in logprobs)
