"""Names that nobody knows, and values of the wrong type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_marl_envs.core.checks import check_types, refuse_unknown, suggestion

MANY = [f"learning_rate_{i}" for i in range(30)] + ["lora_alpha", "alpha_pattern"]


def test_at_most_five_names_are_suggested():
    assert suggestion("learning_rate", MANY).count("learning_rate_") == 5
    assert suggestion("zzz", MANY) == ""
    assert suggestion("zzz", ["b", "a"]) == "; known: ['a', 'b']"
    assert suggestion("alpha", MANY) == "; did you mean 'lora_alpha' or 'alpha_pattern'?"


def test_what_is_meant_comes_first():
    with pytest.raises(ValueError, match=r"lora: unknown key 'rank'; did you mean 'r' or 'rank_"):
        refuse_unknown("lora", {"rank": 8}, ["r", "rank_pattern", "bias"], {"rank": "r"})
    with pytest.raises(ValueError, match="unknown key 7; the page lists them"):
        refuse_unknown("x", {7: 8}, MANY, listed="the page")
    refuse_unknown("x", {"lora_alpha": 1}, MANY)


@pytest.mark.parametrize(
    ("value", "hint", "fine"),
    [
        (1, int, True),
        (np.int64(1), int, True),
        (1.5, int, False),
        (True, int, False),
        ("1", int, False),
        (1, float, True),
        (np.float32(1), float, True),
        (True, float, False),
        (None, float, False),
        (None, float | None, True),
        (1, bool, False),
        ("a", str, True),
        (Path("a"), str, False),
        (["a"], list[str] | None, True),
        ("a", list[str] | None, False),
        ({}, dict[str, float], True),
        ([], dict[str, float], False),
        (object(), str | Path | None, True),  # a hint that is not looked at
        (object(), Any, True),
    ],
)
def test_types(value: Any, hint: Any, fine: bool):
    if fine:
        check_types("here", {"x": value}, {"x": hint})
    else:
        with pytest.raises(TypeError, match=r"here: x=.*: expected .*, got "):
            check_types("here", {"x": value}, {"x": hint})
