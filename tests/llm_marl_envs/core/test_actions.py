"""What counts as an action, for every game."""

from __future__ import annotations

import pytest

from llm_marl_envs.core.actions import read_action

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
