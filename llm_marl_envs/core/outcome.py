"""What an environment's rules give and take, and what stands between them and the seats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llm_marl_envs.core.spaces import Message
from llm_marl_envs.files.json_files import finite

BESIDE = "beside"
"""A key of the info of an agent whose action the rules did not see."""
UNNAMED = "unnamed"
"""What of a reward no term names and no rules paid, as where a wrapper shapes rewards."""
TINY = 1e-9
"""Less is what sums of floats in another order differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a joint action (parallel) or one action (AEC) leads to.

    Attributes:
        reward_terms: agent -> name -> what the task pays it. Measurements count these alone.
        added_terms: agent -> name -> what something around the task pays or charges it beside that,
            as the price of a call. The reward is the sum of both; it is what is learned from.
        feedback: agent -> what it is told next, shown before its next action. None: nothing.
        ended: the task is over for everybody.
        success: whether the task is solved so far; None where the question makes no sense.
        facts: agent -> further entries of its info (diagnostics; plain JSON values). Two are
            measured wherever they occur: `readable`, whether the agent's last action has the form
            that was asked for (leave it out where any text will do), and `answer`, its answer to
            the task's question, or None.
    """

    reward_terms: Mapping[str, Mapping[str, float]]
    feedback: Mapping[str, str] = field(default_factory=dict)
    ended: bool = False
    success: bool | None = None
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    added_terms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Undiscounted team return that is known to be possible on one task.

    Attributes:
        random: what a policy that knows nothing of the task expects.
        solo: the best one seat can expect when the others stay silent or guess.
        team: the best the team can get.
    """

    random: float
    solo: float
    team: float


class Line(Protocol):
    """What the messages of one episode pass through; `wrappers.channel` has the one there is."""

    def carry(self, speaker: str, text: str, listeners: Sequence[str]) -> dict[str, str]:
        """What each listener is shown of a text; one text in a turn for each."""
        ...

    def bill(self) -> dict[str, tuple[int, float]]:
        """Speaker -> characters that were carried in this turn, and their price; the turn ends."""
        ...

    def redraw(self, seed: int) -> None:
        """Draw what chance does to later messages from another seed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What an action leads to that the rules do not see: it belongs to its agent alone.

    Attributes:
        reward_terms: name -> part of the agent's reward, which the task does not pay: it is one of
            `Outcome.added_terms`.
        feedback: what the agent is told next; "" for nothing.
        chat: what the agent sees from now on in place of its chat; None: the chat goes on.
        facts: further entries of the agent's info.
    """

    reward_terms: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""
    chat: Sequence[Message] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Habit(Protocol):
    """What agents do beside the rules in one episode: `wrappers.tools` and `wrappers.memory`."""

    def demand(self, agent: str, chat: Sequence[Message]) -> str:
        """What an agent that is to act is asked for first; "" where it may act."""
        ...

    def take(self, agent: str, text: str) -> Aside | None:
        """What an action leads to beside the rules; None: it is for them."""
        ...

    def redraw(self, seed: int) -> None:
        """Draw what chance does later from another seed."""
        ...


def paid(value: Any, agent: str, turn: int | None = None, what: str = "reward") -> float:
    """What an environment pays an agent, as a number; an array of one number is one.

    Args:
        value: what it pays.
        agent: whom.
        turn: of the agent, for what, where it is known; -1 before its first.
        what: it is.

    Raises:
        ValueError: a NaN, an infinite number, None, a text, or something else that is no number.
    """
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except Exception:  # noqa: BLE001 - no number; another library's type may raise anything
        number = math.nan
    if not finite(number):
        when = "" if turn is None else f", turn {turn}" if turn >= 0 else ", before its first turn"
        raise ValueError(f"{what} of {agent}{when}: expected a finite number, got {value!r:.80}")
    return number


def summed(*terms: Mapping[str, float]) -> dict[str, float]:
    """Name -> its sum over several maps of reward terms, in the order in which names come."""
    sums: dict[str, float] = {}
    for some in terms:
        for name, value in some.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def added(
    reward: float, terms: Mapping[str, float], of_task: Mapping[str, float]
) -> dict[str, float]:
    """Name -> what wrappers paid of a reward: all that the task did not.

    Args:
        reward: as it was paid.
        terms: what it is said to consist of.
        of_task: what the rules of the task paid.
    """
    parts = {name: value - of_task.get(name, 0.0) for name, value in terms.items()}
    rest = reward - sum(of_task.values()) - sum(parts.values())
    parts[UNNAMED] = parts.get(UNNAMED, 0.0) + rest
    return {name: part for name, part in parts.items() if abs(part) > TINY}


def gains(scores: Sequence[float]) -> list[float]:
    """What each turn adds to the score: s_0, s_1 - s_0, ...; they sum to the last score.

    Paying the gain makes stalling worthless: pay per turn of the *score* would give more for
    "fail, then solve" than for solving at once.
    """
    return [score - before for score, before in zip(scores, [0.0, *scores], strict=False)]
