"""The numbers of the demo on many seeds, from summaries made by hand; no demo is run."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from support import prepared

from llm_marl_envs.measure.numbers.estimates import wilson_interval

BENCH = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "demo_seeds.py"))


def point(success: float, index: float | None, matching: int) -> dict[str, Any]:
    choices = [
        {"conventions": ["a", "b"], "matching": matching, "episodes": 30},
        {"conventions": ["a", "b", "c"], "matching": 0, "episodes": 10},
    ]
    return {
        "cooperation": None if index is None else {"mean": index, "above_solo": index / 2},
        "sampled_success": success,
        "half_temperature_success": success,
        "greedy_success": success,
        "mean_return": success,
        "match_by_choice": choices,
        "ci95": [0.0, 1.0],
        "splits": {"test": {"sampled_success": success}, "ood": {"sampled_success": success / 5}},
    }


def row(seed: int, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    about = {"seed": seed, "seconds": {"total": 9.0}, "peak_rss_mib": 7.0}
    return {**about, "before": before, "after": after}


def options(folder: Path, **changes: Any) -> argparse.Namespace:
    asked = {
        "preset": "coop_coding_tiny",
        "seeds": 1,
        "first_seed": 40,
        "controls": 0,
        "partners": 0,
        "control": "shuffle_rewards=true",
        "override": [],
        "jobs": 1,
        "output": folder,
    }
    return argparse.Namespace(**{**asked, **changes})


WHEN = ("before", "after")
RUNS = {
    "seed": [
        row(40, point(0.5, 0.4, 10), point(0.95, 0.85, 30)),
        row(41, point(0.4, 0.2, 20), point(0.7, 0.6, 20)),
        row(42, point(0.6, 0.3, 10), point(0.9, 0.95, 10)),
    ],
    "partner": [row(40, point(0.5, None, 10), point(0.5, None, 0))],
}


def test_medians_worst_and_stalls_by_hand():
    found = BENCH["summary_of"](RUNS)
    success, index = found["seed"]["success"], found["seed"]["cooperation index"]
    assert (success["before"]["median"], success["after"]["median"]) == (0.5, 0.9)
    assert success["after"]["worst"] == 0.7
    assert success["rise"]["median"] == pytest.approx(0.3)
    assert (success["stalls"], success["stalls_ci95"]) == (1, wilson_interval(1, 3))
    assert index["stalls"] == 2  # 0.85 and 0.6 are below 0.9
    assert "cooperation index" not in found["partner"]
    match = found["seed"]["match where there is a choice"]["after"]
    assert (match["mean"], match["worst"], match["best"]) == (pytest.approx(0.5), 0.25, 0.75)


def test_the_chance_of_a_match_weighs_the_choices():
    """30 tasks of two conventions and 10 of three: (15 + 10 / 3) / 40."""
    assert BENCH["chance"](RUNS["seed"]) == pytest.approx((15 + 10 / 3) / 40)
    text = BENCH["sentences"](RUNS, BENCH["summary_of"](RUNS))
    assert "two that draw evenly and apart: 0.46." in text
    assert "| trained (3) | success | 0.50 | 0.40 | 0.90 | 0.70 | 0.30 | 0.30 | 1 of 3 |" in text


def test_every_run_has_a_row_with_every_point():
    lines = BENCH["table"](RUNS).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| seed 40",
        "| seed 41",
        "| seed 42",
        "| partner 40",
    ]
    assert "0.50 -> 0.95" in lines[2]
    assert "success, ood" in lines[0]
    assert "success, new prompts" not in lines[0]
    assert "0.10 -> 0.19" in lines[2]


def test_summaries_of_older_versions_have_one_split():
    older = {kind: [_without_splits(one) for one in rows] for kind, rows in RUNS.items()}
    assert "success, ood" not in BENCH["table"](older)
    assert "success, ood" not in BENCH["summary_of"](older)["seed"]


def _without_splits(run: dict[str, Any]) -> dict[str, Any]:
    points = {when: {k: v for k, v in run[when].items() if k != "splits"} for when in WHEN}
    return {**run, **points}


def test_finished_runs_are_kept_and_other_settings_refused(tmp_path: Path):
    asked = options(tmp_path, partners=1)
    BENCH["check"](asked)
    for kind in ("seed", "partner"):
        (tmp_path / f"{kind}-40").mkdir()
        (tmp_path / f"{kind}-40" / "summary.json").write_text(json.dumps({"seed": kind}))
    assert BENCH["run_all"](asked) == {
        "seed": [{"seed": "seed"}],
        "control": [],
        "partner": [{"seed": "partner"}],
    }
    BENCH["check"](options(tmp_path, seeds=9))  # more of the same
    with pytest.raises(ValueError, match="holds another set of runs"):
        BENCH["check"](options(tmp_path, override=["max_steps=1"]))
    with pytest.raises(ValueError, match="at the same time"):
        BENCH["check"](options(tmp_path / "new", preset="debate_tiny", partners=1))
    assert not (tmp_path / "new").exists()


def test_a_demo_that_fails_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", prepared.python())
    asked = options(tmp_path, override=["no_such_setting=1"])
    with pytest.raises(RuntimeError, match=r"seed-40.*status 2.*seed-40\.log"):
        BENCH["run_one"](asked, "seed", 40)
    assert "no_such_setting" in (tmp_path / "seed-40.log").read_text()
