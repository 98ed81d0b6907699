"""What scripted experts of an environment are: pure rules over tasks, no episode, no seed.

Owns `Experts`, which an environment gives with `TextEnv.experts`, and the way from any environment
to them. Who plays them is `policy.py`, what they show is `demonstrations.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task, TaskSource

Demonstration = tuple[tuple[Message, ...], str]
"""Messages shown, and what an expert answers."""
LOOKED_AT = 512
"""Tasks that are searched for conventions; kinds of tasks take turns, so all come early."""


class Experts(ABC):
    """Scripted experts of one environment. Only `first` must be written; no rule keeps anything.

    Attributes:
        listens: whether experts have later turns, which `reply` writes, to demonstrate too.
        fixed: the conventions where every task has the same; else override `conventions`.
    """

    listens: bool = False
    fixed: tuple[str, ...] = ()

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Names of the ways in which experts can agree to solve `task`; may be empty."""
        return self.fixed

    @abstractmethod
    def first(self, task: Task, agent: str, convention: str) -> str:
        """The first action of an expert that follows `convention`; "" where there are none.

        Raises:
            ValueError: no such convention for this task and agent.
        """

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The next action of an expert that was shown `messages`; `first`'s by default."""
        return self.first(task, agent, convention)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """Which convention an action follows, None where it follows none."""
        return None

    def demonstrations(self, env: TextEnv, n: int, seed: int) -> list[Demonstration] | None:
        """`n` pairs to learn from, in a way of these experts' own; None for the usual way.

        Args:
            env: whose experts these are; its episode is left alone.
            n: how many pairs.
            seed: decides all draws.
        """
        return None


class ListeningExperts(Experts):
    """Experts whose later turns answer what they heard. Only `reply` must be written."""

    listens = True

    def first(self, task: Task, agent: str, convention: str) -> str:
        """What an expert says that has heard nothing: `reply` without messages; errors as there."""
        return self.reply(task, agent, convention, ())

    @abstractmethod
    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The next action of an expert that was shown `messages`.

        Raises:
            ValueError: no such convention for this task and agent.
        """


def text_env(env: Any, what: str = "") -> TextEnv:
    """The environment of this library inside wrappers, or the one given.

    Raises:
        TypeError: an environment of another library; begins with `what`.
    """
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, TextEnv):
        begin = f"{what}: " if what else ""
        raise TypeError(f"{begin}expected an environment of this library, got {type(env).__name__}")
    return inner


def find_experts(env: Any) -> Experts | None:
    """The scripted experts of an environment; None where it has none, as another library's."""
    inner = getattr(env, "unwrapped", env)
    return inner.experts() if isinstance(inner, TextEnv) else None


def conventions_of(experts: Experts, source: TaskSource) -> Iterator[str]:
    """The conventions that the first tasks allow, each once, as they come."""
    if type(experts).conventions is Experts.conventions:  # making a task can be dear
        yield from experts.fixed
        return
    seen: set[str] = set()
    for index in range(min(len(source), LOOKED_AT)):
        for name in experts.conventions(source[index]):
            if name not in seen:
                seen.add(name)
                yield name


def experts_of(env: Any) -> Experts:
    """The scripted experts of an environment.

    Raises:
        TypeError: an environment of another library.
        ValueError: it has none.
    """
    inner = text_env(env)
    experts = inner.experts()
    if experts is None:
        raise ValueError(f"{inner.metadata['name']} has no scripted experts")
    return experts
