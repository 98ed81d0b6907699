"""Objects, splits, tasks and rows."""

from __future__ import annotations

from itertools import combinations as subsets
from math import comb
from typing import Any

import pytest

from llm_marl_envs.core.tasks import SPLITS
from llm_marl_envs.envs.signals.objects import (
    MOST_TASKS,
    Object,
    ObjectSource,
    combinations,
    object_task_of_row,
    object_tasks,
    ordered,
    subset,
    tables,
)

ROW = {"candidates": ["red kite", "blue kite", "red ball"], "target": "red ball"}


def test_no_object_of_a_split_is_shown_in_another():
    for attributes in (2, 3, 4):
        shown = {
            split: {
                thing
                for index in range(min(300, len(object_tasks(split, attributes, 4))))
                for thing in object_tasks(split, attributes, 4)[index].data["candidates"]
            }
            for split in SPLITS
        }
        for one, other in subsets(SPLITS, 2):
            assert not shown[one] & shown[other]
        assert [len(combinations(split, attributes)) for split in SPLITS[:3]] == [
            4**attributes // 2,
            4**attributes // 4,
            4**attributes // 4,
        ]
        # Every word is learned in train: nothing but the combinations is new in val and test.
        words = {word for table in tables("train", attributes) for word in table}
        assert {word for thing in combinations("train", attributes) for word in thing} == words
        assert not words & {word for thing in shown["ood"] for word in thing}


def test_tasks_are_different_and_every_object_is_a_target():
    for split, n in (("train", 2), ("val", 4), ("test", 16), ("ood", 2)):
        source = ObjectSource(split, 3, n)
        asked = {(frozenset(t.data["candidates"]), t.data["target"]) for t in source}
        assert len(asked) == len(source) <= MOST_TASKS[split]
        assert {target for _, target in asked} == set(combinations(split, 3))
        assert all(len(set(t.data["candidates"])) == n for t in source)
    assert len(object_tasks("test", 2, 4)) == 4  # all there are


def test_who_knows_all_tasks_by_heart_finds_no_target_alone():
    """Of what a listener can be shown, each object is the target as often."""
    for split, attributes, n in (("train", 3, 4), ("test", 3, 2), ("test", 2, 4), ("ood", 3, 16)):
        found: dict[tuple[Object, ...], list[Object]] = {}
        for task in ObjectSource(split, attributes, n):
            found.setdefault(ordered(task, "listener_0"), []).append(task.data["target"])
        assert all(sorted(shown) == sorted(targets) for shown, targets in found.items())


def test_sets_are_numbered_without_a_gap():
    found = [subset(number, 3) for number in range(comb(6, 3))]
    assert {frozenset(one) for one in found} == {frozenset(one) for one in subsets(range(6), 3)}


def test_every_seat_has_an_order_of_its_own():
    """The target is as often in each place of each seat; places of two seats say nothing."""
    places = [
        tuple(ordered(task, seat).index(task.data["target"]) for seat in ("a_0", "b_0", "b_1"))
        for task in map(object_tasks("train", 3, 3).__getitem__, range(1500))
    ]
    n = len(places)
    for one, other in subsets(range(3), 2):
        pairs = [(place[one], place[other]) for place in places]
        for pair in {(a, b) for a in range(3) for b in range(3)}:
            assert abs(pairs.count(pair) / n - 1 / 9) < 5 * (8 / 81 / n) ** 0.5


def test_rows():
    task = object_task_of_row({**ROW, "split": "test"})
    assert (task.split, task.data["target"]) == ("test", ("red", "ball"))
    assert object_task_of_row(ROW).id == "blue kite/red ball/red kite?red ball"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"candidates": ["red kite"]}, "expected 2 to 16"),
        ({"candidates": ["red kite", "red kite"]}, "different"),
        ({"candidates": ["red kite", "ball"]}, "as many words"),
        ({"candidates": ["Red kite", "red ball"]}, "lower-case"),
        ({"candidates": ["", " "]}, "expected 2 to 16"),
        ({"candidates": "red ball"}, "expected 2 to 16"),
        ({"candidates": [["red", "ball"], ["red", "kite"]]}, "expected 2 to 16"),
        ({"target": "green ball"}, "one of the candidates"),
        ({"target": None}, "one of the candidates"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(change: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        object_task_of_row({**ROW, **change})
