"""What a planner of `plan_path` earns alone, beside a tool that says nothing: the best known here.

    python -m benchmarks.lone_planner

It draws maps as tasks draw theirs, keeps those that agree with its start and goal and with all that
it was told, and takes the walk that is worth most on average over them. It prints the table of the
environment's page. (Of sokoban: `llm-marl eval sokoban-v0 --team wordless --set turns=3`.)
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from llm_marl_envs import make
from llm_marl_envs.envs.grids.base import PLANNER
from llm_marl_envs.envs.grids.map_tasks import BEYOND, LEVELS, PAIRS
from llm_marl_envs.envs.grids.maps import FREE, MOVES, draw_map

TURNS = (1, 2, 3, 5)
DRAWN = {"5x5": 20_000, "10x10": 6_000}
"""Level -> maps that a planner thinks of, drawn as tasks draw theirs."""


class Maps:
    """Maps of a size, drawn as tasks draw them, and the distances on them.

    Attributes:
        free: whether a cell is free: (maps, cells).
        weights: how likely a map is, given that some start and goal are its task's: (maps,).
    """

    def __init__(self, level: str, least: int, number: int) -> None:
        known, rng = BEYOND[level], random.Random(0)
        self.size, self.least = known.size, least
        drawn = [draw_map(known.size, known.walls, rng) for _ in range(number)]
        self.free = np.array([[cell == FREE for cell in cells] for cells in drawn])
        self._far: dict[int, np.ndarray] = {}
        far = sum((self.far(goal) >= least).sum(axis=1) for goal in range(known.size**2))
        self.weights = np.where(far >= PAIRS, 1 / np.maximum(far, 1), 0.0)

    def far(self, goal: int) -> np.ndarray:
        """Moves to a goal, -1 where there is no way: (maps, cells)."""
        if goal not in self._far:
            shape = (len(self.free), self.size, self.size)
            free, found = self.free.reshape(shape), np.full(shape, -1, np.int16)
            front = np.zeros(shape, bool)
            front.reshape(len(free), -1)[:, goal] = self.free[:, goal]
            moves = 0
            while front.any():
                found[front] = moves
                moves += 1
                wide = np.zeros_like(front)
                wide[:, 1:] |= front[:, :-1]
                wide[:, :-1] |= front[:, 1:]
                wide[:, :, 1:] |= front[:, :, :-1]
                wide[:, :, :-1] |= front[:, :, 1:]
                front = wide & free & (found < 0)
            self._far[goal] = found.reshape(len(free), -1)
        return self._far[goal]


@lru_cache(maxsize=8)
def maps_of(level: str, least: int, number: int | None = None) -> Maps:
    """The maps of a level; `DRAWN` of them where no number is given."""
    return Maps(level, least, number or DRAWN[level])


def neighbours(place: int, size: int) -> list[tuple[str, int]]:
    """(move, where it leads), within the edges."""
    row, column = divmod(place, size)
    found = [(move, row + down, column + right) for move, (down, right) in MOVES.items()]
    return [(m, r * size + c) for m, r, c in found if 0 <= r < size and 0 <= c < size]


def best_walk(place: int, score: np.ndarray, free: np.ndarray, size: int) -> str:
    """The moves with the largest mean score where the first wall ends a walk: branch and bound.

    Args:
        place: where it begins.
        score: of ending at a cell, at most `score.max(axis=1)`: (maps, cells), weighted.
        free: (maps, cells).
        size: rows of a map.
    """
    most = score.max(axis=1)
    best, moves = -1.0, ""
    every = np.arange(len(score))
    stack = [(float(most.sum()), place, "", (place,), every, 0.0)]
    while stack:
        bound, at, walked, seen, alive, lost = stack.pop()
        if bound <= best + 1e-12:
            continue
        here = lost + float(score[alive, at].sum())
        if here > best:
            best, moves = here, walked
        children = []
        for move, there in neighbours(at, size):
            near = {one for _, one in neighbours(there, size)}
            if there in seen or near & set(seen[:-1]):  # a shorter walk meets fewer walls
                continue
            passes = free[alive, there]
            left = alive[passes]
            gone = lost + float(score[alive[~passes], at].sum())
            upper = gone + float(most[left].sum())
            if upper > best + 1e-12:
                children.append((upper, there, walked + move, (*seen, there), left, gone))
        stack += sorted(children, key=lambda one: one[0])
    return moves


class LonePathPlanner:
    """A planner of plan_path that hears nothing, notes walls that it was told of, and plans anew.

    It knows how maps are drawn, and of the task what its seat is shown. In every turn it walks the
    way with the best expected score on the maps that agree with all that it was told.
    """

    def __init__(self, maps: Maps) -> None:
        self.maps = maps

    def begin(self, shown: str) -> None:
        """Read the first message."""
        size = self.maps.size
        cells = "".join(shown.split("\n")[1 : 1 + size]).replace(" ", "")
        self.start, self.goal = cells.index("S"), cells.index("G")
        self.at = self.start
        far = self.maps.far(self.goal)
        self.alive = (far[:, self.start] >= self.maps.least) & (self.maps.weights > 0)

    def note(self, moves: str) -> None:
        """That the moves were walked and did not end at the goal: else the episode were over."""
        for move in moves:
            self.at = dict(neighbours(self.at, self.maps.size))[move]
            self.alive &= self.maps.free[:, self.at]

    def moves(self) -> str:
        """The next walk."""
        maps = np.flatnonzero(self.alive)
        if not len(maps):  # it thought of too few
            maps = np.flatnonzero(self.maps.far(self.goal)[:, self.at] >= 0)[:50]
        far = self.maps.far(self.goal)[maps]
        nearer = np.where(far >= 0, 1 - far / far[:, [self.start]], 0).clip(0)
        score = 0.5 * nearer
        score[:, self.goal] = 1
        score *= self.maps.weights[maps][:, None]
        return best_walk(self.at, score, self.maps.free[maps], self.maps.size)


@dataclass(frozen=True, slots=True)
class Alone:
    """What a planner earns alone: mean return and share of tasks that are solved."""

    returned: float
    success: float


def table(level: str, turns: int, tasks: int, drawn: int | None = None) -> Alone:
    """Over the first tasks of `test`; `drawn` maps are thought of, `DRAWN` of them where None."""
    env = make("plan_path", level=level, split="test", turns=turns)
    planner = LonePathPlanner(maps_of(level, LEVELS[level].least, drawn))
    found = np.array([played(env, planner, task) for task in range(tasks)])
    return Alone(*map(float, found.mean(axis=0)))


def played(env: Any, planner: LonePathPlanner, task: int) -> tuple[float, bool]:
    """(return, whether solved) of a planner beside a tool that says nothing."""
    env.reset(seed=0, options={"task": task})
    planner.begin(env.chat(PLANNER)[0].content)
    earned, moves = 0.0, ""
    while not any(env.terminations.values()):
        env.step("")
        if moves:
            planner.note(moves)
        moves = planner.moves()
        env.step(f"Answer: {moves}")
        earned += env.rewards[PLANNER]
    return earned, env.infos[PLANNER]["success"]


def main() -> None:
    """Print the table, turns down and sizes across."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lone_planner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", type=int, default=200, help="of the split test")
    options = parser.parse_args()
    print(f"| turns | {' | '.join(DRAWN)} |\n|{'---|' * (len(DRAWN) + 1)}")
    for turns in TURNS:
        cells = [table(level, turns, options.tasks) for level in DRAWN]
        print(f"| {turns} | {' | '.join(f'{c.returned:.2f}, {c.success:.2f}' for c in cells)} |")


if __name__ == "__main__":
    main()
