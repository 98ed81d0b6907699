"""Advantage alignment, with numbers worked by hand; runs that it cannot train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.enumeration import Game, Played, algorithm_of, inputs_of
from support.models import make_trainer
from support.toys import Lower, Relay

ALIGNED: dict[str, Any] = {"name": "advantage_alignment", "weight": 2.0}


def judged(*paid: list[list[float]], **args: Any) -> np.ndarray:
    """(G, A, K), of episodes that pay (A, K) and in which all act at every turn."""
    shape = np.array(paid[0]).shape
    played = tuple(Played(np.zeros(shape, int), np.array(one)) for one in paid)
    game = Game(np.zeros((*shape, 1)), played)
    inputs = inputs_of(game, np.arange(len(paid))[None], discount=args.get("discount", 1.0))
    return algorithm_of(ALIGNED, **args).advantages(inputs)[0]


def test_the_past_weighs_what_the_other_gains():
    """Own advantages 3, 2, 1 and of the other 1, 0, 4 in the first of two episodes.

    So the second turn adds 2 * 3 * 0 and 2 * 1 * 2, the third 2 * (3 + 2) * 4 and 2 * (1 + 0) * 1.
    """
    found = judged([[1, 1, 1], [1, -4, 4]], [[0, 0, 0], [0, 0, 0]])
    assert found[0].tolist() == [[3, 2, 1 + 40], [1, 0 + 4, 4 + 2]]
    assert found[1].tolist() == [[-3, -2, -1 + 40], [-1, 0 + 4, -4 + 2]]


def test_a_discount_weighs_the_past_and_the_whole_term():
    """gamma = 1/2 and rewards at the last of three turns: own and other advantages 1/4, 1/2, 1."""
    found = judged([[0, 0, 1], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]], discount=0.5)
    second = 1 / 2 + 2 * (1 / 2) * (1 / 2 * 1 / 4) * 1 / 2
    third = 1 + 2 * (1 / 2) * (1 / 4 * 1 / 4 + 1 / 2 * 1 / 2) * 1
    assert found[0, 0].tolist() == pytest.approx([1 / 4, second, third])
    nothing = judged([[1, 1], [1, 1]], [[0, 0], [0, 0]], discount=0.0)
    assert nothing[0].tolist() == [[1, 1], [1, 1]]  # finite, and the past does not count


def test_the_gains_of_all_others_are_added():
    found = judged([[1, 0], [0, 2], [0, 3]], [[0, 0], [0, 0], [0, 0]])
    assert found[0, 0].tolist() == [1, 0 + 2 * 1 * (2 + 3)]
    assert found[0, 1].tolist() == [2, 2 + 2 * 2 * (0 + 3)]


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_is_at_least_0(weight: float):
    with pytest.raises(ValueError, match=r"weight=.*: expected a number of at least 0"):
        algorithm_of({"name": "advantage_alignment", "weight": weight})


@pytest.mark.parametrize(
    ("env", "changes", "words"),
    [
        (Lower, {"credit": "team"}, "nothing is to be aligned; set credit: own"),
        (Lower, {"frozen": ["left_0"]}, "the only trained agent is .'right_0'., and it needs"),
        (Lower, {"schedules": {"pool": {}}}, "has no advantages to align with"),
        (lambda: Relay(rounds=2), {}, "act one after the other"),
    ],
)
def test_a_run_that_lacks_what_it_needs_is_refused_before_any_work(
    tmp_path: Path, env: Any, changes: Any, words: str
):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, env, algorithm="advantage_alignment", **{"credit": "own", **changes})
