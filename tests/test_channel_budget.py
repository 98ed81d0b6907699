"""The study of budgets: its cells can be made, and its table says what the cells hold."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.paths import ROOT

from llm_marl_envs import make
from llm_marl_envs.files.json_files import read_json

pytestmark = pytest.mark.full  # `make test-all` runs it


@pytest.fixture
def study(bench_module: Callable[[str], Any]) -> Any:
    return bench_module("channel_budget")


def test_every_cell_has_a_channel_and_bounds(study: Any):
    args = SimpleNamespace(override=["max_tokens=900", "tiny.steps=7"])
    for env_id, budgets in study.BUDGETS.items():
        assert None in budgets  # free talk, to compare with
        for budget in budgets:
            run = study.run_file(args, env_id, budget, 3, "there")
            channel = {} if budget is None else {"max_chars": budget}
            env = make(run["env"], **{**run["env_kwargs"], "split": study.SPLIT})
            assert run["env"] == env_id
            assert env.env_kwargs["channel"] == channel
            bounds = env.bounds(env.source[0])
            assert bounds.solo < bounds.team  # else there is no index
            trainer = run["trainer"]
            assert (trainer["max_tokens"], trainer["max_steps"]) == (900, 0)
            assert run["tiny"]["steps"] == 7


def test_the_page_holds_the_table_of_the_files(study: Any):
    files = sorted((ROOT / "benchmarks" / "results" / "channel").glob("*.json"))
    page = (ROOT / "docs" / "howto" / "channel.md").read_text()
    assert files
    assert study.table([read_json(path) for path in files]) in page


def test_the_table_by_hand(study: Any):
    def cell(budget: int | None, seed: int, index: float) -> dict[str, Any]:
        point = {"index": index, "characters": 10.0 * index}
        before = {"index": 0.25, "characters": 3.0}
        return {
            "env": "debate-v0",
            "budget": budget,
            "seed": seed,
            "before": before,
            "after": point,
            "cpu_seconds": 90.0,
        }

    cells = [cell(None, 100, 0.9), cell(0, 100, 0.1), cell(0, 101, 0.3)]
    assert study.table(cells).splitlines()[2:] == [
        "| debate-v0 | 0 | 2 | 2 | 0.25 | 0.20 [too few runs: 2] |",
        "| debate-v0 | free | 1 | 9 | 0.25 | 0.90 |",
    ]
