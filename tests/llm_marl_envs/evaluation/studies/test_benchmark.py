"""Frozen benchmarks: what is played, what it scores, what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

from llm_marl_envs import make
from llm_marl_envs.cli import main
from llm_marl_envs.evaluation.play.runner import fingerprint_of_tasks, starts_of
from llm_marl_envs.evaluation.studies.benchmark import (
    BENCH_FILE,
    EVERY,
    Benchmark,
    Entry,
    bench_table,
    benchmark,
    benchmarks,
    check_tasks,
    read_bench,
    run_benchmark,
)
from llm_marl_envs.files.json_files import read_json, write_json


def entry(env_id: str, tasks: int, **kwargs: Any) -> Entry:
    kwargs = {"split": "test", **kwargs}
    one = Entry(
        id=env_id, kwargs=kwargs, tasks=tasks, floor=-1.0, ceiling=3.0, tasks_sha256="unknown"
    )
    env = make(env_id, **kwargs)
    return dataclasses.replace(
        one, tasks_sha256=fingerprint_of_tasks(env, starts_of(one.plan, env))
    )


SMALL = Benchmark(
    name="small",
    max_tokens=16,
    temperature=1.0,
    entries={"poker": entry("kuhn_poker-v1", 2), "writing": entry("coop_writing_tldr-v0", 3)},
    sha256="0",
)


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
    assert found == read_bench(tmp_path) == read_json(tmp_path / BENCH_FILE)
    writing, poker = found["entries"]["writing"], found["entries"]["poker"]
    returned = writing["mean_return"]
    assert writing["team"] == "expert"
    assert poker["team"] == "silent"
    assert writing["score"] == (returned + 1) / 4  # floor -1, ceiling 3
    assert writing["score_ci95"] == [(end + 1) / 4 for end in writing["return_ci95"]]
    assert found["score"] == pytest.approx((writing["score"] + poker["score"]) / 2)
    assert sum(writing["returns"].values()) / 3 == pytest.approx(returned)
    assert [*poker["returns"]] == ["test/0", "test/1"]


def test_what_is_finished_is_not_played_again(tmp_path: Path) -> None:
    first = run_benchmark(SMALL, {EVERY: "random"}, str(tmp_path))
    episodes = tmp_path / "writing" / "episodes.jsonl"
    before = (episodes.read_bytes(), episodes.stat().st_mtime_ns)
    again = run_benchmark(SMALL, {EVERY: "random"}, str(tmp_path))
    assert (episodes.read_bytes(), episodes.stat().st_mtime_ns) == before
    for name, one in first["entries"].items():
        assert one["returns"] == again["entries"][name]["returns"]


def test_entries_without_a_team_are_left_out_and_there_is_no_mean(tmp_path: Path) -> None:
    found = run_benchmark(SMALL, {"poker": "random"}, str(tmp_path))
    assert [*found["entries"]] == ["poker"]
    assert found["score"] is None
    with pytest.raises(ValueError, match=r"small has no \['chess'\]; it has \['poker'"):
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
    two = run_benchmark(SMALL, {"poker": "silent"}, str(tmp_path / "two"))
    lines = [line.split() for line in bench_table({"one": one, "two": two}).splitlines()]
    assert [line[0] for line in lines[1:]] == ["poker", "writing", "mean"]
    assert f"{one['score']:.2f}" in lines[-1]
    with pytest.raises(ValueError, match=r"different benchmarks: other \(0\), small \(0\)"):
        bench_table({"one": one, "two": {**two, "benchmark": "other"}})
    write_json(tmp_path / "no.json", {"a": 1})
    with pytest.raises(ValueError, match="expected what `llm-marl bench` wrote"):
        read_bench(tmp_path / "no.json")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "out")
    name = next(key for key, one in benchmark("bench-v1").entries.items() if one.tasks <= 100)
    assert main(["bench", "--team", f"{name}=silent", "--output", folder]) in (None, 0)
    beside = f"{folder}/{BENCH_FILE}"
    capsys.readouterr()
    main(["bench", "--team", f"{name}=silent", "--output", folder, "--beside", beside])
    printed = capsys.readouterr().out
    assert beside in printed
    assert name in printed
    assert read_bench(folder)["benchmark"] == "bench-v1"


def test_the_page_shows_what_the_files_beside_it_say() -> None:
    folder = ROOT / "docs" / "bench"
    columns = [
        read_bench(folder / f"{name}.json")
        for name in ("random", "solo", "expert", "agreed", "tiny", "trained")
    ]
    assert {one["sha256"] for one in columns} == {benchmark("bench-v1").sha256}
    page = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
    for name in benchmark("bench-v1").entries:
        line = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        shown = [cell.split()[:1] for cell in line.split("|")[2:-1]]
        found = [one["entries"].get(name) for one in columns]
        assert [bool(cell) for cell in shown] == [one is not None for one in found]
        numbers = [float(cell[0]) for cell in shown if cell]
        assert numbers == pytest.approx([one["score"] for one in found if one], abs=0.0051)
