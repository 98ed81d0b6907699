"""The study of budgets: its cells can be made, and its table says what the cells hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llm_marl_envs import make


@pytest.fixture
def study(benchmark: Callable[[str], Any]) -> Any:
    return benchmark("channel_budget")


def test_every_cell_has_a_channel_and_bounds(study: Any):
    for env_id, (preset, changes) in study.PRESETS.items():
        run = study.read_run(preset, [*changes, "env_kwargs.channel={max_chars: 3}"])
        env = make(run["env"], **{**run["env_kwargs"], "split": study.SPLIT})
        assert run["env"] == env_id
        assert env.env_kwargs["channel"] == {"max_chars": 3}
        bounds = env.bounds(env.source[0])
        assert bounds.solo < bounds.team  # else there is no index
        assert None in study.BUDGETS[env_id]  # free talk, to compare with


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
    # Student's t with one degree of freedom: 12.706 times the standard error, 0.1.
    assert study.table(cells).splitlines()[2:] == [
        "| debate-v0 | 0 | 2 | 2 | 0.25 | 0.20 (-1.07 to 1.47) | 90 |",
        "| debate-v0 | free | 1 | 9 | 0.25 | 0.90 | 90 |",
    ]
