"""The page of self-play says what its files hold, and the criterion is what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from llm_marl_envs.envs.games import kuhn_rules as kuhn
from llm_marl_envs.files.json_files import read_json

pytestmark = pytest.mark.full  # `make test-all` runs it

ALWAYS = [1.0] * 6
RUNS: list[dict[str, Any]] = [
    read_json(path) for path in sorted((ROOT / "benchmarks" / "results" / "kuhn").glob("*.json"))
]


@pytest.fixture
def study(bench_module: Callable[[str], Any]) -> Any:
    return bench_module("kuhn_self_play")


def run(*tables: Any) -> dict[str, Any]:
    points = [{"update": 4 * n, "bets": list(both)} for n, both in enumerate(tables)]
    return {"updates": 4 * (len(tables) - 1), "points": points}


def test_the_page_holds_the_table_of_the_files(study: Any):
    page = (ROOT / "docs" / "self_play.md").read_text()
    assert RUNS
    assert study.table(RUNS) in page, "python -m benchmarks.kuhn_self_play"


def test_exploitability_is_that_of_the_recorded_tables():
    for one in RUNS:
        for point in one["points"]:
            again = kuhn.exploitability(*map(np.array, point["bets"]))
            assert point["exploitability"] == pytest.approx(again, abs=1e-9)


def test_reading_is_one_in_an_equilibrium_and_zero_without_a_look(study: Any):
    some = [0.5, 0.5, 0.5, 0.2, 0.5, 0.6]
    found = study.reading(run(kuhn.equilibrium(0.2), (ALWAYS, ALWAYS), (some, ALWAYS)))
    assert found == pytest.approx([1, 0, 0.2])  # the last: 0.4 and 0


def test_the_last_third_is_by_updates(study: Any):
    some = run(*[(ALWAYS, ALWAYS)] * 4)  # updates 0, 4, 8, 12
    assert study.late(some, np.array([9.0, 9.0, 1.0, 2.0])) == 1.5
