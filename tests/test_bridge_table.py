"""The page shows what was measured, and a library that fails is a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from support.bridge_table import PAGE, RECORDS, ROOT, ends, failed, page, shown

pytestmark = pytest.mark.full  # `make test-all` runs it

LIBRARIES = yaml.safe_load((ROOT / "tests" / "bridges" / "libraries.yaml").read_text())


def test_the_page_holds_the_table():
    text = page()
    assert PAGE.read_text() == text, f"{PAGE.name}: python tests/support/bridge_table.py"
    assert text.count("| Stable-Baselines3 |") == 2


def test_every_example_was_run_with_three_seeds_and_succeeded():
    records = json.loads(RECORDS.read_text())
    wanted = {(name, one) for name, library in LIBRARIES.items() for one in library["examples"]}
    assert {(record["name"], record["example"]) for record in records} == wanted
    for record in records:
        assert len(record["runs"]) == 3, record["example"]
        assert failed(record) == []


def run(kind: str, result: Any) -> dict[str, Any]:
    return {"seed": 0, "kind": kind, "result": result, "seconds": 1.0}


@pytest.mark.parametrize(
    ("kind", "result", "wrong"),
    [
        ("train", [0.5, 0.6, 0.7, 0.8, 0.69], True),
        ("train", [0.5, 0.6, 0.7, 0.8, 0.71], False),
        ("train", [0.5, float("nan")], True),
        ("play", [[1.0, 1.0], [0.5, 0.4]], True),
        ("play", [[1.0, 1.0]], False),
        ("play", [], True),
    ],
)
def test_what_fails(kind: str, result: Any, wrong: bool):
    record = {"example": "x", "runs": [run(kind, result)]}
    assert bool(failed(record)) is wrong
    assert (shown(record) == "**failed**") is wrong


def test_an_error_fails_and_ends_are_means_of_fifths():
    assert failed({"example": "x", "runs": [{"seed": 0, "error": "no module"}]})
    assert ends([0.0, 0.2, 1, 1, 1, 1, 1, 1, 0.5, 0.7]) == pytest.approx((0.1, 0.6))
