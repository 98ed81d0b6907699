"""Scripted experts as policies, and the check of the convention that one is given."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from llm_marl_envs.core.experts import (
    LOOKED_AT,
    Experts,
    conventions_of,
    experts_of,
    text_env,
)
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.tasks import Task, TaskSource


class ExpertPolicy:
    """The environment's scripted expert, in one convention or in one drawn for each episode.

    Args:
        env: any copy of the environment; only its task source and its experts are used.
        convention: name of the convention to follow where the task allows it; None draws one from
            the episode's seed and the seat (`Request.seat_seed`), for all of the seat's turns. So
            two such experts agree only by chance. One that acted before a branch keeps its
            convention in it.

    Raises:
        TypeError: an environment of another library.
        ValueError: it has no scripted experts, or none of the first tasks allows the convention.
    """

    def __init__(self, env: Any, convention: str | None = None) -> None:
        self.source = text_env(env).source
        self.experts = experts_of(env)
        if convention is not None:
            _check_convention(self.experts, self.source, convention)
        self.convention = convention
        self.identity = f"expert:{convention}" if convention else "expert"

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One expert action per request."""
        return [Response(text=self._action(request)) for request in requests]

    def _action(self, request: Request) -> str:
        task = self.source.find(request.task_id)
        possible = self.experts.conventions(task) or ("",)
        convention = self._chosen(task, request, possible)
        return self.experts.reply(task, request.agent, convention, request.messages)

    def _chosen(self, task: Task, request: Request, possible: Sequence[str]) -> str:
        if self.convention is not None and self.convention in possible:
            return self.convention
        seed = request.seed if request.seat_seed is None else request.seat_seed
        return random.Random(seed).choice(possible)


class AgreedPolicy(ExpertPolicy):
    """The scripted expert in each task's first convention, so that all such experts agree.

    Args:
        env: any copy of the environment; only its task source and its experts are used.

    Raises:
        TypeError: an environment of another library.
        ValueError: it has no scripted experts.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.identity = "agreed"

    def _chosen(self, task: Task, request: Request, possible: Sequence[str]) -> str:
        return possible[0]


def _check_convention(experts: Experts, source: TaskSource, convention: str) -> None:
    if convention not in conventions_of(experts, source):
        raise ValueError(
            f"convention {convention!r:.200}: the first {min(len(source), LOOKED_AT)} tasks of "
            f"this split allow {[*conventions_of(experts, source)] or 'none'}"
        )
