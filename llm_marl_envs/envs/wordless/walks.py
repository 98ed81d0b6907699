"""Walks of one who does not see the walls: the best over worlds that may be, each with a weight.

A walk is said beforehand and ends before the first move that is blocked. So as long as a walker
goes on, it stands at the same state in every world, and a beam over walks finds a good one. What a
walk would tell for later turns is not looked at: in sokoban, two turns, that earned no more.

Axes: W worlds, S states, M moves in the order of `MOVES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BEAM, LONGEST = 96, 12
"""Walks that are followed at once, and their moves at most."""


@dataclass(frozen=True, slots=True)
class Worlds:
    """What may be.

    Attributes:
        weights: (W,), how likely each is, up to a factor.
        scores: (W, S), what a state is worth, 1 if it ends the task.
        ahead: (S, M), to which state a move leads if nothing blocks it; -1: never.
        blocked: (W, S, M), whether something does.
    """

    weights: NDArray[np.float64]
    scores: NDArray[np.float64]
    ahead: NDArray[np.int64]
    blocked: NDArray[np.bool_]

    def only(self, kept: NDArray[np.bool_]) -> Worlds:
        """Those of the worlds that are marked; blocked: (W,) truth values."""
        return Worlds(self.weights[kept], self.scores[kept], self.ahead, self.blocked[kept])


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """A beginning: its moves, where they lead, in which worlds all are made, what it is worth."""

    moves: tuple[int, ...]
    state: int
    alive: NDArray[np.bool_]
    lost: float  # what the worlds pay in which it was stopped
    value: float


def ends_of(
    worlds: Worlds, state: int, moves: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(W,) how many of the moves are made in each world, and (W,) the state where they end."""
    made = np.zeros(len(worlds.weights), int)
    ends = np.full(len(worlds.weights), state)
    going = np.ones(len(worlds.weights), bool)
    for move in moves:
        following = worlds.ahead[state, move]
        going &= (following >= 0) & ~worlds.blocked[:, state, move]
        if not going.any():
            break
        made += going
        ends = np.where(going, following, ends)
        state = int(following)
    return made, ends


def best_walk(worlds: Worlds, state: int) -> tuple[int, ...]:
    """The moves whose end is worth most on average, by a beam; () where there is no world.

    Args:
        worlds: those that agree with all that the walker has seen.
        state: where it stands.
    """
    if not len(worlds.weights):
        return ()
    worth = np.ascontiguousarray(worlds.weights * worlds.scores.T)  # (S, W)
    free = np.ascontiguousarray(~np.moveaxis(worlds.blocked, 0, -1))  # (S, M, W)
    beam = [_begun(worth, (), state, np.ones(len(worlds.weights), bool), 0.0)]
    best = beam[0]
    for _ in range(LONGEST):
        longer: dict[tuple[int, bytes], _Walk] = {}
        for walk in beam:
            for following in _longer(worlds.ahead[walk.state], free[walk.state], worth, walk):
                key = (following.state, following.alive.tobytes())
                if key not in longer or following.value > longer[key].value:
                    longer[key] = following
        beam = sorted(longer.values(), key=lambda walk: -walk.value)[:BEAM]
        best = max([best, *beam[:1]], key=lambda walk: walk.value)
    return best.moves


def _begun(
    worth: NDArray[np.float64],
    moves: tuple[int, ...],
    state: int,
    alive: NDArray[np.bool_],
    lost: float,
) -> _Walk:
    value = lost + float(worth[state][alive].sum())
    return _Walk(moves, state, alive, lost, value)


def _longer(
    ahead: NDArray[np.int64], free: NDArray[np.bool_], worth: NDArray[np.float64], walk: _Walk
) -> Iterator[_Walk]:
    """A walk with one more move, each that is made in some world.

    Args:
        ahead: (M,) where each move leads from its end.
        free: (M, W), whether nothing stops it.
        worth: (S, W), the weight of a world times what a state pays there.
        walk: the walk.
    """
    here = worth[walk.state]
    for move, following in enumerate(ahead):
        going = walk.alive & free[move]
        if following >= 0 and going.any():
            lost = walk.lost + float(here[walk.alive & ~going].sum())
            yield _begun(worth, (*walk.moves, move), int(following), going, lost)
