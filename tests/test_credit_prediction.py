"""Does the audit predict who learns faster: the games by hand, a short study, and the page."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

pytestmark = pytest.mark.full  # `make test-all` runs it

pytest.importorskip("trl")


@pytest.fixture
def study(bench_module: Callable[[str], ModuleType]) -> Any:
    return bench_module("credit_prediction")


def test_games_by_hand(study: Any) -> None:
    """Of 9 joint choices one pays 3; then 3 of 9 agree. Of crowd every seat is right in a third.

    Of later each of two first words pays 1 in a third, and one of 9 joint choices 3.
    """
    games = study.GAMES
    random = study.Tables(study.WORDS)
    exact = {name: study.value(game, random) for name, game in games.items()}
    assert exact["bonus"] == pytest.approx(3 / 9 + 3 / 9)
    assert exact["crowd"] == pytest.approx(1 / 3)
    assert exact["pair"] == pytest.approx(2.3 / 9)
    assert exact["later"] == pytest.approx(2 / 3 + 3 / 9)
    assert {name: study.best(game) for name, game in games.items()} == {
        "bonus": 4.0,
        "crowd": 1.0,
        "pair": 1.0,
        "later": 5.0,
    }


def test_the_speed_is_the_mean_while_the_budget_is_spent(
    study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values 0.25, 0.5, ... of a best of 1; updates of 6 actions and 3 calls, of 9 and 5 calls."""
    for algorithm, actions, calls in (("magrpo", 6, 3), ("difference", 6, 9)):
        values = itertools.count(1)
        monkeypatch.setattr(study, "value", lambda game, team, v=values: next(v) / 4)
        found = study.speeds("pair", algorithm, 12, {"rate": 0.1}, 0)
        first, rest = min(calls, 6) / 6, max(0, 6 - calls) / 6
        assert found["calls"] == pytest.approx((first * 1 + rest * 2) / 4), algorithm
        if algorithm == "magrpo":
            assert found["tokens"] == pytest.approx((actions * 1 + (12 - actions) * 2) / 12 / 4)


def test_pairs_that_are_asked_are_those_whose_signals_differ(study: Any) -> None:
    signals = {"a": [4.0, 0, 0], "b": [2.1, 0, 0], "c": [1.0, 0, 0]}
    found = {"a": [0.5] * 8, "b": [0.2] * 8, "c": [0.9, *[0.8] * 7]}
    pairs = [one for one in study.pairs_of(signals, found) if study.asked(one, "tokens")]
    assert [(one["more"], one["less"]) for one in pairs] == [("a", "c"), ("b", "c")]
    assert not study.asked({"more": "rae", "less": "magrpo", "ratio": 3.0}, "calls")
    assert study.asked({"more": "rae", "less": "c3_sim", "ratio": 3.0}, "calls")
    assert study.asked({"more": "rae", "less": "magrpo", "ratio": None}, "tokens")
    assert pairs[0]["difference"] == pytest.approx(0.5 - 6.5 / 8)
    assert pairs[0]["p"] == pytest.approx(2 / 2**8)
    assert study.correlation(signals, found) == pytest.approx(-0.5)
    assert study.ranked([1.0, 1.0 + 1e-12, 3.0]).tolist() == [0.5, 0.5, 2.0]


def test_a_study_goes_on_where_it_was(
    study: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "GAMES", {"pair": study.GAMES["pair"]})
    monkeypatch.setattr(study, "METHODS", ("magrpo", "magrpo_none"))
    monkeypatch.setattr(study, "RATES", (0.1, 0.3))
    plan = {**study.asdict(study.PLAN), "points": 2, "replays": 4, "judgements": 2, "memory": 1}
    monkeypatch.setattr(study, "PLAN", study.AuditPlan(**{**plan, "estimators": study.METHODS}))
    study._stage.cache_clear()
    file = tmp_path / "prediction.json"
    given = ["credit_prediction", "--seeds", "2", "--actions", "12", "--pilots", "1"]
    monkeypatch.setattr("sys.argv", [*given, "--output", str(file)])
    study.main()
    shown = capsys.readouterr().out
    whole = json.loads(file.read_text())
    assert {*whole["summary"]} == {"pair, tokens", "pair, calls"}
    for one in whole["summary"].values():
        assert {*one["signals"]} == {*one["speeds"]} == {"magrpo", "magrpo_none"}
        assert all(len(each) == 2 for each in one["speeds"].values())
    study.main()
    assert capsys.readouterr().out == shown[shown.index("| game, price") :]
    monkeypatch.setattr("sys.argv", [*given, "--actions", "18", "--output", str(file)])
    with pytest.raises(ValueError, match="other settings"):
        study.main()


def test_the_page_holds_the_tables(study: Any) -> None:
    page = (ROOT / "docs" / "credit_audit.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- prediction -->\n(.*?)<!-- end -->", page, re.DOTALL)
    summary = json.loads(study.FILE.read_text())["summary"]
    assert block is not None
    assert block[1].strip() == study.tables(summary)
    assert all(np.mean(each) > 0 for one in summary.values() for each in one["speeds"].values())
