"""What one walker can score alone in mazes of which it sees a part, when the others only agree.

The mazes of its board that agree with all that it sees are equally likely. The others name what it
tells them, so it walks as it likes, until a wall ends the episode. All it learns on the way is that
there was no wall: the mazes that have one there are out. The best walk is found by search over
places and sets of mazes that are left, so the value is exact.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from llm_marl_envs.envs.grids.maps import FREE, MOVES, distances, size_of
from llm_marl_envs.envs.grids.maze_tasks import Level, drawn, view

MOST_STATES = 20_000
"""Places with sets of mazes that are searched, at most."""
Found = tuple[float, int]
"""A sum of scores, and minus the moves of a walk that gives it: more is better."""


@lru_cache(maxsize=512)
def alone_on(level: Level, split: str, number: int) -> Found:
    """Of a board: the best walker's expected score alone, and the longest of the walks found.

    Raises:
        ValueError: more than `MOST_STATES` states to search.
    """
    board = drawn(level, split, number)
    best: Found = (-1.0, 0)
    for seat in range(level.walkers):
        alike: dict[str, list[str]] = defaultdict(list)
        for data in board:
            alike[view(data, seat)].append(data["map"])
        walks = [best_walk(mazes, board[0]["start"], board[0]["goal"]) for mazes in alike.values()]
        best = max(best, (sum(score for score, _ in walks), min(moves for _, moves in walks)))
    return best[0] / len(board), -best[1]


def best_walk(mazes: Sequence[str], start: int, goal: int) -> Found:
    """The walk with the largest sum of scores over these mazes, each of which has a way.

    Raises:
        ValueError: more than `MOST_STATES` states to search.
    """
    return _Search(mazes, start, goal).best(start, frozenset(range(len(mazes))))


def score(left: Mapping[int, int], start: int, place: int) -> float:
    """How much nearer to the goal a place is than the start, as a share, 0 at least.

    Args:
        left: place -> moves of a shortest way to the goal.
        start: where the walk began; not the goal.
        place: where it is.
    """
    return max(0.0, 1 - left[place] / left[start])


class _Search:
    """The best walk on, of each place with a set of mazes that are left.

    The set shrinks at every step but those that are free in all of its mazes, and these are walked
    at once: so the search ends.
    """

    def __init__(self, mazes: Sequence[str], start: int, goal: int) -> None:
        size = size_of(mazes[0])
        self.goal = goal
        self.free = [
            frozenset(i for i, cells in enumerate(mazes) if cells[at] == FREE)
            for at in range(size**2)
        ]
        lefts = [distances(cells, goal) for cells in mazes]
        self.scores = [{at: score(left, start, at) for at in left} for left in lefts]
        self.near = [_near(at, size) for at in range(size**2)]
        self.memo: dict[tuple[int, frozenset[int]], Found] = {}

    def best(self, place: int, left: frozenset[int]) -> Found:
        """The best walk from here on, over the mazes that are left."""
        if (place, left) in self.memo:
            return self.memo[place, left]
        if len(self.memo) == MOST_STATES:
            raise ValueError(f"more than {MOST_STATES} states to search for the best lone walker")
        moves, ways = self._open(place, left)
        best = max((self._sum(at, left), -far) for at, far in moves.items())
        if self.goal in moves:
            best = (float(len(left)), -moves[self.goal])
        bounded = [(self._sum(at, left - on) + len(on), at, to, on) for at, to, on in ways]
        for most, at, to, on in sorted(bounded, key=lambda bound: bound[:3], reverse=True):
            if most <= best[0]:
                break
            more, walked = self.best(to, on)
            best = max(best, (round(most - len(on) + more, 9), walked - moves[at] - 1))
        self.memo[place, left] = best
        return best

    def _open(
        self, place: int, left: frozenset[int]
    ) -> tuple[dict[int, int], list[tuple[int, int, frozenset[int]]]]:
        """Places that are reached in all these mazes -> moves; steps into cells free in some."""
        moves, ways, queue = {place: 0}, [], deque([place])
        while queue:
            at = queue.popleft()
            for to in self.near[at]:
                on = self.free[to] & left
                if on == left and to not in moves:
                    moves[to] = moves[at] + 1
                    queue.append(to)
                elif on and on != left:
                    ways.append((at, to, on))
        return moves, ways

    def _sum(self, place: int, mazes: frozenset[int]) -> float:
        return round(sum(self.scores[maze][place] for maze in mazes), 9)


def _near(place: int, size: int) -> list[int]:
    row, column = divmod(place, size)
    steps = [(row + down, column + right) for down, right in MOVES.values()]
    return [r * size + c for r, c in steps if 0 <= r < size and 0 <= c < size]


def agreed_at_random(walkers: int) -> float:
    """How often walkers who each name one move at random name the same."""
    return float(len(MOVES)) ** (1 - walkers)


def expected_blind(data: Mapping[str, Any], walkers: int, rounds: int) -> float:
    """Expected score when each walker names one move at random in each round."""
    cells, start, goal = data["map"], data["start"], data["goal"]
    left, size = distances(cells, goal), size_of(cells)
    agreed = agreed_at_random(walkers)
    chance, ended = {start: 1.0}, 0.0
    for _ in range(rounds):
        after: dict[int, float] = defaultdict(float)
        for place, share in chance.items():
            after[place] += share * (1 - agreed)
            inside = [to for to in _near(place, size) if cells[to] == FREE]
            ended += share * agreed * (1 - len(inside) / len(MOVES)) * score(left, start, place)
            for to in inside:
                after[to] += share * agreed / len(MOVES)
        ended += after.pop(goal, 0.0)
        chance = after
    return ended + sum(share * score(left, start, at) for at, share in chance.items())
