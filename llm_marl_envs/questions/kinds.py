"""What a kind of generated question is, and the kinds there are.

A kind draws questions whose evidence comes in parts, one per seat, and knows in which *conventions*
a part can be reported: two shorthands of one part that a listener cannot translate. Read in the
wrong convention, reports lead to a wrong answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from llm_marl_envs.questions.dials import DialKind
from llm_marl_envs.questions.pairs import PairKind
from llm_marl_envs.questions.question import Question
from llm_marl_envs.questions.seniority import Order
from llm_marl_envs.questions.sets import SetKind
from llm_marl_envs.questions.stock import StockKind
from llm_marl_envs.questions.trail import Trail
from llm_marl_envs.questions.vocabulary import COLOURS, GAMES, LOST, SHAPES

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

    @property
    def noted(self) -> bool:
        """Whether an expert needs a private note of its convention, which its report hides."""
        ...

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """A question with `parts` parts; `turn` counts questions, and answers take turns by it.

        Raises:
            ValueError: the kind cannot be divided into so many parts at this level.
        """
        ...

    def possible(self, question: Question) -> int:
        """How many different answers can be thought of, the right ones included."""
        ...

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """A part in the shorthand of one convention; () where the question leaves none."""
        ...

    def read(self, words: Words, convention: str) -> Words:
        """What an expert notes of a report of one word; () where it notes nothing."""
        ...

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """The answer of one who knows `parts` and reads the reports `heard` in its convention.

        The wrong answer that everybody's knowledge points to where that is all there is.
        """
        ...

    def lowest(self, question: Question) -> int:
        """The lowest level at which such a question could be drawn, words and form considered."""
        ...

    def solo(self, level: int, parts: int) -> float:
        """How often the best guess from one part and what is shared is right, exactly.

        Over all questions that `draw` gives at the level.
        """
        ...


SAFE = DialKind(
    name="safe",
    conventions=("colours", "shapes"),
    words=(COLOURS, SHAPES),
    text="The safe has {parts} dials. Name them all by colours or all by shapes, dial 1 first.",
    lure="The manual says {lure}.",
    worn="The {worn} have worn off.",
    part="Dial {number}: {seen}",
)
LOST_THING = PairKind(
    name="lost",
    conventions=("is", "not"),
    slots=LOST,
    text="Which thing was lost? One word of each line, in this order:",
    fact="It is {true}, not {other}.",
)
GAMES_WON = PairKind(
    name="games",
    conventions=("winner", "loser"),
    slots=GAMES,
    text="Who won the games? One name of each line, in this order:",
    fact="{true} beat {other}.",
)
CUPS = StockKind(
    name="cups",
    conventions=("full", "empty"),
    text="How many cups hang on all racks together?",
    lure="There are {parts} racks of {places} hooks. The old list says {lure}.",
    part="Rack {number}: {there} full hooks, {missing} empty hooks.",
)
LIGHTS = StockKind(
    name="lights",
    conventions=("on", "off"),
    text="How many lights burn on all floors together?",
    lure="There are {parts} floors of {places} lights. The guard says {lure}.",
    part="Floor {number}: {there} lights on, {missing} lights off.",
)
SEATS = StockKind(
    name="seats",
    conventions=("taken", "free"),
    text="How many seats are taken in all rows together?",
    lure="There are {parts} rows of {places} seats. The usher says {lure}.",
    part="Row {number}: {there} seats taken, {missing} seats free.",
)
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

_ALL: tuple[Kind, ...] = (
    *(CUPS, LIGHTS, SEATS),
    *(LOST_THING, GAMES_WON),
    *(SUSPECTS, POINTS, MEETING),
    *(Order(), Trail()),
    SAFE,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
"""Name -> kind, in the order in which questions of several kinds take turns."""


def blind_guess(question: Question) -> float:
    """Chance that an answer drawn from all possible ones is right; generated questions only."""
    return len(question.right) / KINDS[question.kind].possible(question)
