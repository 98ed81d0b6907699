"""The rules of pushing boxes: moves, search over player and boxes, scores.

Owns no tasks and no words. A map is as in `maps`; targets are places of it. A position is the place
of the player with those of the boxes in order. Boxes are pushed, one at a time, never pulled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import NamedTuple

from llm_marl_envs.envs.grids.maps import FREE, MOVES, ahead_of, expected_random, neighbour, size_of

PROGRESS, SOLVED = 0.5, 0.5
"""Shares of the score: for being nearer to a solution than at the start, and for being there."""
MOST_POSITIONS = 600_000
"""Of a map that is searched; more take seconds."""

OPPOSITE = {"U": "D", "D": "U", "L": "R", "R": "L"}
Places = tuple[int, ...]


class Position(NamedTuple):
    """Where everything that moves is.

    Attributes:
        player: a place.
        boxes: their places, from the least up.
    """

    player: int
    boxes: Places


def positions_of(cells: str, boxes: int) -> int:
    """How many positions a map has with so many boxes."""
    free = cells.count(FREE)
    return comb(free, boxes) * max(0, free - boxes)


def moved(cells: str, position: Position, move: str) -> Position | None:
    """What a move leads to; None where a wall, or a box that cannot be pushed, is in the way."""
    player, boxes = position
    place = neighbour(cells, player, move)
    if place is None or place not in boxes:
        return None if place is None else Position(place, boxes)
    beyond = neighbour(cells, place, move)
    if beyond is None or beyond in boxes:
        return None
    return Position(place, tuple(sorted(beyond if box == place else box for box in boxes)))


def played(cells: str, position: Position, moves: Sequence[str]) -> list[Position]:
    """The positions of a walk, from `position` on; it ends before the first move that cannot be."""
    positions = [position]
    for move in moves:
        following = moved(cells, positions[-1], move)
        if following is None:
            break
        positions.append(following)
    return positions


@lru_cache(maxsize=16)  # about as many as an update has tasks; the largest are large
def moves_left(cells: str, targets: Places) -> dict[Position, int]:
    """Position -> moves of a shortest solution, of all positions that have one.

    A search from the solved positions back, over player and boxes. A position that it does not
    find is dead: no moves solve it. Callers leave the result as it is.

    Raises:
        ValueError: the map has more than `MOST_POSITIONS` positions.
    """
    if positions_of(cells, len(targets)) > MOST_POSITIONS:
        raise ValueError(
            f"{cells.count(FREE)} free cells with {len(targets)} boxes have more than "
            f"{MOST_POSITIONS} positions: expected fewer boxes, or a smaller map"
        )
    ahead = [_steps(cells, move) for move in MOVES]
    back = [_steps(cells, OPPOSITE[move]) for move in MOVES]
    solved = tuple(sorted(targets))
    lengths = {
        Position(at, solved): 0
        for at, cell in enumerate(cells)
        if cell == FREE and at not in targets
    }
    queue = deque(lengths)
    while queue:
        position = queue.popleft()
        player, boxes = position
        left = lengths[position] + 1
        for came, goes in zip(back, ahead, strict=True):
            before = came[player]
            if before < 0 or before in boxes:
                continue
            options = [boxes]
            if goes[player] in boxes:  # it may have been pushed there
                pulled = (player if box == goes[player] else box for box in boxes)
                options.append(tuple(sorted(pulled)))
            for option in options:
                following = Position(before, option)
                if following not in lengths:
                    lengths[following] = left
                    queue.append(following)
    return lengths


def _steps(cells: str, move: str) -> list[int]:
    """For each place where a move leads; -1 where it cannot be."""
    ways = (places[move] for places in ahead_of(size_of(cells)))
    return [-1 if place is None or cells[place] != FREE else place for place in ways]


def shortest_solution(cells: str, targets: Places, position: Position) -> str | None:
    """The moves of a shortest solution, the first in the order of `MOVES`; None for a dead one."""
    left, moves = moves_left(cells, targets), ""
    if position not in left:
        return None
    while left[position]:
        for move in MOVES:
            following = moved(cells, position, move)
            if following is not None and left.get(following) == left[position] - 1:
                position, moves = following, moves + move
                break
    return moves


def score_terms(
    cells: str, targets: Places, start: Position, position: Position
) -> dict[str, float]:
    """What a position is worth: how much nearer to a solution than the start, and whether solved.

    A position is worth the same however it came about, and a dead one nothing.
    """
    left = moves_left(cells, targets)
    most = left[start]
    nearer = max(0.0, 1 - left.get(position, most) / most)
    return {"progress": PROGRESS * nearer, "solved": SOLVED * (left.get(position) == 0)}


def expected_blind(cells: str, targets: Places, start: Position, turns: int) -> float:
    """Expected score of one random move in each turn."""

    def step(position: Position, move: str) -> Position:
        return moved(cells, position, move) or position

    def score(position: Position) -> float:
        return sum(score_terms(cells, targets, start, position).values())

    return expected_random(start, turns, step, score)
