"""Scripted experts behind an OpenAI-compatible server, for libraries that ask one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from support.endpoint_server import Server

from llm_marl_envs.core.experts import experts_of, text_env
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import hash_of


def expert_answers(env: Any, tasks: Sequence[int]) -> Callable[[Sequence[Message]], str]:
    """What the expert says who is shown a chat; seats draw their conventions, so some disagree.

    Raises:
        StopIteration: no seat was told so in these tasks.
        ValueError: two seats were told the same.
    """
    inner, experts = text_env(env), experts_of(env)
    known: dict[tuple[Message, ...], tuple[Any, str]] = {}
    for index in tasks:
        task = inner.source[index]
        for agent, told in inner.first_words(task).items():
            if told in known:
                other, seat = known[told]
                raise ValueError(f"{agent}, {task.id}: told what {seat} is told in {other.id}")
            known[told] = (task, agent)
    lengths = {len(told) for told in known}

    def answer(messages: Sequence[Message]) -> str:
        prefixes = (tuple(messages[:length]) for length in lengths)
        task, agent = next(known[one] for one in prefixes if one in known)
        possible = experts.conventions(task) or ("",)
        convention = possible[hash_of(f"{task.id}/{agent}") % len(possible)]
        return experts.reply(task, agent, convention, messages)

    return answer


def chat_completion(text: str) -> tuple[int, dict[str, str], bytes]:
    """A whole chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    body = {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": "expert",
        "choices": [choice],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


@contextmanager
def answering(answer: Callable[[Sequence[Message]], str]) -> Iterator[Server]:
    """A server whose only model, `expert`, answers each chat so."""
    server = Server()
    server.models = ["expert"]
    server.script = lambda body, number: chat_completion(
        answer([Message(one["role"], one["content"]) for one in body["messages"]])
    )
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
