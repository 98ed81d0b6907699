"""Policies without weights: a function, random text, silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.spaces import TextSpace


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


class SilentPolicy:
    """Writes nothing, at every turn."""

    identity = "silent"

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One empty response per request."""
        return [Response(text="") for _ in requests]


class RandomPolicy:
    """Random printable text of at most `max_chars` characters, drawn from the request's seed."""

    identity = "random"

    def __init__(self, max_chars: int = 64) -> None:
        self.max_chars = max_chars

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One random text per request."""
        texts = (TextSpace(self.max_chars, seed=r.seed % 2**32).sample() for r in requests)
        return [Response(text=text) for text in texts]
