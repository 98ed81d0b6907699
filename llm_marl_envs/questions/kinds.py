"""What a kind of generated question is, and the kinds there are.

A kind draws questions whose evidence comes in parts, one per seat, and knows in which *conventions*
a part can be reported: two shorthands of one part that a listener cannot tell apart by their look.
Read in the wrong convention, reports lead to a wrong answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from llm_marl_envs.questions.order import Order
from llm_marl_envs.questions.question import Question
from llm_marl_envs.questions.sets import SetKind
from llm_marl_envs.questions.stock import Stock
from llm_marl_envs.questions.trail import Trail

Words = tuple[str, ...]
MAX_LEVEL = 3


class Kind(Protocol):
    """One kind of question; every method is a pure function of its arguments."""

    @property
    def name(self) -> str:
        """As in `KINDS`."""
        ...

    @property
    def conventions(self) -> tuple[str, ...]:
        """Ways to report a part; experts of one convention understand each other."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether the order of the words in a report carries meaning."""
        ...

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """A question with `parts` parts; `turn` counts questions, and answers take turns by it.

        Raises:
            ValueError: the kind cannot be divided into so many parts at this level.
        """
        ...

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """A part in the shorthand of one convention."""
        ...

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """The answer of one who knows `parts` and reads the reports `heard` in its convention.

        The wrong answer that everybody's knowledge points to where that is all there is.
        """
        ...

    def solo(self, level: int, parts: int) -> float:
        """How often the best guess from one part and what is shared is right, exactly."""
        ...


SUSPECTS = SetKind(
    name="suspects",
    conventions=("seen", "absent"),
    table="names",
    text="Who was at the scene every time?",
    lure="The neighbours suspect [{lure}].",
    part="Time {number}, at the scene: {members}\nTime {number}, elsewhere: {others}",
)
POINTS = SetKind(
    name="points",
    conventions=("given", "denied"),
    table="names",
    text="Who has the most points in the end?",
    lure="Before the judges vote [{lure}] leads: {lead} to 0.",
    part="Judge {number}, 1 point: {members}\nJudge {number}, no point: {others}",
)
MEETING = SetKind(
    name="meeting",
    conventions=("free", "busy"),
    table="months",
    text="Which month is free in every calendar?",
    lure="The usual month is [{lure}].",
    part="Calendar {number}, free: {members}\nCalendar {number}, busy: {others}",
)

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (SUSPECTS, POINTS, MEETING, Order(), Stock(), Trail())
}
"""Name -> kind, in the order in which questions of several kinds take turns."""
