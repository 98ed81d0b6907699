"""The table of kinds: what each generated question asks, in which words, by which form."""

from __future__ import annotations

from llm_marl_envs.envs.questions.forms import Counts, Dials, Lists, Pairs, Ranks, Trail
from llm_marl_envs.envs.questions.kind import Kind
from llm_marl_envs.envs.questions.vocabulary import (
    COLOURS,
    GAMES,
    LOST,
    MONTHS,
    NAMES,
    ROOMS,
    SHAPES,
    STAGES,
)

SAFE = Dials(
    name="safe",
    conventions=("colours", "shapes"),
    words=(COLOURS, SHAPES),
    text="The safe has {parts} dials. Name them all by colours or all by shapes, dial 1 first.",
    lure="The manual says {words}.",
    worn="The {worn} have worn off.",
    part="Dial {number}: {0}{1}",
)
_KINDS = (
    Counts(
        name="cups",
        conventions=("full", "empty"),
        text="How many cups hang on all racks together?",
        lure="There are {parts} racks of {places} hooks. The old list says {lure}.",
        part="Rack {number}: {0} full hooks, {1} empty hooks.",
    ),
    Counts(
        name="lights",
        conventions=("on", "off"),
        text="How many lights burn on all floors together?",
        lure="There are {parts} floors of {places} lights. The guard says {lure}.",
        part="Floor {number}: {0} lights on, {1} lights off.",
    ),
    Counts(
        name="seats",
        conventions=("taken", "free"),
        text="How many seats are taken in all rows together?",
        lure="There are {parts} rows of {places} seats. The usher says {lure}.",
        part="Row {number}: {0} seats taken, {1} seats free.",
    ),
    Pairs(
        name="lost",
        conventions=("is", "not"),
        slots=LOST,
        text="Which thing was lost? One word of each line, in this order:",
        part="It is {0}, not {1}.",
    ),
    Pairs(
        name="games",
        conventions=("winner", "loser"),
        slots=GAMES,
        text="Who won the games? One name of each line, in this order:",
        part="{0} beat {1}.",
    ),
    Lists(
        name="suspects",
        conventions=("seen", "absent"),
        words=NAMES,
        text="Who was at the scene every time?",
        lure="The neighbours suspect {words}.",
        part="Time {number}, at the scene: {0}\nTime {number}, elsewhere: {1}",
    ),
    Lists(
        name="points",
        conventions=("given", "denied"),
        words=NAMES,
        text="Who has the most points in the end?",
        lure="Before the judges vote {words} leads: {lead} to 0.",
        part="Judge {number}, 1 point: {0}\nJudge {number}, no point: {1}",
    ),
    Lists(
        name="meeting",
        conventions=("free", "busy"),
        words=MONTHS,
        text="Which month is free in every calendar?",
        lure="The usual month is {words}.",
        part="Calendar {number}, free: {0}\nCalendar {number}, busy: {1}",
    ),
    Ranks(
        name="order",
        conventions=("down", "up"),
        words=NAMES,
        text="Who is the oldest?",
        lure="Most people take {words} for the oldest.",
        part="[{0}] is older than [{1}]",
    ),
    Trail(
        name="trail",
        conventions=("map",),
        rooms=ROOMS,
        stages=STAGES,
        start="coin",
        text="In which room is the coin?",
        lure="The coin is usually in the {words}.",
        part="The {0} is in the {1}.",
    ),
    SAFE,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}
"""Name -> kind, in the order in which questions of several kinds take turns."""
