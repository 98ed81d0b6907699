"""The kinds of generated questions there are; `kind.py` says what one is."""

from __future__ import annotations

from llm_marl_envs.envs.questions.dials import DialKind
from llm_marl_envs.envs.questions.kind import Kind
from llm_marl_envs.envs.questions.pairs import PairKind
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.seniority import Order
from llm_marl_envs.envs.questions.sets import SetKind
from llm_marl_envs.envs.questions.stock import StockKind
from llm_marl_envs.envs.questions.trail import Trail
from llm_marl_envs.envs.questions.vocabulary import COLOURS, GAMES, LOST, SHAPES

MAX_LEVEL = 3

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

_ALL = (
    CUPS,
    LIGHTS,
    SEATS,
    LOST_THING,
    GAMES_WON,
    SUSPECTS,
    POINTS,
    MEETING,
    Order(),
    Trail(),
    SAFE,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
"""Name -> kind, in the order in which questions of several kinds take turns."""


def blind_guess(question: Question) -> float:
    """Chance that an answer drawn from all possible ones is right; generated questions only."""
    return len(question.right) / KINDS[question.kind].possible(question)
