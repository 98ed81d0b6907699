"""What a vLLM server can do: `llm-marl doctor --engine URL`.

Asks the server alone. Whether it has a run's weights is `llm-marl serve-team RUN --check`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.policies.json_server import EndpointError, JsonServer, check_url

PROMPT = (5, 6, 7)
SEEDS = 6
GENERATE = "/inference/v1/generate"


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that a server can or cannot do.

    Attributes:
        name: short.
        there: whether it can.
        said: what was seen, or what to do.
        needed: by every run; the others by some.
    """

    name: str
    there: bool
    said: str
    needed: bool = False


def abilities(url: str) -> list[Ability]:
    """What the server at this address can do; after "answers" is missing, no more is asked.

    Raises:
        ValueError: no address.
    """
    check_url(url)
    server = JsonServer(url.rstrip("/").removesuffix("/v1"), timeout=60.0, retries=0)
    try:
        version = server.ask("/version", None, lambda answer: str(answer["version"]))
        model = server.ask("/v1/models", None, lambda answer: answer["data"][0])
    except EndpointError as error:
        return [Ability("answers", False, str(error), needed=True)]
    length = model.get("max_model_len")
    return [
        Ability("answers", True, f"vllm {version}, {model['id']}, {length} tokens", needed=True),
        _tried("ids", lambda: _sampled(server), "start it with --enable-scale-out", needed=True),
        _tried("adapters", lambda: _adapters(server), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"),
        _tried("full weights", lambda: _reloads(server), "VLLM_SERVER_DEV_MODE=1"),
        _tried("exact", lambda: _noisy(server), "start it as `llm-marl serve-team --exact` says"),
    ]


def _tried(name: str, ask: Callable[[], str], remedy: str, *, needed: bool = False) -> Ability:
    try:
        return Ability(name, True, ask(), needed)
    except (EndpointError, _MissingError) as error:
        return Ability(name, False, f"{remedy} ({error})", needed)


class _MissingError(Exception):
    """The server answered, and cannot do it."""


def _draw(server: JsonServer, **sampling: Any) -> list[int]:
    asked = {"max_tokens": 4, "temperature": 0.0, "logprobs": 0, "detokenize": False, **sampling}
    body = {"token_ids": list(PROMPT), "sampling_params": asked}

    def ids_of(answer: Any) -> list[int]:
        choice = answer["choices"][0]
        ids, scored = choice["token_ids"], choice["logprobs"]["content"]
        if len(ids) != len(scored):
            raise ValueError(f"{len(ids)} ids, {len(scored)} log-probs")
        return ids

    return server.ask(GENERATE, body, ids_of)


def _sampled(server: JsonServer) -> str:
    return f"sent {len(_draw(server))} token ids with log-probs"


def _adapters(server: JsonServer) -> str:
    """An adapter that does not exist: a server that loads some says that this one is not there."""
    body = {"lora_name": "doctor", "lora_path": "/nonexistent/adapter"}
    try:
        server.ask("/v1/load_lora_adapter", body, str, decode=bytes)
    except EndpointError as error:
        if "nonexistent" not in str(error):
            raise
    return "are loaded at run time"


def _reloads(server: JsonServer) -> str:
    server.ask("/reset_prefix_cache", {}, str, decode=bytes)
    return "are put in the place of the old ones"


def _noisy(server: JsonServer) -> str:
    """The best token under a row's noise differs from row to row."""
    drawn = {tuple(_draw(server, extra_args={"row_seed": seed})) for seed in range(SEEDS)}
    if len(drawn) == 1:
        raise _MissingError("seeds of rows change nothing")
    return "each row has its own noise"
