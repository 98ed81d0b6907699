"""Seats by name or by role: `helper_0` is a seat, `helper` is the role of all that are named so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from llm_marl_envs.core.checks import refuse_unknown

T = TypeVar("T")


def role_of(agent: str) -> str:
    """A seat's name without its number; the whole name where it has none."""
    head, _, number = agent.rpartition("_")
    return head if head and number.isdecimal() else agent


def by_seat(
    what: str, seats: Sequence[str], given: Mapping[str, T], also: Sequence[str] = ()
) -> dict[str, T]:
    """Seat -> what is given for it or else for its role, of those that are given something.

    Args:
        what: begins the error.
        seats: all seats, in order.
        given: seat or role -> value.
        also: what else could have been a key, for the error.

    Raises:
        ValueError: a key that is neither; near ones are named.
    """
    roles = {agent: role_of(agent) for agent in seats}
    refuse_unknown(what, given, [*seats, *dict.fromkeys(roles.values()), *also])
    keys = {agent: agent if agent in given else roles[agent] for agent in seats}
    return {agent: given[key] for agent, key in keys.items() if key in given}
