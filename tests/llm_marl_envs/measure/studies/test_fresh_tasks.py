"""A benchmark with tasks of one's own: others, the same for the same text, on a scale of theirs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.small_bench import SMALL

from llm_marl_envs.cli import main
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.tasks import IndexedSource
from llm_marl_envs.measure.studies import benchmark as benchmarks
from llm_marl_envs.measure.studies.bench_check import check_bench
from llm_marl_envs.measure.studies.bench_run import run_benchmark
from llm_marl_envs.measure.studies.benchmark import bench_table, benchmark, read_bench
from llm_marl_envs.measure.studies.fresh_tasks import (
    ceiling_of,
    floor_of,
    fresh_benchmark,
    fresh_entry,
    fresh_tasks,
    secret_of,
)

pytestmark = pytest.mark.full  # `make test-all` runs it

ENTRIES = benchmark("bench-v2").entries
SECRET = "tasks that nobody has seen"
LISTED = {"coding", "coding_ood", "debate", "debate_ood", "critique", "math", "sudoku", "signals"}
"""Entries whose tasks can only be chosen from a list; the page says so."""


@pytest.mark.parametrize("name", [*ENTRIES])
def test_tasks_are_others_of_the_same_split(name: str) -> None:
    entry = ENTRIES[name]
    source = task_source(entry.made())
    assert isinstance(source, IndexedSource)
    assert source.endless is (name not in LISTED)
    found = fresh_tasks(entry, SECRET)
    frozen = [source[index] for index in range(entry.tasks)]
    listed = {source[index].id for index in range(len(source))} if name in LISTED else set()
    assert len({task.id for task in found}) == len(found) == entry.tasks
    assert not {task.id for task in found} & {task.id for task in frozen}
    assert {task.id for task in found} <= listed if listed else True
    assert {task.split for task in found} == {source.split}
    same = [task for task in found if any(task.data == one.data for one in frozen)]
    assert len(same) <= 1  # small maps come more than once
    again = fresh_tasks(entry, SECRET)
    assert [(one.id, one.data) for one in again] == [(one.id, one.data) for one in found]
    assert {one.id for one in fresh_tasks(entry, "another text")} != {one.id for one in found}


@pytest.mark.parametrize("name", [*ENTRIES])
def test_they_are_played_as_the_frozen_ones(name: str) -> None:
    """Experts that agree reach the ceiling; silence earns about what it earns there."""
    one = fresh_entry(dataclasses.replace(ENTRIES[name], tasks=12), SECRET)
    small = dataclasses.replace(SMALL, entries={name: one})
    env = one.made()
    assert len(task_source(env) or ()) == 12
    ceiling = ceiling_of(one)
    assert ceiling == pytest.approx(ENTRIES[name].ceiling, abs=0.25)
    assert floor_of(one) == pytest.approx(ENTRIES[name].floor, abs=0.35)
    assert small.entries[name].tasks_sha256 != ENTRIES[name].tasks_sha256


def test_further_maps_are_of_their_split() -> None:
    """Maps behind the list are drawn as those of it: their split is that of their hash."""
    from llm_marl_envs.envs.grids.map_tasks import split_of

    tasks = fresh_tasks(ENTRIES["path"], SECRET)
    assert {split_of(task.data["map"]) for task in tasks} == {"test"}
    assert len({task.data["map"] for task in tasks}) > 90
    source = task_source(ENTRIES["path"].made())
    assert isinstance(source, IndexedSource)
    assert source.make(128 * 32, "x").data != source.make(0, "x").data
    assert source.make(128 * 32 + 5, "x").data["map"] == source.make(128 * 33 + 5, "x").data["map"]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(benchmarks, "benchmark", lambda name: SMALL)
    return fresh_benchmark(SMALL, SECRET, ["writing"])


def test_the_scale_is_measured_on_them(own: Any) -> None:
    entry = own.entries["writing"]
    assert entry.floor == floor_of(entry)
    assert entry.ceiling == 1.0
    assert own.entries["trust"].floor == -1.0  # not asked for, not measured
    assert own.sha256 != SMALL.sha256
    assert own.sha256 == fresh_benchmark(SMALL, SECRET, []).sha256
    assert own.sha256 != fresh_benchmark(SMALL, SECRET + "!", []).sha256


def test_results_of_other_tasks_are_not_compared(own: Any, tmp_path: Path) -> None:
    found = run_benchmark(own, {"writing": "expert"}, str(tmp_path / "own"))
    frozen = run_benchmark(SMALL, {"writing": "expert"}, str(tmp_path / "frozen"))
    assert (
        found["entries"]["writing"]["returns"]
        .keys()
        .isdisjoint(frozen["entries"]["writing"]["returns"])
    )
    assert SECRET not in "".join(p.read_text() for p in (tmp_path / "own").rglob("*.json*"))
    with pytest.raises(ValueError, match="different benchmarks"):
        bench_table({"own": found, "frozen": frozen})
    with pytest.raises(ValueError, match="or of other --seed-from, are not comparable"):
        read_bench(tmp_path / "own", SMALL)
    other = fresh_benchmark(SMALL, "another text", ["writing"])
    with pytest.raises(ValueError, match="not comparable"):
        read_bench(tmp_path / "own", other)
    assert read_bench(tmp_path / "own", own) == found
    assert check_bench(own, tmp_path / "own") == []
    assert check_bench(other, tmp_path / "own")


def test_the_command(own: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    folder = str(tmp_path / "out")
    asked = ["bench", "--team", "writing=expert", "--output", folder, "--seed-from"]
    assert main([*asked, str(file)]) in (None, 0)
    again = [*asked, SECRET, "--beside", f"{folder}/bench.json"]
    assert main(again) in (None, 0)
    assert main(["bench", "--check", folder, "--seed-from", SECRET]) == 0
    assert main(["bench", "--check", folder]) == 1
    assert main([*asked, "another text"]) == 2
    assert "holds" in capsys.readouterr().err


def test_a_secret_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(" a\n")
    assert secret_of(str(tmp_path / "file")) == secret_of("a") == "a"
    with pytest.raises(ValueError, match="an empty text"):
        secret_of("  ")
