"""What studies share: finished runs are kept, those that cannot be made are left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs.files.json_files import read_json


@pytest.fixture
def study(bench_module: Callable[[str], Any]) -> Any:
    return bench_module("resumable")


def options(study: Any, folder: Path, *given: str) -> Any:
    return study.options("x", "about", output=str(folder)).parse_args(given)


def test_what_is_there_is_not_made_again(study: Any, tmp_path: Path):
    made: list[str] = []

    def one(name: str) -> dict[str, Any]:
        made.append(name)
        return {"name": name}

    due = [(name, partial(one, name)) for name in "ab"]
    assert study.runs_of(options(study, tmp_path, "--minutes", "-1"), due) == []
    found = study.runs_of(options(study, tmp_path), due[:1])
    assert found == [{"name": "a", "overrides": []}] == [read_json(tmp_path / "a.json")]
    assert study.runs_of(options(study, tmp_path, "--minutes", "-1"), due) == found
    assert [run["name"] for run in study.runs_of(options(study, tmp_path), due)] == ["a", "b"]
    assert made == ["a", "b"]


def test_files_of_other_overrides_are_refused(study: Any, tmp_path: Path):
    study.runs_of(options(study, tmp_path), [("a", dict)])
    with pytest.raises(SystemExit, match=r"a\.json was made with other overrides: name another"):
        study.runs_of(options(study, tmp_path, "--override", "lr=1"), [("a", dict)])


def test_what_cannot_be_made(study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def fails(error: Exception) -> dict[str, Any]:
        raise error

    due = [("a", partial(fails, study.MissingError("no team"))), ("b", dict)]
    assert len(study.runs_of(options(study, tmp_path), due)) == 1
    assert "a is left out: no team" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="c: after update 3; call again"):
        study.runs_of(
            options(study, tmp_path), [("c", partial(fails, study.StoppedError("after update 3")))]
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json"]


def test_a_seed_and_a_folder_win_over_what_the_user_asks(study: Any, tmp_path: Path):
    from trainers.train import read_run

    args = options(study, tmp_path, "--override", "seed=5", "--override", "max_steps=7")
    run = read_run("referential_tiny", study.run_overrides(args, tmp_path, 3))
    assert (run["trainer"]["seed"], run["trainer"]["max_steps"]) == (3, 7)
    assert run["trainer"]["output_dir"] == f"{tmp_path}/run"


def test_a_training_that_was_stopped_is_no_run(study: Any):
    class Trainer:
        stopped = True
        state = type("State", (), {"global_step": 3})

        def train(self) -> None:
            """Nothing is left to do."""

    with pytest.raises(study.StoppedError, match="stopped after update 3"):
        study.train_to_the_end(Trainer())
