"""Scripted nodes: greedy distributed algorithms, in one of two orders.

A node knows what its prompt says: its name, its value, how many lines it has, and what it heard. In
order `first` names go before others as in the alphabet, in order `last` the other way; values by
size. Two nodes of different orders each wait for the other, or both go first: so the order is the
convention that must be agreed.

- leader, consensus: everybody passes on the first name, or value, that it knows. All know it after
  as many rounds as the longest distance in the network.
- colouring: who goes before all neighbours that have no colour takes the first free colour.
- cover: who goes before all undecided neighbours is no guard, and its neighbours are. So those who
  are none are a maximal independent set, and the guards a minimal cover.
- matching: who is alone asks its first neighbour that is; two who ask each other are a pair.

The last three take at most as many rounds as there are nodes, and mostly far fewer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.networks.letters import heard_in
from llm_marl_envs.envs.networks.network_tasks import network_of
from llm_marl_envs.envs.networks.problems import NO, NONE, YES

ORDERS = ("first", "last")
SAID = re.compile(r"(first|last) ([A-Za-z0-9_-]{1,20})(?: (\w{1,5}))?")
"""What a node writes: its order, a name or value, perhaps what it has decided."""
ASK, TAKEN = "ask", "taken"


@dataclass(slots=True)
class Mind:
    """What a node makes of what it heard; it is built anew from the chat at each turn.

    Attributes:
        own: its name, or its value.
        lines: how many.
        backwards: whether the order is `last`.
        names: of the neighbours, by line, as far as known.
        states: what the neighbours decided, by line.
        state: what it decided itself; "" so far.
        asked: the line that it asks to be its partner.
    """

    own: str
    lines: int
    backwards: bool
    names: dict[int, str] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    state: str = ""
    asked: int | None = None

    def rank(self, text: str) -> tuple[int, str]:
        """What sorts names and values in the alphabet's order or by size."""
        return len(text) if text.isdecimal() else 0, text.casefold()

    def best(self, texts: Sequence[str]) -> str:
        """The one that goes before all others."""
        return (max if self.backwards else min)(texts, key=self.rank)

    def before(self, first: str, second: str) -> bool:
        """Whether one goes before the other."""
        return first != second and self.best([first, second]) == first

    def hear(self, round_: Mapping[int, str]) -> None:
        """Note what came on each line; texts of another form say nothing."""
        for line, text in round_.items():
            if line < self.lines and (match := SAID.fullmatch(text)):
                self.names[line], self.states[line] = match[2], match[3] or ""


def passes_on(mind: Mind) -> None:
    """Keep the first of all names, or values, that were heard."""
    mind.own = mind.best([mind.own, *mind.names.values()])


def takes_colour(mind: Mind) -> None:
    """Take the first colour that no neighbour has, if all who go before have theirs."""
    if mind.state or not _may_decide(mind):
        return
    mind.state = free_colour(mind)


def free_colour(mind: Mind) -> str:
    """The first colour that no neighbour is known to have."""
    options = map(str, range(1, mind.lines + 2))
    return next(colour for colour in options if colour not in mind.states.values())


def stands_guard(mind: Mind) -> None:
    """Be no guard if all who go before are guards, and a guard beside one who is none."""
    if not mind.state and NO in mind.states.values():
        mind.state = YES
    elif not mind.state and _may_decide(mind):
        mind.state = NO


def _may_decide(mind: Mind) -> bool:
    """Whether the names of all neighbours are known, and all who go before have decided."""
    return len(mind.names) == mind.lines and all(
        mind.states[line] or mind.before(mind.own, name) for line, name in mind.names.items()
    )


def pairs_up(mind: Mind) -> None:
    """Pair up with who asks and was asked; else ask the first neighbour that is not taken."""
    if mind.state == TAKEN:
        return
    if mind.asked is not None and mind.states.get(mind.asked) == ASK:
        mind.state = TAKEN
        return
    free = {name: line for line, name in mind.names.items() if mind.states[line] != TAKEN}
    ready = len(mind.names) == mind.lines and free
    mind.asked = free[mind.best([*free])] if ready else None


THINKS = {
    "colouring": takes_colour,
    "leader": passes_on,
    "consensus": passes_on,
    "matching": pairs_up,
    "cover": stands_guard,
}


class NodeExperts(ListeningExperts):
    """The experts of `agents_net-v0`.

    Args:
        agents: the seats.
        turns: of each, the last of which answers.
    """

    fixed = ORDERS

    def __init__(self, agents: Sequence[str], turns: int) -> None:
        self.seats = {agent: seat for seat, agent in enumerate(agents)}
        self.turns = turns

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """What the node writes to its neighbours; its answer in the last turn."""
        if convention not in ORDERS:
            raise ValueError(f"convention {convention!r:.200}: expected one of {ORDERS}")
        problem, network, seat = task.data["problem"], network_of(task), self.seats[agent]
        own = (network.values if problem == "consensus" else network.names)[seat]
        mind = Mind(own, len(network.lines[seat]), convention == "last")
        rounds = heard_in(messages)
        for round_ in rounds:
            mind.hear(round_)
            THINKS[problem](mind)
        if len(rounds) + 1 < self.turns:
            return letters(problem, mind, convention)
        return f"Answer: {answer(problem, mind)}"

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order that an action begins with, behind its line's number."""
        match = SAID.fullmatch(action.split("\n")[0].partition(": ")[2])
        return match[1] if match else None


def letters(problem: str, mind: Mind, order: str) -> str:
    """What a node writes: the same to all, or `ask` to one."""
    head = f"{order} {mind.own}"
    if problem == "matching" and not mind.state and mind.asked is not None:
        others = f"\nall: {head}" if mind.lines > 1 else ""
        return f"{mind.asked + 1}: {head} {ASK}{others}"
    return f"all: {head} {mind.state}".rstrip()


def answer(problem: str, mind: Mind) -> str:
    """A node's answer; where it could not decide in time, the likeliest."""
    if problem == "matching":
        return str(mind.asked + 1) if mind.state and mind.asked is not None else NONE
    undecided = {"colouring": free_colour(mind), "cover": YES}
    return mind.state or undecided.get(problem, mind.own)
