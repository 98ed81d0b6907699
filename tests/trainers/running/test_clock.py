"""Seconds of parts, by a clock that is told the time."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from support.models import make_trainer
from support.toys import WordPair

from trainers import trainer as trainer_module
from trainers.experience.collect import evaluation_episodes
from trainers.running import clock
from trainers.running.checkpoints import Checkpoints
from trainers.running.clock import Clock


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The present time; tests move it."""
    now = [100.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    return now


def test_no_second_is_counted_twice(time: list[float]) -> None:
    counted = Clock()
    time[0] += 1  # of the rest
    with counted.part("environments"):
        time[0] += 2
        with counted.part("sampling"):
            time[0] += 4
        time[0] += 8
    time[0] += 16
    assert counted.taken() == {"update": 17, "environments": 10, "sampling": 4}
    assert counted.taken() == {"update": 0}


def test_a_part_that_fails_is_counted(time: list[float]) -> None:
    counted = Clock()

    def fail() -> None:
        with counted.part("sampling"):
            time[0] += 3
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - its own
        fail()
    time[0] += 1
    assert counted.taken() == {"update": 1, "sampling": 3}


def test_what_runs_while_it_is_stopped_is_counted_nowhere(time: list[float]) -> None:
    counted = Clock()
    with counted.part("sampling"):
        time[0] += 1
    with counted.stopped():
        time[0] += 2
        with counted.part("sampling"):
            time[0] += 4
    time[0] += 8
    assert counted.taken() == {"update": 8, "sampling": 1}


def test_evaluations_and_checkpoints_within_an_update_are_not_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first of its two steps; each takes a thousand seconds here."""
    late = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: perf_counter() + late[0])

    def slowed(act: Any) -> Any:
        def slow(*args: Any, **kwargs: Any) -> Any:
            late[0] += 1000
            return act(*args, **kwargs)

        return slow

    monkeypatch.setattr(trainer_module, "evaluation_episodes", slowed(evaluation_episodes))
    monkeypatch.setattr(Checkpoints, "write", slowed(Checkpoints.write))
    often = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(
        tmp_path, WordPair, eval_env=WordPair, eval_tasks=2, num_iterations=2, max_steps=4, **often
    )
    trainer.train()
    assert late[0] >= 6000
    log = [one for one in trainer.state.log_history if "time/update" in one]
    assert len(log) == 2
    assert all(one[name] < 900 for one in log for name in ("time/sampling", "time/update"))


def test_a_run_logs_where_its_time_went(tmp_path: Path) -> None:
    """Two steps make an update: the seconds stand in the entry of the last one."""
    trainer = make_trainer(tmp_path, WordPair, num_iterations=2, max_steps=4)
    began = perf_counter()
    trainer.train()
    whole = perf_counter() - began
    log = [one for one in trainer.state.log_history if "step" in one and "loss" in one]
    assert ["time/update" in one for one in log] == [False, True, False, True]
    parts = ("sampling", "environments", "publishing", "update")
    told = [[one[f"time/{part}"] for part in parts] for one in log[1::2]]
    assert 0 < sum(map(sum, told)) < whole
    assert all(sampling > 0 and update > 0 for sampling, _, _, update in told)
    for one in log[1::2]:
        assert one["speed/tokens"] > 0
        assert 0 < one["sharing/rows"] <= 1
        assert one["memory/peak"] > 100


def test_the_bar_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_trainer(tmp_path, WordPair, disable_tqdm=False).train()
    shown = capsys.readouterr().err
    assert re.search(r"sampling=\d+\.\ds, environments=\d+\.\ds, update=\d+\.\ds", shown)
