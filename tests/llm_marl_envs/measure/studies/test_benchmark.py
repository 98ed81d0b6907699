"""Frozen benchmarks: what is played, what it scores, what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from support.paths import ROOT
from support.small_bench import SMALL

from benchmarks import bench_columns
from llm_marl_envs.cli import main
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.measure.studies.bench_run import EVERY, run_benchmark
from llm_marl_envs.measure.studies.benchmark import (
    BENCH_FILE,
    bench_table,
    benchmark,
    benchmarks,
    check_tasks,
    read_bench,
)

CURRENT = "bench-v2"


def test_this_release_plays_what_was_frozen() -> None:
    for name in benchmarks():
        for key, one in benchmark(name).entries.items():
            check_tasks(key, one)
            assert one.floor < one.ceiling, key


def test_other_tasks_are_refused_before_anything_is_played(tmp_path: Path) -> None:
    changed = dataclasses.replace(SMALL.entries["writing"], kwargs={"split": "val"})
    other = dataclasses.replace(SMALL, entries={**SMALL.entries, "writing": changed})
    with pytest.raises(ValueError, match=r"writing: this release .* has other tasks"):
        run_benchmark(other, {EVERY: "expert"}, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_scores_are_returns_between_floor_and_ceiling(tmp_path: Path) -> None:
    teams = {EVERY: "silent", "writing": "expert"}
    found = run_benchmark(SMALL, teams, str(tmp_path))
    assert found == read_bench(tmp_path, SMALL) == read_json(tmp_path / BENCH_FILE)
    writing, trust = found["entries"]["writing"], found["entries"]["trust"]
    returned = writing["mean_return"]
    assert writing["team"] == "expert"
    assert trust["team"] == "silent"
    assert writing["score"] == (returned + 1) / 4  # floor -1, ceiling 3
    assert writing["score_ci95"] is writing["return_ci95"] is None  # of three tasks
    assert found["score"] == pytest.approx((writing["score"] + trust["score"]) / 2)
    assert sum(writing["returns"].values()) / 3 == pytest.approx(returned)
    assert [*trust["returns"]] == ["test/0", "test/1"]


def test_what_is_finished_is_not_played_again(tmp_path: Path) -> None:
    first = run_benchmark(SMALL, {EVERY: "random"}, str(tmp_path))
    episodes = tmp_path / "writing" / "episodes.jsonl"
    before = (episodes.read_bytes(), episodes.stat().st_mtime_ns)
    again = run_benchmark(SMALL, {EVERY: "random"}, str(tmp_path))
    assert (episodes.read_bytes(), episodes.stat().st_mtime_ns) == before
    for name, one in first["entries"].items():
        assert one["returns"] == again["entries"][name]["returns"]


def test_entries_without_a_team_are_left_out_and_there_is_no_mean(tmp_path: Path) -> None:
    found = run_benchmark(SMALL, {"trust": "random"}, str(tmp_path))
    assert [*found["entries"]] == ["trust"]
    assert found["score"] is None
    with pytest.raises(ValueError, match=r"small has no \['chess'\]; it has \['trust'"):
        run_benchmark(SMALL, {"chess": "random"}, str(tmp_path))


def test_solo_is_the_best_seat_among_silent_ones(tmp_path: Path) -> None:
    small = dataclasses.replace(SMALL, entries={"writing": SMALL.entries["writing"]})
    found = run_benchmark(small, {EVERY: "expert"}, str(tmp_path), solo=True)
    one = found["entries"]["writing"]
    seats = {
        seat: read_json(tmp_path / "writing" / seat / "summary.json")["mean_return"]
        for seat in ("brief_0", "detailed_0")
    }
    assert one["mean_return"] == max(seats.values())
    assert one["seat"] == max(seats, key=lambda seat: seats[seat])
    assert sorted(one["identity"].values()) == ["expert", "silent"]


def test_results_side_by_side(tmp_path: Path) -> None:
    one = run_benchmark(SMALL, {EVERY: "random"}, str(tmp_path / "one"))
    two = run_benchmark(SMALL, {"trust": "silent"}, str(tmp_path / "two"))
    lines = [line.split() for line in bench_table({"one": one, "two": two}).splitlines()]
    assert [line[0] for line in lines[1:]] == ["trust", "writing", "mean"]
    assert f"{one['score']:.2f}" in lines[-1]
    with pytest.raises(ValueError, match=r"different benchmarks: other \(0\), small \(0\)"):
        bench_table({"one": one, "two": {**two, "benchmark": "other"}})
    write_json(tmp_path / "no.json", {"a": 1})
    with pytest.raises(ValueError, match="expected what `llm-marl bench` wrote"):
        read_bench(tmp_path / "no.json", SMALL)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "out")
    name = next(key for key, one in benchmark(CURRENT).entries.items() if one.tasks <= 100)
    assert main(["bench", "--team", f"{name}=silent", "--output", folder]) in (None, 0)
    beside = f"{folder}/{BENCH_FILE}"
    capsys.readouterr()
    main(["bench", "--team", f"{name}=silent", "--output", folder, "--beside", beside])
    printed = capsys.readouterr().out
    assert beside in printed
    assert name in printed
    assert read_bench(folder, benchmark(CURRENT))["benchmark"] == CURRENT


def test_the_page_shows_what_the_files_beside_it_say() -> None:
    page = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
    assert bench_columns.table(benchmark(CURRENT)) in page


def test_a_frozen_file_is_written_as_it_stands() -> None:
    """`--freeze` with the numbers that are there changes nothing."""
    text = bench_columns.FILE.read_text(encoding="utf-8")
    for name, one in benchmark(CURRENT).entries.items():
        again = bench_columns._with(text, name, one)
        assert yaml.safe_load(again) == yaml.safe_load(text)
        changed = bench_columns._with(text, name, dataclasses.replace(one, floor=-3.5))
        assert yaml.safe_load(changed)["entries"][name]["floor"] == -3.5
