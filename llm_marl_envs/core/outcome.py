"""What an environment's rules give and take: outcomes, bounds of a task, and what carries texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a joint action (parallel) or one action (AEC) leads to.

    Attributes:
        reward_terms: agent -> name -> part of its reward; the parts sum to the reward.
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
