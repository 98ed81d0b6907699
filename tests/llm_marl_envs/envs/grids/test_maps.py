"""Walks, shortest ways and symmetries, with numbers worked by hand or by force."""

from __future__ import annotations

import itertools
import random

import pytest

from llm_marl_envs.envs.grids.map_tasks import LEVELS, MAPS, procedural
from llm_marl_envs.envs.grids.maps import (
    MOVES,
    WALL,
    canonical,
    distances,
    draw_map,
    expected_blind,
    score_terms,
    shortest_way,
    walk,
)

# S at 0, G at 8; the way around the wall in the middle of the first column is R D D L R ...
SMALL = ". . .\n# # .\n. . .".replace(" ", "").replace("\n", "")


def test_a_walk_ends_before_a_wall():
    assert walk(SMALL, 0, "RRDDLL") == [0, 1, 2, 5, 8, 7, 6]
    assert walk(SMALL, 0, "D") == [0]
    assert walk(SMALL, 0, "RDR") == [0, 1]  # the wall ends it; the last R is not walked
    assert walk(SMALL, 0, "U") == [0]


def test_shortest_ways_are_shortest_by_force():
    assert distances(SMALL, 6) == {6: 0, 7: 1, 8: 2, 5: 3, 2: 4, 1: 5, 0: 6}
    assert shortest_way(SMALL, 0, 6) == "RRDDLL"
    assert shortest_way(SMALL, 3, 6) is None  # stands in a wall
    assert shortest_way(SMALL, 0, 3) is None
    rng = random.Random(0)
    for _ in range(6):
        cells = draw_map(3, 0.3, rng)
        for start, goal in itertools.permutations(range(9), 2):
            if WALL in (cells[start], cells[goal]):
                continue
            found = shortest_way(cells, start, goal)
            least = (
                next(
                    (
                        length
                        for length in range(1, 7)
                        for moves in itertools.product(MOVES, repeat=length)
                        if walk(cells, start, moves)[-1] == goal
                    ),
                    None,
                )
                if found is None or len(found) < 4
                else len(found)
            )
            assert (None if found is None else len(found)) == least
            if found:
                assert walk(cells, start, found)[-1] == goal


def test_scores_of_places():
    assert score_terms(SMALL, 0, 6, 0) == {"progress": 0.0, "arrived": 0.0}
    assert score_terms(SMALL, 0, 6, 5) == {"progress": 0.25, "arrived": 0.0}
    assert score_terms(SMALL, 0, 6, 6) == {"progress": 0.5, "arrived": 0.5}
    assert score_terms(SMALL, 2, 6, 0) == {"progress": 0.0, "arrived": 0.0}  # further away


def test_random_moves_by_hand():
    # From 0 to 2: with 1/4 to 1, then with 1/4 to 2. One move: 1/4 x 0.5 x 0.5.
    assert expected_blind(SMALL, 0, 2, 1) == pytest.approx(1 / 16)
    # Two: at 1 after two with 1/4 x 1/2 + 3/4 x 1/4 = 5/16, at 2 with 1/16.
    assert expected_blind(SMALL, 0, 2, 2) == pytest.approx(5 / 16 * 0.25 + 1 / 16)


def test_the_canonical_map_is_that_of_all_eight():
    cells = "#..#.#..."
    turned = "".join(cells[(2 - at % 3) * 3 + at // 3] for at in range(9))
    mirrored = "".join(cells[at // 3 * 3 + 2 - at % 3] for at in range(9))
    transposed = "".join(cells[at % 3 * 3 + at // 3] for at in range(9))
    assert len({cells, turned, mirrored}) == 3
    assert len({canonical(one) for one in (cells, turned, mirrored, transposed)}) == 1
    assert canonical("#........") != canonical(".#.......")


def test_no_map_of_a_split_is_one_of_another_turned():
    """Over all maps, with the eight made anew."""
    known = LEVELS["5x5"]
    forms = {}
    for split in ("train", "val", "test"):
        source = procedural("5x5", split, known.least)
        forms[split] = {canonical(source[at].data["map"]) for at in range(MAPS[split])}
        assert len(forms[split]) > 15
    for one, other in itertools.combinations(forms.values(), 2):
        assert not one & other


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("split", ["train", "val", "test", "ood"])
def test_tasks_have_a_way_of_the_length_that_was_asked(level: str, split: str):
    source = procedural(level, split, LEVELS[level].least)
    for task in (source[0], source[1], source[len(source) - 1]):
        way = shortest_way(task.data["map"], task.data["start"], task.data["goal"])
        assert way is not None
        assert len(way) >= LEVELS[level].least
        assert (len(task.data["map"]) == LEVELS[level].size ** 2) == (split != "ood")
