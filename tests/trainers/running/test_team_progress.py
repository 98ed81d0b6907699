"""The bar of training."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.models import make_trainer
from support.toys import WordPair

from trainers.running.callbacks import TeamProgress


def _train(updates: int, main: bool) -> None:
    bar: Any = TeamProgress()
    state = SimpleNamespace(is_world_process_zero=main, max_steps=updates, global_step=0)
    bar.on_train_begin(None, state, None)
    for n in range(1, updates + 1):
        state.global_step = n
        bar.on_step_end(None, state, None)
        bar.on_log(None, state, None, logs={"reward": n / updates, "loss": 0.0})
    bar.on_train_end(None, state, None)


def test_it_writes_few_lines_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    _train(300, main=True)
    shown = [one for one in capsys.readouterr().err.replace("\r", "\n").split("\n") if one.strip()]
    assert 1 <= len(shown) <= 4
    assert "300/300" in shown[-1]
    assert "reward=1.000" in shown[-1]


def test_the_first_process_alone_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    _train(3, main=False)
    assert capsys.readouterr().err == ""


def test_the_bar_says_what_runs_within_an_update(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, WordPair, max_steps=2, disable_tqdm=False)
    (progress,) = (
        one for one in trainer.callback_handler.callbacks if isinstance(one, TeamProgress)
    )
    said: list[str] = []
    now = progress.now

    def note(part: str) -> None:
        now(part)
        if progress.training_bar is not None:
            said.append(progress.training_bar.postfix.split(",")[0])

    progress.now = note  # type: ignore[method-assign]
    trainer.clock.watch = note
    trainer.train()
    assert said.count("now=sampling") >= 2
    assert "now=environments" in said
    passes = [one for one in said if one.startswith("now=update ")]
    assert "now=update 2" in passes
    assert passes[-1] != "now=update 1"
