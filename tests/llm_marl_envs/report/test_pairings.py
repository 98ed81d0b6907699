"""The cross-play part: its file, its heat maps, its tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.reports import Reader, a_cross_play

from llm_marl_envs.measure.studies.cross_play_files import read_cross_play
from llm_marl_envs.measure.studies.heat_map import heights
from llm_marl_envs.report import write_report


def test_cross_play_is_read(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"teams": ["a", 1], "matrix": [[1, null], [NaN, 0.5]]}')
    found, _ = read_cross_play(tmp_path / "c.json")
    assert (found.teams, found.matrix) == (("a", "1"), ((1.0, None), (None, 0.5)))
    gap = {"teams": ["a"], "matrix": [[1]], "gap": {"mean": 0.5, "ci95": [0.25, 0.75]}}
    (tmp_path / "cross_play.json").write_text(json.dumps(gap))
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "gap: self-play minus cross-play0.50 [0.25, 0.75]these teams" in shown


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("matrix", [[1, 0]], "must be 2 x 2"),
        ("matrix", [[1, 0], [True, 1]], "expected a finite number"),
        ("success_matrix", [[1]], "must be 2 x 2"),
        ("gap", {"mean": 0.5}, "'gap.ci95' is missing"),
        ("gap", 3, "gap: expected an object, got 3"),
        ("gap", {"mean": 0.5, "ci95": [1]}, "expected 2"),
        ("zero_shot", [{"team": "a"}], r"'\[0\]\.agent' is missing"),
    ],
)
def test_a_malformed_cross_play_is_named(tmp_path: Path, field: str, value: Any, complaint: str):
    whole = {"teams": ["a", "b"], "matrix": [[1, 0], [0, 1]], field: value}
    (tmp_path / "c.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=complaint) as caught:
        read_cross_play(tmp_path / "c.json")
    assert "c.json" in str(caught.value)


def test_a_cross_play_that_is_no_object_is_named(tmp_path: Path):
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ValueError, match=r"c\.json: expected a JSON object, got list"):
        read_cross_play(tmp_path / "c.json")


def test_a_measured_cross_play_is_shown_whole(tmp_path: Path):
    a_cross_play(tmp_path / "cross_play.json")
    page = Reader(write_report(tmp_path).read_text())
    shown = page.text
    assert "SameCase" in shown
    assert "Rows: the team that plays left_0. Columns: the team that plays right_0." in shown
    assert "Every pairing played 30 tasks." in shown
    for title in ("Mean return", "Success"):
        corner = "row plays left_0, column plays right_0"
        assert f"{title}{corner}loudquietloud1.000.33quiet0.331.00" in shown
    assert re.search(
        r"gap: self-play minus cross-play0\.67 \[0\.\d\d, 0\.\d\d\], n = 30these teams", shown
    )
    assert re.search(r"loud, left_0lower0\.33 \[0\.\d\d, 0\.\d\d\], n = 301\.00", shown)
    cells = [given["class"] for name, given in page.tags if name == "td" and "class" in given]
    assert cells == ["h9 own", "h0", "h0", "h9 own"] * 2
    assert "Files" not in shown  # there are no others


def test_heights_are_between_the_lowest_and_the_highest():
    assert heights(((1.0, None), (2.0, 5.0))) == [[0.0, 0.0], [0.25, 1.0]]
    assert heights(((3.0, 3.0), (None, 3.0))) == [[0.0, 0.0], [0.0, 0.0]]
    assert heights(((None,),)) == [[0.0]]
