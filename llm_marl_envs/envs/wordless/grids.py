"""Grids without a word: walks and pushes of one who does not see the walls, counted digits.

Whoever moves knows how maps are drawn. So it draws many, keeps those that agree with what it sees,
and names the moves whose end is worth most on average (`walks.py`). In a maze both walkers do so
from what both know, start and goal: then they name the same.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.grids.base import PLANNER
from llm_marl_envs.envs.grids.box_tasks import BEYOND as BOX_LEVELS
from llm_marl_envs.envs.grids.box_tasks import BOX, PLAYER, surrounded
from llm_marl_envs.envs.grids.boxes import Position, moved, moves_left
from llm_marl_envs.envs.grids.map_tasks import BEYOND, GOAL, PAIRS, START, places_in
from llm_marl_envs.envs.grids.maps import (
    ARRIVED,
    FREE,
    MOVES,
    PROGRESS,
    WALL,
    ahead_of,
    distances,
    draw_map,
    size_of,
)
from llm_marl_envs.envs.grids.maze_tasks import LONGER, MazeOptions
from llm_marl_envs.envs.grids.sudoku_bounds import CELLS, SOLVED
from llm_marl_envs.envs.grids.sudoku_rules import SHAPES, Grid, all_grids
from llm_marl_envs.envs.wordless.reading import cells_in, match_in, opening_of
from llm_marl_envs.envs.wordless.walks import Worlds, best_walk, ends_of

DRAWN = 1000
"""Maps that are drawn to choose by."""
SMALL = 4
"""Rows of a sudoku of which all solutions can be listed."""


def blind_walk(request: Request) -> str:
    """`plan_path`: the planner takes the walk that is best over maps with its start and goal."""
    if request.agent != PLANNER:
        return ""
    cells = cells_in(opening_of(request))
    return _named(_way(size_of(cells), cells.index(START), cells.index(GOAL)))


def blind_pushes(request: Request) -> str:
    """`sokoban`: as `blind_walk` over walls and targets; later turns by what the first told."""
    if request.agent != PLANNER:
        return ""
    cells = cells_in(opening_of(request))
    size = size_of(cells)
    worlds, state = _pushing(size, cells.index(PLAYER), _only(cells, BOX))
    for answer, heard in zip(_own(request), _heard(request), strict=True):
        moves = tuple([*MOVES].index(letter) for letter in answer)
        made, ends = ends_of(worlds, state, moves)
        stop = re.search(r"Move ([0-9]+), ", heard)
        walked = int(stop[1]) - 1 if stop else len(moves)
        unsolved = worlds.scores[np.arange(len(ends)), ends] < 1
        worlds = worlds.only((made == walked) & unsolved)
        player, box = places_in(heard, size)
        state = player * size**2 + box
    return _named(best_walk(worlds, state))


def common_walk(request: Request) -> str:
    """`collab_maze`: both name the walk that is best over mazes with this start and goal."""
    asked = match_in(r"(Speak|Name moves)\.$", request.messages[-1].content)[1]
    if asked == "Speak":
        return ""
    cells = cells_in(opening_of(request))
    return _named(_maze_way(size_of(cells), cells.index(START), cells.index(GOAL)))


def counted_digits(request: Request) -> str:
    """`sudoku`, 4x4: the planner's best answers over the solutions that agree with its givens."""
    if request.agent != PLANNER:
        return ""
    cells = cells_in(opening_of(request))
    if size_of(cells) != SMALL:
        raise ValueError(f"a grid of {size_of(cells)} rows: wordless teams know those of {SMALL}")
    turns = int(match_in(r"There are ([0-9]+) turns", opening_of(request))[1])
    left = list(_solutions(cells))
    for turn in range(turns if left else 0):
        # One whole solution in each turn but the last: see `grids/sudoku_bounds.py`.
        offer = _likeliest(left) if turn + 1 == turns or len(left) < 2 else _common(left)
        if turn == request.turn:
            return f"Answer: {' '.join(map(str, offer))}"
        left = [grid for grid in left if grid != offer] or left
    return ""


def _only(cells: str, letter: str) -> int:
    """Where the one cell with a letter is.

    Raises:
        ValueError: there are several.
    """
    if cells.count(letter) != 1:
        raise ValueError(f"{cells.count(letter)} boxes: wordless teams know maps with one")
    return cells.index(letter)


def _named(moves: Sequence[int]) -> str:
    return f"Answer: {' '.join([*MOVES][move] for move in moves)}" if moves else ""


def _own(request: Request) -> list[str]:
    """The moves of the seat's earlier answers."""
    texts = [message.content for message in request.messages if message.role == "assistant"]
    return [text.removeprefix("Answer:").replace(" ", "") for text in texts]


def _heard(request: Request) -> list[str]:
    """What it was told of each of them."""
    return [message.content for message in request.messages if "You are at " in message.content]


# -- a way on a map -------------------------------------------------------------------------------
def _ahead(size: int) -> NDArray[np.int64]:
    """(S, M): where a move leads on a map without walls; -1 over the edge."""
    rows = [ways.values() for ways in ahead_of(size)]
    return np.array([[-1 if place is None else place for place in row] for row in rows])


def _left(cells: str, goal: int) -> NDArray[np.float64]:
    """(S,): moves of a shortest way to the goal; infinite where there is none."""
    moves = np.full(len(cells), np.inf)
    lengths = distances(cells, goal)
    moves[[*lengths]] = [*lengths.values()]
    return moves


def _walls(cells: Sequence[str], ahead: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(W, S, M): whether a move leads into a wall."""
    walls = np.array([[cell == WALL for cell in grid] for grid in cells])
    return walls[:, np.maximum(ahead, 0)]


@lru_cache(maxsize=4)
def _maps(size: int) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Maps as tasks have them: cells, (W, goals, S) moves left, (W,) weights.

    A map comes with `PAIRS` of all its pairs that are far apart, so the more it has the less likely
    each is.
    """
    level = next(level for level in BEYOND.values() if level.size == size)
    rng = random.Random(f"wordless/path/{size}")
    cells: list[str] = []
    left: list[NDArray[np.float64]] = []
    weights: list[float] = []
    while len(cells) < DRAWN:
        drawn = draw_map(size, level.walls, rng)
        ways = np.array([_left(drawn, goal) for goal in range(size**2)])
        far = int(((ways >= level.least) & np.isfinite(ways)).sum())
        if far >= PAIRS:
            cells.append(drawn)
            left.append(ways)
            weights.append(1 / far)
    return cells, np.array(left), np.array(weights)


@lru_cache(maxsize=4096)
def _way(size: int, start: int, goal: int) -> tuple[int, ...]:
    """The walk that is best over maps where this start and goal are far apart."""
    cells, left, weights = _maps(size)
    ways = left[:, goal]
    least = next(level for level in BEYOND.values() if level.size == size).least
    kept = (ways[:, start] >= least) & np.isfinite(ways[:, start])
    scores = PROGRESS * _nearer(ways[kept], start)
    scores[:, goal] += ARRIVED
    ahead = _ahead(size)
    walls = _walls([grid for grid, fits in zip(cells, kept, strict=True) if fits], ahead)
    return best_walk(Worlds(weights[kept], scores, ahead, walls), start)


def _nearer(ways: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """(W, S): by which part of the way a state is nearer than the start, 0 at least."""
    return np.maximum(0.0, 1 - ways / ways[:, [start]])


@lru_cache(maxsize=4096)
def _maze_way(size: int, start: int, goal: int) -> tuple[int, ...]:
    """The walk that is best over mazes with this start and goal and a way of the usual length."""
    rng = random.Random(f"wordless/maze/{size}/{start}/{goal}")
    longest, cells, left = range(size + 1, size + 2 + LONGER), [], []
    for _ in range(40 * DRAWN):
        drawn = draw_map(size, MazeOptions().walls, rng)
        drawn = "".join(FREE if at in (start, goal) else cell for at, cell in enumerate(drawn))
        ways = _left(drawn, goal)
        if ways[start] in longest:
            cells.append(drawn)
            left.append(ways)
        if len(cells) == DRAWN // 4:
            break
    ahead, scores = _ahead(size), _nearer(np.array(left), start)
    return best_walk(Worlds(np.ones(len(cells)), scores, ahead, _walls(cells, ahead)), start)


# -- a box to a target ----------------------------------------------------------------------------
@lru_cache(maxsize=4)
def _steps(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(S, M) where a move leads, and (S, M, 2) the cells that must be free for it."""
    cells, places = surrounded(FREE * (size - 2) ** 2, size), size**2
    ahead = np.full((places**2, len(MOVES)), -1)
    needed = np.zeros((places**2, len(MOVES), 2), int)
    inside = [at for at, cell in enumerate(cells) if cell == FREE]
    for player in inside:
        for box in inside:
            for number, move in enumerate(MOVES):
                position = moved(cells, Position(player, (box,)), move)
                if position is not None and player != box:
                    ends = (position.player, position.boxes[0])
                    ahead[player * places + box, number] = ends[0] * places + ends[1]
                    needed[player * places + box, number] = ends
    return ahead, needed


@lru_cache(maxsize=4)
def _rooms(size: int) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Maps with one target as tasks have them: (W, cells) walls, (W, S) moves left, (W,) weights.

    As `_maps`, the more starts a map has the less likely each is.
    """
    level = next(level for level in BOX_LEVELS.values() if level.size == size)
    rng = random.Random(f"wordless/boxes/{size}")
    walls: list[list[bool]] = []
    left: list[NDArray[np.float64]] = []
    weights: list[float] = []
    while len(walls) < DRAWN:
        cells = surrounded(draw_map(size - 2, level.walls, rng), size)
        free = [at for at, cell in enumerate(cells) if cell == FREE]
        target = rng.choice(free or [0])
        lengths = moves_left(cells, (target,)) if len(free) > 1 else {}
        far = sum(length >= level.least and at.boxes != (target,) for at, length in lengths.items())
        if far >= PAIRS:
            ways = np.full(size**4, np.inf)
            ways[[at.player * size**2 + at.boxes[0] for at in lengths]] = [*lengths.values()]
            walls.append([cell == WALL for cell in cells])
            left.append(ways)
            weights.append(1 / far)
    return np.array(walls), np.array(left), np.array(weights)


def _pushing(size: int, player: int, box: int) -> tuple[Worlds, int]:
    """The worlds in which player and box may stand so at first, and that state."""
    walls, left, weights = _rooms(size)
    ahead, needed = _steps(size)
    state = player * size**2 + box
    least = next(level for level in BOX_LEVELS.values() if level.size == size).least
    kept = (left[:, state] >= least) & np.isfinite(left[:, state])
    scores = PROGRESS * _nearer(left[kept], state) + ARRIVED * (left[kept] == 0)
    blocked = walls[kept][:, needed[..., 0]] | walls[kept][:, needed[..., 1]]
    return Worlds(weights[kept], scores, ahead, blocked), state


# -- digits ---------------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def _solutions(cells: str) -> tuple[Grid, ...]:
    """The digits for the dots, of all grids that have what the seat sees and one solution."""
    own = {at: int(cell) for at, cell in enumerate(cells) if cell.isdigit()}
    shown = [at for at, cell in enumerate(cells) if cell != "."]
    empty = [at for at, cell in enumerate(cells) if cell == "."]
    grids = all_grids(SHAPES[SMALL])
    count = Counter(tuple(grid[at] for at in shown) for grid in grids)
    return tuple(
        tuple(grid[at] for at in empty)
        for grid in grids
        if all(grid[at] == digit for at, digit in own.items())
        and count[tuple(grid[at] for at in shown)] == 1
    )


def _worth(answer: Grid, solutions: Sequence[Grid]) -> float:
    """What an answer scores, summed over solutions."""
    same = np.equal(np.array(solutions), np.array(answer))
    return float(CELLS * same.mean(1).sum() + SOLVED * same.all(1).sum())


def _likeliest(solutions: Sequence[Grid]) -> Grid:
    """The last answer: the commonest digit of each cell, or a solution, whichever scores more."""
    common = tuple(Counter(column).most_common(1)[0][0] for column in zip(*solutions, strict=True))
    return max([common, *solutions], key=lambda grid: _worth(grid, solutions))


def _common(solutions: Sequence[Grid]) -> Grid:
    """The solution to try first: without it the rest is answered best."""
    rests = [[other for other in solutions if other != grid] for grid in solutions]
    values = [_worth(_likeliest(rest), rest) for rest in rests]
    return solutions[int(np.argmax(values))]
