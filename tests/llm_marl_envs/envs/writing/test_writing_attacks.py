"""The table of attacks in docs/writing.md is what its command gives, and attacks are attacks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.attacks import ATTACKS, falsified, page_table, swapped, templated

pytestmark = pytest.mark.full  # `make test-all` runs it

ROOT = Path(__file__).parents[4]


def test_the_page_says_what_the_command_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns that need no model; that of the entailment model is in test_scorer_models.py."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    writing_attacks: Any = importlib.import_module("writing_attacks")

    page = page_table()
    columns = list(writing_attacks.quick_columns())
    assert len(page) == len(columns) + 1
    for column in columns:
        found = {name: f"{share:.2f}" for name, share in writing_attacks.shares(column).items()}
        found["honest texts: mean reward"] = found.pop("honest texts")
        assert page[f"{column.name} ({len(column.cases)})"] == found
    sys.modules.pop("writing_attacks")


def test_what_the_page_says_of_its_table() -> None:
    page = {name.split(" (")[0]: column for name, column in page_table().items()}
    paper = {name: float(share) for name, share in page["`paper`, posts"].items()}
    for name in ("salad of the source", "copy of the source", "a German text"):
        assert paper[name] > 1.0
    for kind in ("posts", "abstracts"):
        grounded = page[f"`grounded`, {kind}"]
        assert all(float(grounded[name]) <= 0.15 for name in ATTACKS)


def test_honest_texts_are_changed() -> None:
    rng = Random(0)
    assert falsified("Mia did not pay Tom.", rng) == "Mia did pay Tom."
    assert falsified("Mia was late.", rng) == "Mia was not late."
    assert falsified("Mia paid Tom.", rng) == "Mia never paid Tom."
    assert swapped("The old cat bit a dog.", rng) == "The dog cat bit a old."
    honest = ("A cat sat. It slept.", "A dog ran.")
    assert ATTACKS['"The liar said that ..."']("", honest, rng) == (
        "The liar said that A cat sat. The liar said that It slept.",
        "The liar said that A dog ran.",
    )
    first, second = templated("Cat mat dog run bird sing fish swim horse trot", honest, rng)
    assert first.startswith("The cat and the mat of the dog was in the run because")
    assert second
