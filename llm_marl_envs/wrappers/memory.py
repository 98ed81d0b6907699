"""Chats that are summed up when they grow long: `make(id, memory={...})`, or `Memory(env, ...)`.

    make("agents_net-v0", memory={"max_chars": 600})

When what a seat has heard and said since its opening is longer than that, the seat is first asked
for notes. Then its chat begins anew, from its opening and those notes, and it acts:

    ... 640 characters since the opening ...
    Write what you need to go on, at most 300 characters. You will see your task and this alone.
    node_0      My colour is red; node_1 said blue twice.

    <its opening>
    Your notes:
    > My colour is red; node_1 said blue twice.
    node_0      To node_1: red

Notes are an action like any other: sampled, learned from with the return of what follows, and in
the record. The rules do not see them, and nobody else is shown them. As long as no chat grows
beyond `max_chars`, an episode is the same as without a memory, to the last bit.

Scripted experts write no notes: they answer as they always do, and lose their place.

The form is that of SUPO (arXiv 2510.06727). Deviations: (1) lengths are characters, for an
environment knows no tokens; (2) episodes that end by a limit keep their weight: to leave them out,
as the paper does, biases the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import Field

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import text_env
from llm_marl_envs.core.options import Options
from llm_marl_envs.core.outcome import Aside
from llm_marl_envs.core.parsing import quote
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.texts import told

DEMAND = (
    "Write what you need to go on, at most {most} characters. You will see your task and this "
    "alone."
)
NOTES = "Your notes:"


class Rules(Options):
    """The arguments of a memory; `Memory` says what they mean."""

    within = "memory"

    max_chars: int = Field(ge=2)
    resets: int = Field(default=8, ge=1, le=1000)


class Notes:
    """The memories of one episode; a `Habit` of `core/outcome.py`.

    Args:
        rules: how long a chat may be.
        env: the environment, whose seats have been told their openings.
    """

    def __init__(self, rules: Rules, env: TextEnv, seed: int) -> None:
        self.rules = rules
        self.openings = {agent: env.chat(agent) for agent in env.possible_agents}
        self.begun = {agent: _size(chat) for agent, chat in self.openings.items()}
        self.resets = dict.fromkeys(env.possible_agents, 0)
        self.asked: set[str] = set()

    def demand(self, agent: str, chat: Sequence[Message]) -> str:
        """Notes, where the chat is too long and may begin anew once more."""
        grown = _size(chat) - self.begun[agent]
        if grown <= self.rules.max_chars or self.resets[agent] >= self.rules.resets:
            return ""
        self.asked.add(agent)
        return DEMAND.format(most=self.rules.max_chars // 2)

    def take(self, agent: str, text: str) -> Aside | None:
        """The chat that begins anew, where notes were asked for."""
        if agent not in self.asked:
            return None
        self.asked.remove(agent)
        self.resets[agent] += 1
        notes = told(text)[: self.rules.max_chars // 2]
        *before, last = self.openings[agent]
        chat = [*before, replace(last, content="\n".join([last.content, NOTES, quote(notes)]))]
        self.begun[agent] = _size(chat) - len(notes)  # how they are quoted does not count
        return Aside(chat=chat, facts={"notes": len(notes)})

    def redraw(self, seed: int) -> None:
        """Nothing is drawn."""


def _size(chat: Sequence[Message]) -> int:
    return sum(len(message.content) for message in chat)


def Memory(env: Any, **options: Any) -> Any:  # noqa: N802 - a wrapper, as `Channel`
    """The environment, whose seats' chats are summed up; see the module.

    Args:
        env: an environment of this library, of either form, also with PettingZoo's wrappers around.
            It is changed in its place.
        options: max_chars: how many characters a seat may hear and say after its opening before it
            is asked for notes, at least 2; notes have at most half as many.
            resets: how often a seat's chat can begin anew in an episode, 8 by default; after the
            last time it grows on.

    Raises:
        ValueError: an unknown option or one out of range; an environment with a memory already,
            with seats that are told nothing first, or with one agent in all seats.
        TypeError: another library's environment, or an option of the wrong type.
    """
    inner = text_env(env, "memory")
    name = inner.metadata["name"]
    if any("memory" in getattr(layer, "env_kwargs", {}) for layer in (env, inner)):
        raise ValueError(f"memory: {name} has one already")
    if not inner.can_forget:
        raise ValueError(f"memory: {name} says in its chat whose part comes next; leave one out")
    rules = Rules(**options)
    silent = [agent for agent, told in inner.opening(inner.source[0]).items() if not told]
    if silent:
        raise ValueError(f"memory: {name} tells {silent[0]} nothing first; its chat cannot begin")
    # Before calls of tools: what a seat writes where notes were asked for are its notes.
    inner.habits = (partial(Notes, rules), *inner.habits)
    seats = inner.possible_agents
    inner.beside = {seat: inner.beside.get(seat, 0) + rules.resets for seat in seats}
    inner.append_only, inner.chats = False, 1 + rules.resets
    for layer in (env, inner):
        layer.env_kwargs = {**getattr(layer, "env_kwargs", {}), "memory": dict(options)}
    return env
