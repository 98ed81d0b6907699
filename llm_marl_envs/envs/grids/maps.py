"""The rules of maps with walls: moves and how they are read, walks, shortest ways, symmetries.

Owns no tasks. A map is a text of size * size cells in reading order, `.` free and `#`
a wall; a place is the number of a cell.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import islice, product
from typing import TypeVar

from llm_marl_envs.core.answers import answer_lines

FREE, WALL = ".", "#"
State = TypeVar("State", bound=Hashable)
MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
ASKED = (
    "End with one line: Answer: and then moves, U (up), D (down), L (left) or R (right), with "
    "spaces between them."
)
UNREAD = "No answer line with moves was found."
MOVED = re.compile(r"[UDLR]+", re.IGNORECASE)
SEPARATORS = re.compile(r"[\s,;\[\]()\"']+")
MAX_ANSWER_CHARS = 2000

PROGRESS, ARRIVED = 0.5, 0.5
"""Shares of the score: for being nearer to the goal than the start is, and for being there."""


def read_moves(text: str) -> str | None:
    """The moves of an answer, as letters of `MOVES`; None for no answer.

    Exactly one line answers. Commas, brackets and quotation marks count as spaces, which may be
    left out between letters; case and a full stop at the end are ignored.
    """
    lines = list(islice(answer_lines(text), 2))
    if len(lines) != 1 or len(lines[0]) > MAX_ANSWER_CHARS:
        return None
    joined = SEPARATORS.sub("", lines[0]).removesuffix(".")
    return joined.upper() if MOVED.fullmatch(joined) else None


def neighbour(cells: str, place: int, move: str) -> int | None:
    """Where a move leads; None where a wall or the edge is in the way."""
    following = ahead_of(size_of(cells))[place][move]
    return following if following is not None and cells[following] == FREE else None


@cache
def ahead_of(size: int) -> tuple[dict[str, int | None], ...]:
    """Place -> move -> where it leads on a map without walls; None over the edge."""
    return tuple(
        {
            move: (row + down) * size + column + right
            if 0 <= row + down < size and 0 <= column + right < size
            else None
            for move, (down, right) in MOVES.items()
        }
        for row, column in product(range(size), repeat=2)
    )


def size_of(cells: str) -> int:
    """Rows and columns of a map."""
    return round(len(cells) ** 0.5)


def walk(cells: str, place: int, moves: Sequence[str]) -> list[int]:
    """The places of a walk, from `place` on; it ends before the first wall."""
    places = [place]
    for move in moves:
        following = neighbour(cells, places[-1], move)
        if following is None:
            break
        places.append(following)
    return places


def distances(cells: str, goal: int) -> dict[int, int]:
    """Place -> moves of a shortest way to the goal, of the places from which there is a way."""
    ahead = ahead_of(size_of(cells))
    lengths = {goal: 0} if cells[goal] == FREE else {}
    queue = deque(lengths)
    while queue:
        place = queue.popleft()
        for following in ahead[place].values():  # a way there is a way back
            if following is not None and following not in lengths and cells[following] == FREE:
                lengths[following] = lengths[place] + 1
                queue.append(following)
    return lengths


def shortest_way(cells: str, place: int, goal: int) -> str | None:
    """The moves of a shortest way, the first in the order of `MOVES`; None where there is none."""
    left, moves = distances(cells, goal), ""
    if place not in left:
        return None
    while place != goal:
        for move in MOVES:
            following = neighbour(cells, place, move)
            if following is not None and left.get(following) == left[place] - 1:
                place, moves = following, moves + move
                break
    return moves


def score_terms(cells: str, start: int, goal: int, place: int) -> dict[str, float]:
    """What a place is worth: how much nearer than the start it is, and whether it is the goal."""
    left = distances(cells, goal)
    nearer = max(0.0, 1 - left[place] / left[start])
    return {"progress": PROGRESS * nearer, "arrived": ARRIVED * (place == goal)}


def expected_blind(cells: str, start: int, goal: int, turns: int) -> float:
    """Expected score of one random move in each turn."""

    def step(place: int, move: str) -> int:
        following = neighbour(cells, place, move)
        return place if following is None else following

    def score(place: int) -> float:
        return sum(score_terms(cells, start, goal, place).values())

    return expected_random(start, turns, step, score)


def expected_random(
    start: State,
    turns: int,
    step: Callable[[State, str], State],
    score: Callable[[State], float],
) -> float:
    """Expected score after random moves, one in each turn; a score of 1 ends an episode.

    Args:
        start: where it begins.
        turns: how many moves.
        step: what a move of `MOVES` leads to; the same state where something is in the way.
        score: of a state, in [0, 1].
    """
    chance = {start: 1.0}
    for _ in range(turns):
        after: dict[State, float] = {}
        for (state, share), move in product(chance.items(), MOVES):
            following = state if score(state) == 1 else step(state, move)
            after[following] = after.get(following, 0.0) + share / len(MOVES)
        chance = after
    return sum(share * score(state) for state, share in chance.items())


def canonical(cells: str) -> str:
    """The least of the eight maps that are this one, turned or mirrored."""
    size = size_of(cells)
    images, now = [], cells
    for _ in range(4):
        now = "".join(now[(size - 1 - at % size) * size + at // size] for at in range(len(now)))
        mirrored = "".join(now[at // size * size + size - 1 - at % size] for at in range(len(now)))
        images += [now, mirrored]
    return min(images)


def draw_map(size: int, walls: float, rng: random.Random) -> str:
    """Each cell is a wall with this probability."""
    return "".join(WALL if rng.random() < walls else FREE for _ in range(size**2))
