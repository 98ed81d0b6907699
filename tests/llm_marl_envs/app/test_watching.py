"""A run while it trains: numbers worked by hand from its log and its settings."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from support.reports import episode, lines, with_tokens

from llm_marl_envs.app import watching
from llm_marl_envs.app.watching import Watcher, duration, watched
from llm_marl_envs.core.records import episode_to_dict


def a_run(folder: Path, updates: int, *, ended: bool = False, **trainer: Any) -> Path:
    """Updates of 2 s each, but the third, which took 10; 0.5 s of sampling, 1.5 s of learning."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = 0.0
    lines: list[dict[str, Any]] = [{"engine": {"name": "generate"}}]
    for step in range(1, updates + 1):
        seconds += 10.0 if step == 3 else 2.0
        times = {"time/sampling": 0.5, "time/update": 1.5, "time/rollout": 0.7}
        lines.append(
            {"loss": 0.1, "reward": 0.5, "step": step, "cost/seconds": seconds, "epoch": step / 10}
            | times
        )
    if ended:
        lines.append({"train_runtime": seconds, "step": updates})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "settings.json").write_text(json.dumps({"settings": {"trainer": trainer}}))
    return folder


def test_how_far_it_is(tmp_path: Path) -> None:
    (progress,) = watched({"a": a_run(tmp_path, 10, max_steps=40)}).progress
    assert (progress.step, progress.steps, progress.update_seconds) == (10, 40, 2.0)
    assert progress.left_seconds == 60.0
    assert progress.words == "update 10 of 40, 2.00 s an update, about 60 s left"


def test_steps_follow_from_epochs(tmp_path: Path) -> None:
    run = a_run(tmp_path, 10, max_steps=-1, num_train_epochs=3.0)
    (progress,) = watched({"a": run}).progress
    assert (progress.steps, progress.left_seconds) == (30, 40.0)


def test_nobody_knows_the_end(tmp_path: Path) -> None:
    (progress,) = watched({"a": a_run(tmp_path, 1)}).progress
    assert (progress.steps, progress.update_seconds, progress.left_seconds) == (None, None, None)
    assert progress.words == "update 1"


def test_it_has_ended(tmp_path: Path) -> None:
    (progress,) = watched({"a": a_run(tmp_path, 4, ended=True, max_steps=4)}).progress
    assert progress.ended
    assert progress.left_seconds == 0.0
    assert "ended" in progress.words


def test_a_run_that_stopped_is_remarked(tmp_path: Path) -> None:
    run = a_run(tmp_path, 4, max_steps=9)
    then = time.time() - 1000
    os.utime(run / "log.jsonl", (then, then))
    (progress,) = watched({"a": run}).progress
    assert "17 min" in progress.words
    assert "stopped" in progress.words


def test_seconds_by_part(tmp_path: Path) -> None:
    shown = watched({"a": a_run(tmp_path / "a", 5), "b": a_run(tmp_path / "b", 5)})
    assert shown.seconds is not None
    assert [tuple(row) for row in shown.seconds.rows] == [
        ("update", "1.50", "1.50"),
        ("sampling", "0.50", "0.50"),
    ]


def test_several_runs_lie_over_one_another(tmp_path: Path) -> None:
    folders = {name: a_run(tmp_path / name, 12) for name in "ab"}
    (alone,) = [c for c in watched({"a": folders["a"]}).charts if c.title == "Mean return"]
    (both,) = [c for c in watched(folders).charts if c.title == "Mean return"]
    assert [name for _, name in alone.keys] == ["reward"]
    assert [name for _, name in both.keys] == ["a: reward", "b: reward"]
    assert watched(folders).episodes is None


def test_episodes_say_their_update_and_what_colours_mean(tmp_path: Path) -> None:
    run, plain = a_run(tmp_path, 40), episode("t/1", 1, "ab")
    for update, made in ((9, episode_to_dict(plain)), (39, with_tokens(plain, 0.5, ("a", "b")))):
        lines(run / "transcripts" / f"update-{update:06d}.jsonl", [made])
    shown = watched({"a": run})
    assert shown.episodes is not None
    assert (shown.recorded, shown.episodes.coloured) == ("update 40", True)
    (run / "transcripts" / "update-000039.jsonl").unlink()
    shown = watched({"a": run})
    assert shown.episodes is not None
    assert (shown.recorded, shown.episodes.coloured) == ("update 10", False)


def test_a_half_written_line_is_left_out(tmp_path: Path) -> None:
    run = a_run(tmp_path, 3)
    with open(run / "log.jsonl", "a") as log:
        log.write('{"loss": 0.1, "st')
    shown = watched({"a": run})
    assert shown.progress[0].step == 3
    assert any("cut off" in note for note in shown.notes)
    (run / "log.jsonl").write_text("no JSON\n{}\n")
    with pytest.raises(ValueError, match="line 1"):
        watched({"a": run})


def test_it_is_drawn_again_when_something_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "IDLE_SHARE", 0)
    run, watcher = a_run(tmp_path, 3), Watcher()
    first = watcher.look({"a": run})
    assert watcher.look({"a": run}) is first
    a_run(run, 4)
    assert watcher.look({"a": run}).progress[0].step == 4


def test_it_is_drawn_seldom_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "IDLE_SHARE", 1e6)
    run, watcher = a_run(tmp_path, 3), Watcher()
    first = watcher.look({"a": run})
    a_run(run, 4)
    assert watcher.look({"a": run}) is first
    assert Watcher().look({"a": run}).progress[0].step == 4


def test_a_page_that_is_open_tells_of_a_run_that_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, watcher = a_run(tmp_path, 4, max_steps=9), Watcher()
    assert "stopped" not in watcher.look({"a": run}).progress[0].words
    later = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: later)
    assert "stopped" in watcher.look({"a": run}).progress[0].words


@pytest.mark.parametrize("step", ["Infinity", "NaN", '"a"', "[]", "null", "1e400", "1" + "0" * 299])
def test_a_step_that_is_no_number_is_no_update(tmp_path: Path, step: str) -> None:
    run = a_run(tmp_path, 4, max_steps=9)
    with open(run / "log.jsonl", "a") as log:
        log.write(f'{{"loss": 0.1, "step": {step}, "epoch": 0.5, "cost/seconds": 99}}\n')
    assert watched({"a": run}).progress[0].step == 4


@pytest.mark.parametrize(
    "trainer",
    [{"max_steps": 10**299}, {"max_steps": True}, {"num_train_epochs": 1e99}, {"max_steps": []}],
)
def test_settings_that_name_no_end(tmp_path: Path, trainer: dict[str, Any]) -> None:
    run = a_run(tmp_path, 4, **trainer)
    with open(run / "log.jsonl", "a") as log:
        log.write('{"loss": 0.1, "step": 5, "epoch": 1e-320}\n')
    (progress,) = watched({"a": run}).progress
    assert (progress.step, progress.steps, progress.left_seconds) == (5, None, None)


def test_what_is_no_file_of_the_run_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "transcripts").mkdir(parents=True)
    (secret / "transcripts" / "update-1.jsonl").write_text("no JSON\n{}\n")
    run = a_run(tmp_path / "run", 3)
    (run / "transcripts").symlink_to(secret / "transcripts")
    a_run(run / "below", 3)
    (run / "below" / "log.jsonl").write_text("no JSON\n{}\n")  # of another run
    assert watched({"a": run}).episodes is None
    (run / "log.jsonl").unlink()
    os.mkfifo(run / "log.jsonl")  # whoever opens it waits for ever
    with pytest.raises(ValueError, match=r"log\.jsonl"):
        watched({"a": run})
    (run / "log.jsonl").unlink()
    (run / "log.jsonl").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match=r"log\.jsonl"):
        watched({"a": run})


def test_a_run_that_cannot_be_shown_is_read_once_and_tells_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, watcher, calls = a_run(tmp_path / "run", 3), Watcher(), []
    (run / "log.jsonl").write_text("no JSON\n{}\n")
    monkeypatch.setattr(watching, "watched", lambda f: calls.append(f) or watched(f))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^a/log\.jsonl, line 1"):
            watcher.look({"a": run})
    assert len(calls) == 1
    shutil.rmtree(run)
    with pytest.raises(ValueError, match=r"^a: no log\.jsonl"):
        Watcher().look({"a": run})
    run = a_run(tmp_path / "run", 3)
    with open(run / "log.jsonl", "a") as log:
        log.write('{"loss": 0.1, "st')
    (note,) = Watcher().look({"a": run}).notes
    assert note.startswith("a/log.jsonl")


def test_durations() -> None:
    assert [duration(s) for s in (3.4, 89, 120, 5000, 12000)] == [
        "3 s",
        "89 s",
        "2 min",
        "83 min",
        "3 h 20 min",
    ]
