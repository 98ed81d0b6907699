"""Policies without weights: a function, random text, the environment's own experts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from llm_marl_envs.core import TextEnv
from llm_marl_envs.records import Request, Response
from llm_marl_envs.spaces import TextSpace
from llm_marl_envs.tasks import Task

_LOOKED_AT = 512
"""Tasks that are searched for a convention; kinds of tasks take turns, so all come early."""


class ScriptedPolicy:
    """Answers each request with `script(request)`.

    >>> from llm_marl_envs.policies import ScriptedPolicy
    >>> silent = ScriptedPolicy(lambda request: "")
    """

    def __init__(self, script: Callable[[Request], str]) -> None:
        self.script = script

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One scripted response per request."""
        return [Response(text=self.script(request)) for request in requests]


class RandomPolicy:
    """Random printable text of at most `max_chars` characters, drawn from the request's seed."""

    identity = "random"

    def __init__(self, max_chars: int = 64) -> None:
        self.max_chars = max_chars

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One random text per request."""
        texts = (TextSpace(self.max_chars, seed=r.seed % 2**32).sample() for r in requests)
        return [Response(text=text) for text in texts]


class ExpertPolicy:
    """The environment's scripted expert, in one convention or in one drawn per action.

    Args:
        env: any copy of the environment; only its task source and pure rules are used.
        convention: name of the convention to follow where the task allows it; None draws one from
            the request's seed, so that two such experts agree only by chance. Where experts listen,
            the convention of an expert's first action is kept for its later ones.

    Raises:
        TypeError: an environment of another library.
        ValueError: none of the first tasks allows the convention.
    """

    def __init__(self, env: Any, convention: str | None = None) -> None:
        inner = getattr(env, "unwrapped", env)
        if not isinstance(inner, TextEnv):
            raise TypeError(f"expected an environment of this library, got {type(env).__name__}")
        if convention is not None:
            _check_convention(inner, convention)
        self.env = inner
        self.convention = convention
        self.identity = f"expert:{convention}" if convention else "expert"

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One expert action per request."""
        return [Response(text=self._action(request)) for request in requests]

    def _action(self, request: Request) -> str:
        task = self.env.source.find(request.task_id)
        possible = self.env.conventions(task) or ("",)
        if self.convention is not None and self.convention in possible:
            convention = self.convention
        else:
            convention = self._begun(task, request) or random.Random(request.seed).choice(possible)
        return self.env.reply(task, request.agent, convention, request.messages)

    def _begun(self, task: Task, request: Request) -> str | None:
        """The convention of this seat's first action, where experts have more than one turn."""
        first = next((m.content for m in request.messages if m.role == "assistant"), None)
        if first is None or not self.env.experts_listen:
            return None
        return self.env.read_convention(task, request.agent, first)


def _check_convention(env: TextEnv, convention: str) -> None:
    known: dict[str, None] = {}
    looked = min(len(env.source), _LOOKED_AT)
    for index in range(looked):
        known |= dict.fromkeys(env.conventions(env.source[index]))
        if convention in known:
            return
    raise ValueError(
        f"convention {convention!r}: the first {looked} tasks of this split allow "
        f"{[*known] or 'none'}"
    )
