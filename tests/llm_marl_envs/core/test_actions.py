"""What counts as an action, for every game."""

from __future__ import annotations

import pytest

from llm_marl_envs.core.actions import read_action
from llm_marl_envs.envs.games.scales import FACTORS, check_scales, task_scales

WORDS = ("red", "green", "blue")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("red", "red"),
        ("  RED \n", "red"),
        ("Action: blue", "blue"),
        ("action:Green", "green"),
        ("I think blue pays.\n\nAction: red", "red"),
        ("<think>\ngreen\nblue\n</think>\nred", "red"),
        ("red\u2028because it pays", "red"),  # every line end that Unicode knows
        # none
        ("", None),
        ("I choose red.", None),
        ("red.", None),
        ("**red**", None),
        ("> red", None),
        ("red blue", None),
        ("red, green, blue", None),
        ("Action: Action: red", None),
        ("r\u0435d", None),  # a Cyrillic letter
        ("<think>\nred", "red"),  # an unclosed thought is a line like any other
        ("<think>red</think>", None),
        # several, also where they agree
        ("red\nblue", None),
        ("red\nred", None),
        ("Action: red\nAction: blue", None),
        ("red\x0bgreen", None),
        ("red\n" * 500, None),
    ],
)
def test_exactly_one_line_is_an_action(text: str, action: str | None):
    assert read_action(text, WORDS) == action


def test_no_split_shares_a_factor():
    factors = [one for several in FACTORS.values() for one in several]
    assert len(set(factors)) == len(factors)
    assert FACTORS["train"] == (1.0,)


def test_scales_are_numbers_above_zero():
    assert check_scales("scales", [1, 0.5]) == (1.0, 0.5)
    for wrong in ([], [0], [1, -1], [float("inf")], [float("nan")]):
        with pytest.raises(ValueError, match=r"scales=.*above 0"):
            check_scales("scales", wrong)
    for kind in ("12", [True], ["1"], 3):
        with pytest.raises(TypeError, match=r"scales=.*a list of numbers"):
            check_scales("scales", kind)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected 2 numbers, one for each seat"):
        check_scales("weights", [1.0], 2)


def test_a_task_has_one_scale_or_one_for_each_seat():
    assert task_scales([2, [1, 100]], 2) == ((2.0, 2.0), (1.0, 100.0))
    for wrong in ([], [0], [[1]], [[1, 0]], [[]]):
        with pytest.raises(ValueError, match=r"scales="):
            task_scales(wrong, 2)
    for kind in (3, "12", ["1"], [None]):
        with pytest.raises(TypeError, match=r"scales="):
            task_scales(kind, 2)  # type: ignore[arg-type]
