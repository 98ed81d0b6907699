"""A folder holds one run; a checkpoint goes on with the settings that it began with."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.models import lora, make_trainer, settings, untrained, weights
from support.toys import Lower
from transformers import TrainerCallback

from llm_marl_envs.commands.exit_status import ending
from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from trainers import train
from trainers.config import MAGRPOConfig
from trainers.running import callbacks
from trainers.running.folder import alone, newest_or_cleared
from trainers.running.resume import refuse_occupied
from trainers.running.same_run import FREE
from trainers.studies.demo import _interrupted
from trainers.train import run_train
from trainers.trainer import MAGRPOTrainer

pytestmark = pytest.mark.full  # `make test-all` runs it

SAVING: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates, with a checkpoint of each; nobody writes there."""
    folder = tmp_path_factory.mktemp("begun")
    make_trainer(folder, Lower, **SAVING).train()
    return folder


def test_the_same_run_is_not_begun_twice(begun: Path):
    with pytest.raises(ValueError, match="its newest is checkpoint-2"):
        make_trainer(begun, Lower, **SAVING).train()


def test_another_run_is_refused_and_what_differs_is_named(begun: Path):
    before = {p: p.stat().st_mtime_ns for p in begun.rglob("*") if p.name != ".lock"}
    other = make_trainer(begun, Lower, learning_rate=1e-3, seed=4, peft_config=lora(2), **SAVING)
    words = r"holds another run \(lora\.lora_alpha: 8 -> 4; lora\.r: 4 -> 2; .*"
    with pytest.raises(ValueError, match=words + r"learning_rate: 0\.01 -> 0\.001; .*seed: 3 -> 4"):
        other.train()
    assert {p: p.stat().st_mtime_ns for p in begun.rglob("*") if p.name != ".lock"} == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning_rate": 1e-3}, r"learning_rate: 0\.01 -> 0\.001"),
        ({"num_iterations": 2}, "num_iterations: 1 -> 2"),
        ({"beta": 0.1}, r"beta: 0\.0 -> 0\.1"),
        ({"tasks_per_update": 4}, "tasks_per_update: 2 -> 4"),
        ({"credit": "own"}, "credit: 'team' -> 'own'"),
        ({"lr_scheduler_type": "linear"}, "lr_scheduler_type: 'constant' -> 'linear'"),
        ({"max_steps": 1}, r"updates: 2 -> 1 \(they may only become more\)"),
        ({"eval_env": Lower}, "eval_env: None -> 'Lower'"),
        ({"partners": {"left_0": RandomPolicy()}}, "partners.left_0: None -> 'random'"),
        ({"peft_config": lora(8)}, r"lora\.r: 4 -> 8"),
        ({"adapters": False}, "lora: .* -> None"),
        ({"env": lambda: Lower(turns=1)}, "env_tasks: "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_settings_do_not_go_on(begun: Path, changes: dict[str, Any], words: str):
    given = {**SAVING, **changes}
    trainer = make_trainer(begun, given.pop("env", Lower), **given)
    for resume in (True, str(begun / "checkpoint-1")):
        with pytest.raises(ValueError, match=rf"holds another run \(.*{words}"):
            trainer.check_folder(resume)


def test_another_model_does_not_go_on(begun: Path):
    model, tokenizer = untrained(seed=1)
    args = settings(begun, **SAVING)
    trainer = MAGRPOTrainer(model, Lower, args, peft_config=lora(), processing_class=tokenizer)
    with pytest.raises(ValueError, match=r"\(model: without a name \(weights \w{8}\) -> "):
        trainer.check_folder(True)


def test_paths_logging_saving_and_more_updates_may_change(begun: Path, tmp_path: Path):
    changes: dict[str, Any] = {
        "max_steps": 3,
        "logging_steps": 2,
        "save_steps": 3,
        "save_strategy": "steps",
        "transcript_every": 1,
        "run_name": "other",
    }
    trainer = make_trainer(tmp_path / "elsewhere", Lower, **changes)
    trainer.train(str(begun / "checkpoint-2"))
    unbroken = make_trainer(tmp_path / "unbroken", Lower, max_steps=3)
    unbroken.train()
    for policy, value in weights(trainer).items():
        assert value.equal(weights(unbroken)[policy])
    with pytest.raises(ValueError, match="run of 3 updates already, its newest is checkpoint-3"):
        make_trainer(tmp_path / "elsewhere", Lower, **changes).train()


def test_a_schedule_that_is_stretched_is_said(tmp_path: Path):
    changes = {**SAVING, "lr_scheduler_type": "linear"}
    make_trainer(tmp_path, Lower, **changes).train()
    with pytest.warns(UserWarning, match="3 updates instead of 2: the schedule 'linear'"):
        make_trainer(tmp_path, Lower, max_steps=3, **changes).check_folder(True)


def test_free_settings_are_fields():
    """A renamed field of transformers would silently become decisive, or free."""
    names = {field.name for field in dataclasses.fields(MAGRPOConfig)}
    for one in re.split(r"\|", FREE.pattern):
        assert any(re.fullmatch(one, name) for name in names), one
    decisive = {name for name in names if not FREE.fullmatch(name)}
    for name in ("learning_rate", "seed", "beta", "eval_tasks", "logging_nan_inf_filter", "bf16"):
        assert name in decisive


def test_a_run_without_checkpoints_says_why_it_does_not_go_on(tmp_path: Path):
    changes: dict[str, Any] = {"save_strategy": False}  # as YAML reads a bare no
    trainer = make_trainer(tmp_path, Lower, **changes)
    trainer.train()
    assert trainer.state.global_step == 2
    assert not list(tmp_path.glob("checkpoint-*"))
    again = make_trainer(tmp_path, Lower, **changes)
    with pytest.raises(ValueError, match=r"no checkpoint to go on from .*save_strategy='no'"):
        again.train(True)
    with pytest.raises(ValueError, match="already, without a checkpoint"):
        again.train()
    assert newest_or_cleared(tmp_path) is None
    again.train()


def test_a_checkpoint_without_an_optimiser_does_not_go_on(tmp_path: Path):
    make_trainer(tmp_path, Lower, save_only_model=True, **SAVING).train()
    longer = make_trainer(tmp_path, Lower, max_steps=3, **SAVING)
    with pytest.raises(ValueError, match="holds no optimiser"):
        longer.train(True)


@pytest.mark.parametrize("resume", ["nowhere", "folder"])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, resume: str):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="expected a folder checkpoint-N"):
        make_trainer(tmp_path / "run", Lower).train(str(tmp_path / resume))


def test_a_run_that_failed_at_once_may_be_begun_again(tmp_path: Path):
    def fail(request: Any) -> str:
        raise RuntimeError("wrong script")

    partners = {"left_0": ScriptedPolicy(fail)}
    with pytest.raises(RuntimeError, match="wrong script"):
        make_trainer(tmp_path, Lower, partners=partners).train()
    with pytest.raises(ValueError, match=r"holds another run \(partners"):
        make_trainer(tmp_path, Lower, seed=9).train(True)  # which asks for the run that is there
    make_trainer(tmp_path, Lower, seed=9).train()  # nothing was learned, so nothing is mixed


class Killed(BaseException):
    """As a kill: nothing of the library hears of it."""


def killed(after: int) -> Any:
    """A callback that ends a run after so many updates."""

    class Kills(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            if state.global_step == after:
                raise Killed

    return Kills()


@pytest.mark.parametrize("resume", [None, True])
def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path, resume: Any):
    """By the same command, and by the one that goes on; what it logged and showed is gone."""
    saving: dict[str, Any] = {"save_strategy": "steps", "save_steps": 3, "transcript_every": 1}
    saving |= {"max_steps": 4, "report_to": "tensorboard"}
    whole = make_trainer(tmp_path / "whole", Lower, **saving)
    whole.train()
    folder = tmp_path / "run"
    with pytest.raises(Killed):
        make_trainer(folder, Lower, callbacks=[killed(2)], **saving).train()
    (folder / "run_manifest.json").write_text("{}")
    (folder / ".partial-checkpoint" / "checkpoint-3").mkdir(parents=True)  # killed while saving
    with pytest.raises(ValueError, match=r"holds another run \(learning_rate"):
        make_trainer(folder, Lower, learning_rate=1e-3, **saving).train(resume)
    assert len((folder / "log.jsonl").read_text().splitlines()) == 2
    again = make_trainer(folder, Lower, **saving)
    with pytest.warns(UserWarning, match="ended before its first checkpoint; its log and"):
        again.train(resume)
    for policy, value in weights(again).items():
        assert value.equal(weights(whole)[policy])
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines[1:]] == [1, 2, 3, 4, 4]
    assert len([*(folder / "tensorboard").iterdir()]) == 1
    assert len([*(folder / "transcripts").iterdir()]) == 4
    assert (folder / "run_manifest.json").is_file()
    # It now has a checkpoint, so the same command is refused and the other one goes on.
    longer = make_trainer(folder, Lower, **{**saving, "max_steps": 5})
    with pytest.raises(ValueError, match="go on with resume_from_checkpoint=true"):
        longer.train()
    longer.train(True)


def test_a_folder_without_a_run_is_not_gone_on_with(tmp_path: Path):
    """A mistyped folder, or one whose run has ended."""
    with pytest.raises(ValueError, match="no run has made an update there"):
        make_trainer(tmp_path / "typo", Lower).train(True)
    make_trainer(tmp_path, Lower).train()
    for resume in (None, True):
        with pytest.raises(ValueError, match="checkpoint"):
            make_trainer(tmp_path, Lower).train(resume)
    with pytest.raises(ValueError, match="holds a run already"):
        refuse_occupied(tmp_path, None)


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower)
    with alone(tmp_path), pytest.raises(ValueError, match="another process works on it"):
        trainer.train()
    trainer.train()


def test_settings_of_a_newer_version_say_which(begun: Path, tmp_path: Path):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"version": 9, "llm_marl_envs": "7.1", "settings": {}}))
    (tmp_path / "log.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"written by llm-marl-envs 7\.1 in version 9"):
        make_trainer(tmp_path, Lower).train()


# -- run files -------------------------------------------------------------------------------------
RUN = """
model: {folder}/base
env: coop_coding
env_kwargs: {{split: train}}
lora: {{r: 4, target_modules: [q_proj, v_proj]}}
partners: {{helper_0: "expert:item"}}
trainer:
  output_dir: {folder}/run
  max_steps: 2
  tasks_per_update: 1
  num_generations: 2
  max_completion_length: 4
  transcript_every: 0
  lr_scheduler_type: constant
  save_strategy: steps
  save_steps: 1
  use_cpu: true
  disable_tqdm: true
"""


@pytest.fixture
def run_file(tmp_path: Path) -> str:
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    (tmp_path / "run.yaml").write_text(RUN.format(folder=tmp_path))
    return str(tmp_path / "run.yaml")


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run_manifest.json").read_text())


def test_a_run_of_the_module_that_went_well_ends_with_0(run_file: str, tmp_path: Path):
    assert train.main(["--config", run_file]) == 0
    assert (tmp_path / "run" / "run_manifest.json").is_file()


def test_a_second_run_leaves_the_first_and_its_manifest_alone(run_file: str, tmp_path: Path):
    run_train(run_file)
    first = manifest(tmp_path / "run")
    with pytest.raises(ValueError, match=r"another run \(.*seed: 42 -> 5"):
        run_train(run_file, ["seed=5"])
    with pytest.raises(ValueError, match="resume_from_checkpoint=true"):
        run_train(run_file)
    assert manifest(tmp_path / "run") == first
    run_train(run_file, ["resume_from_checkpoint=true", "max_steps=3"])
    found = manifest(tmp_path / "run")
    assert found["sessions"][1]["changed"]["trainer.max_steps"] == [2, 3]
    assert "trainer.learning_rate" not in found["sessions"][1]["changed"]


def test_a_stop_says_how_to_go_on_and_that_works(
    run_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    step = callbacks.SaveOnInterrupt.on_step_end

    def interrupted(self: Any, args: Any, state: Any, control: Any, **more: Any) -> Any:
        if state.global_step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, args, state, control, **more)

    monkeypatch.setattr(callbacks.SaveOnInterrupt, "on_step_end", interrupted)
    given = ["save_strategy=no", "seed=5"]

    def run() -> None:
        run_train(run_file, given)

    assert ending(run, "llm-marl train") == 143
    said = capsys.readouterr().err.strip().split("\n")[-1]
    resume = "--override save_strategy=no --override seed=5 --override resume_from_checkpoint=true"
    assert said == (
        "llm-marl train: stopped at update 1 of 2; go on with: llm-marl train --config "
        f"{run_file} {resume}"
    )
    assert manifest(tmp_path / "run")["sessions"][0]["status"] == "interrupted"
    assert not (tmp_path / "run" / "team").exists()
    monkeypatch.undo()
    run_train(run_file, [*given, "resume_from_checkpoint=true"])
    assert (tmp_path / "run" / "team" / "team.json").is_file()


class Twice(TrainerCallback):
    """Two signals within the same update."""

    def __init__(self, wait: float = 0.0) -> None:
        self.wait = wait

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(self.wait)
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, max_steps=4, callbacks=[Twice()])
    with pytest.raises(Stopped):
        trainer.train()
    assert trainer.state.global_step == 1
    assert not list(tmp_path.glob("checkpoint-*"))


def test_a_launcher_s_copy_of_the_signal_is_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    trainer = make_trainer(tmp_path, Lower, max_steps=4, callbacks=[Twice()])
    trainer.train()
    assert trainer.stopped
    assert (tmp_path / "checkpoint-2").is_dir()
    monkeypatch.setattr(callbacks, "REPEATED_SECONDS", 0.01)
    again = make_trainer(tmp_path / "b", Lower, max_steps=4, callbacks=[Twice(0.05)])
    with pytest.raises(Stopped):
        again.train()


@pytest.mark.parametrize(
    ("written", "meant"),
    [("true", True), (True, True), ("false", None), (None, None), ("", None), ("a/b", "a/b")],
)
def test_how_resumption_is_asked_for(written: Any, meant: Any):
    args = MAGRPOConfig("run", use_cpu=True, resume_from_checkpoint=written)
    assert args.resume_from_checkpoint == meant


def test_a_demo_goes_on_is_made_again_and_spares_a_run(begun: Path, tmp_path: Path):
    assert _interrupted(
        make_trainer(begun, Lower, **SAVING)
    )  # it was stopped: there is a checkpoint
    ended = make_trainer(tmp_path, Lower)
    ended.train()
    assert not _interrupted(make_trainer(tmp_path, Lower, seed=9))
    assert not (tmp_path / "log.jsonl").exists()
    make_trainer(tmp_path, Lower).train()
    (tmp_path / "run_manifest.json").write_text('{"kind": "train"}')
    with pytest.raises(ValueError, match="holds another run"):
        _interrupted(make_trainer(tmp_path, Lower, seed=9))
    assert (tmp_path / "log.jsonl").is_file()
