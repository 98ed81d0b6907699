"""Pushes, shortest solutions and scores, with numbers worked by hand or by force."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest

from llm_marl_envs.envs.grids.box_tasks import LEVELS, procedural, start_of, with_targets
from llm_marl_envs.envs.grids.boxes import (
    Position,
    expected_blind,
    moved,
    moves_left,
    played,
    positions_of,
    score_terms,
    shortest_solution,
)
from llm_marl_envs.envs.grids.map_tasks import MAPS
from llm_marl_envs.envs.grids.maps import FREE, MOVES, canonical, draw_map

#  P . .
#  . B .     the target is at 7, below the box
#  . T .
OPEN = FREE * 9
START, TARGETS = Position(0, (4,)), (7,)


def test_boxes_are_pushed_one_at_a_time_and_never_pulled():
    assert moved(OPEN, Position(3, (4,)), "R") == Position(4, (5,))
    assert moved(OPEN, Position(4, (5,)), "R") is None  # the edge is behind the box
    assert moved(OPEN, Position(3, (4, 5)), "R") is None  # a box is behind the box
    assert moved("....#....", Position(3, (1,)), "R") is None  # a wall
    assert moved(OPEN, Position(4, (5,)), "L") == Position(3, (5,))  # the box stays
    assert moved(OPEN, Position(0, (3, 4)), "R") == Position(1, (3, 4))
    assert moved(OPEN, Position(0, (3, 4)), "D") == Position(3, (4, 6))
    assert moved(OPEN, Position(1, (3, 4)), "D") == Position(4, (3, 7))
    assert moved(OPEN, Position(2, (1, 3)), "L") == Position(1, (0, 3))


def test_moves_end_before_one_that_is_blocked():
    assert played(OPEN, START, "RDRR") == [START, Position(1, (4,)), Position(4, (7,)), (5, (7,))]
    assert played(OPEN, START, "UR") == [START]


def test_shortest_solutions_by_hand():
    assert shortest_solution(OPEN, TARGETS, START) == "RD"
    assert moves_left(OPEN, TARGETS)[Position(8, (4,))] == 4  # U U L D
    assert shortest_solution(OPEN, TARGETS, Position(0, (8,))) is None  # in a corner
    assert Position(0, (8,)) not in moves_left(OPEN, TARGETS)


def forward(cells: str, targets: tuple[int, ...], start: Position) -> int | None:
    """Moves of a shortest solution by a search forward."""
    left, queue = {start: 0}, deque([start])
    while queue:
        position = queue.popleft()
        if position.boxes == targets:
            return left[position]
        for move in MOVES:
            following = moved(cells, position, move)
            if following is not None and following not in left:
                left[following] = left[position] + 1
                queue.append(following)
    return None


@pytest.mark.parametrize("boxes", [1, 2])
def test_the_search_back_finds_what_a_search_forward_finds(boxes: int):
    rng = random.Random(0)
    for _ in range(4):
        cells = draw_map(4, 0.2, rng)
        free = [place for place, cell in enumerate(cells) if cell == FREE]
        targets = tuple(sorted(rng.sample(free, boxes)))
        every = [
            Position(player, found)
            for found in itertools.combinations(free, boxes)
            for player in free
            if player not in found
        ]
        assert len(every) == positions_of(cells, boxes)
        left = moves_left(cells, targets)
        assert set(left) <= set(every)
        for position in every[::3]:
            assert left.get(position) == forward(cells, targets, position)
            moves = shortest_solution(cells, targets, position)
            assert (None if moves is None else len(moves)) == left.get(position)
            if moves is not None:
                assert played(cells, position, moves)[-1].boxes == targets


def test_a_map_with_too_many_positions_is_refused():
    with pytest.raises(ValueError, match="more than 600000 positions"):
        moves_left(FREE * 100, (1, 2, 3, 4))


def test_scores_of_positions():
    assert score_terms(OPEN, TARGETS, START, START) == {"progress": 0.0, "solved": 0.0}
    half = Position(1, (4,))
    assert score_terms(OPEN, TARGETS, START, half) == {"progress": 0.25, "solved": 0.0}
    solved = Position(4, (7,))
    assert score_terms(OPEN, TARGETS, START, solved) == {"progress": 0.5, "solved": 0.5}
    further, dead = Position(8, (4,)), Position(4, (8,))
    assert score_terms(OPEN, TARGETS, START, further) == {"progress": 0.0, "solved": 0.0}
    assert score_terms(OPEN, TARGETS, half, dead) == {"progress": 0.0, "solved": 0.0}


def test_random_moves_by_hand():
    # One move: R, with 1/4, is half of the way: 1/4 x 0.25.
    assert expected_blind(OPEN, TARGETS, START, 1) == pytest.approx(1 / 16)
    # Two: R D solves, with 1/16. Half of the way at the end: U R and L R, where the edge blocks the
    # first, and R U, where it blocks the second: 3/16. All else is no nearer than the start.
    assert expected_blind(OPEN, TARGETS, START, 2) == pytest.approx(1 / 16 + 3 / 16 / 4)


def test_no_map_of_a_split_is_one_of_another_turned():
    """Over all maps with their targets, with the eight made anew."""
    forms = {}
    for split in ("train", "val", "test"):
        source = procedural("6x6", split, 1)
        tasks = [source[at] for at in range(MAPS[split])]
        forms[split] = {canonical(with_targets(t.data["map"], t.data["targets"])) for t in tasks}
    assert {split: len(found) for split, found in forms.items()} == {
        "train": 113,
        "val": 24,
        "test": 50,
    }
    for one, other in itertools.combinations(forms.values(), 2):
        assert not one & other


@pytest.mark.parametrize(("level", "boxes"), [("6x6", 1), ("6x6", 2), ("8x8", 2)])
@pytest.mark.parametrize("split", ["train", "val", "test", "ood"])
def test_tasks_have_a_solution_of_the_length_that_was_asked(level: str, boxes: int, split: str):
    known = LEVELS[level]
    source = procedural(level, split, boxes)
    for task in (source[0], source[1], source[len(source) - 1]):
        cells, targets, start = task.data["map"], task.data["targets"], start_of(task)
        moves = shortest_solution(cells, targets, start)
        assert moves is not None
        assert len(moves) >= known.least
        assert len(start.boxes) == len(targets) == boxes
        assert not set(start.boxes) & set(targets)
        assert played(cells, start, moves)[-1].boxes == targets
        assert (len(cells) == known.size**2) == (split != "ood")
        assert len(cells) >= known.size**2
