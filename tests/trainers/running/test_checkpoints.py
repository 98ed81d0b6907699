"""Checkpoints and resumption: a run that was stopped ends as if it had not been."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from support.full_disk import full_disk
from support.models import lora, make_trainer, settings, untrained, weights
from support.process_cases import Uneven
from support.toys import Lower
from transformers import TrainerCallback

from llm_marl_envs import make
from trainers.trainer import MAGRPOTrainer
from trainers.weights import chat
from trainers.weights.team_files import load_team, read_team_file

pytestmark = pytest.mark.full  # `make test-all` runs it


def counted(trainer: Any) -> dict[str, Any]:
    """What a run cost, but for its time."""
    return {**dataclasses.asdict(trainer.costs), "seconds": None}


@pytest.mark.parametrize(
    ("adapters", "changes"),
    [
        pytest.param(True, {}, marks=pytest.mark.long),
        pytest.param(False, {}, marks=pytest.mark.long),
        (False, {"weights": "separate"}),
        pytest.param(True, {"num_iterations": 2}, marks=pytest.mark.long),
        (True, {"num_iterations": 2, "beta": 0.1}),
        (False, {"num_iterations": 2, "beta": 0.1}),
        pytest.param(
            False,
            {"weights": "separate", "num_iterations": 2, "beta": 0.1},
            marks=pytest.mark.long,
        ),
        pytest.param(True, {"frozen": ["left_0"], "num_iterations": 2}, marks=pytest.mark.long),
        (False, {"frozen": ["left_0"], "num_iterations": 2}),
        (True, {"algorithm": {"name": "mappo", "trace": 0.5}, "num_iterations": 2}),
        (
            True,
            {
                "schedules": {
                    "exchange": {"every": 2},
                    "in_turn": {"every": 1},
                    "horizon": {"every": 2, "turns": [1, 2]},
                    "difficulty": {"lowest": 0.0},
                }
            },
        ),
    ],
    ids=[
        "adapters",
        "shared",
        "separate",
        "mid-buffer",
        "mid-buffer-kl",
        "shared-all",
        "separate-all",
        "frozen",
        "left-behind",
        "critic",
        "schedules",
    ],
)
def test_resumed_equals_unbroken(tmp_path: Path, adapters: bool, changes: dict[str, Any]):
    plan = {"max_steps": 5, "save_strategy": "steps", "save_steps": 3, **changes}
    unbroken = make_trainer(tmp_path / "a", Lower, adapters=adapters, **plan)
    unbroken.train()
    resumed = make_trainer(tmp_path / "a", Lower, adapters=adapters, **plan)
    start = weights(resumed)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-3"))
    end = weights(unbroken)
    for policy, value in weights(resumed).items():
        assert torch.equal(value, end[policy]), policy
        assert torch.equal(value, start[policy]) is (policy in unbroken.team.frozen), policy
    assert counted(resumed) == counted(unbroken)


@pytest.mark.long
def test_a_resumed_run_remembers_what_lonely_turns_are_compared_with(tmp_path: Path):
    """Of two episodes one ends early, often: its twin has only the past to be compared with."""
    plan: dict[str, Any] = {"max_steps": 3, "num_generations": 2, "scale_rewards": "group"}
    plan |= {"tasks_per_update": 8}
    plan |= {"save_strategy": "steps", "save_steps": 2, "optim": "sgd", "learning_rate": 1.0}
    unbroken = make_trainer(tmp_path, Uneven, adapters=False, **plan)
    unbroken.train()
    lonely = [log.get("algorithm/running_baseline", 0) for log in unbroken.state.log_history]
    assert sum(lonely[:2]) > 0
    assert lonely[2] > 0
    resumed = make_trainer(tmp_path, Uneven, adapters=False, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])
    assert resumed.algorithm.state_dict() == unbroken.algorithm.state_dict()


def test_resuming_a_finished_run_trains_no_further(tmp_path: Path):
    plan = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    done = make_trainer(tmp_path, Lower, **plan)
    done.train()
    again = make_trainer(tmp_path, Lower, **plan)
    assert again.train(resume_from_checkpoint=True).global_step == 2
    assert again.state.global_step == 2
    for policy, value in weights(again).items():
        assert torch.equal(value, weights(done)[policy])


def test_more_processes_may_load_a_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second process finds no state of its own; tokens are counted alike in all."""
    changes: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2}
    first = make_trainer(tmp_path, Lower, **changes)
    first.train()
    second = make_trainer(tmp_path, Lower, **changes)
    monkeypatch.setattr(type(second.args), "process_index", property(lambda args: 1))
    second.train(resume_from_checkpoint=True)
    assert second.costs.tokens is not None
    assert second.costs.tokens > 0
    assert counted(second) == counted(first)


def test_a_checkpoint_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trainer = make_trainer(tmp_path, Lower, max_steps=2, save_strategy="steps", save_steps=1)
    calls = []

    def fail() -> dict[str, Any]:
        calls.append(True)
        if len(calls) == 2:
            raise OSError("disk full")
        return original()

    original = trainer._own_state
    monkeypatch.setattr(trainer, "_own_state", fail)
    with pytest.raises(OSError, match="disk full"):
        trainer.train()
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]
    assert not (tmp_path / ".partial-checkpoint").exists()
    again = make_trainer(tmp_path, Lower, max_steps=2)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 2


@pytest.mark.parametrize(
    ("size", "adapters", "named"),
    [
        (0, True, "log.jsonl"),
        (6_000, True, r"left_0/tokenizer\.json"),
        (12_000, True, r"checkpoint-2/\w+\.(pt|pth|bin)"),
        (6_000, False, r"shared/model\.safetensors"),
    ],
)
def test_a_disk_that_fills_loses_no_checkpoint(
    tmp_path: Path, size: int, adapters: bool, named: str
):
    """The error names a file, no half checkpoint is left, and with room the run goes on."""
    plan: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3}

    class Fills(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                full.enter_context(full_disk(size))

    broken = make_trainer(tmp_path, Lower, adapters=adapters, callbacks=[Fills()], **plan)
    with ExitStack() as full, pytest.raises(OSError, match=f"{named}: could not be written"):
        broken.train()
    assert [p.name for p in tmp_path.iterdir() if "checkpoint" in p.name] == ["checkpoint-1"]
    again = make_trainer(tmp_path, Lower, adapters=adapters, **plan)
    again.train(True)
    whole = make_trainer(tmp_path / "whole", Lower, adapters=adapters, **plan)
    whole.train()
    for policy, value in weights(again).items():
        assert torch.equal(value, weights(whole)[policy])


def test_half_a_team_is_none(tmp_path: Path):
    """Where an older one lay, which is overwritten."""
    trainer = make_trainer(tmp_path / "run", Lower)
    trainer.save_team(tmp_path / "team")
    with (
        full_disk(6_000),
        pytest.raises(OSError, match=r"team/left_0/.*: could not be written"),
    ):
        trainer.save_team(tmp_path / "team")
    with pytest.raises(ValueError, match=r"team\.json"):
        load_team(tmp_path / "team")


def test_ctrl_c_saves_a_checkpoint_that_resumes(tmp_path: Path):
    class Interrupt(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 1:
                os.kill(os.getpid(), signal.SIGINT)

    trainer = make_trainer(tmp_path, Lower, max_steps=4, callbacks=[Interrupt()])
    trainer.train()
    assert trainer.state.global_step == 2
    assert (tmp_path / "checkpoint-2").is_dir()
    trainer.remove_callback(Interrupt)
    unbroken = make_trainer(tmp_path / "other", Lower, max_steps=4)
    unbroken.train()
    resumed = make_trainer(tmp_path, Lower, max_steps=4)
    resumed.train(resume_from_checkpoint=True)
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])
    trainer.train(resume_from_checkpoint=True)  # the same object goes on, too
    assert trainer.state.global_step == 4


def test_a_reset_of_the_position_needs_the_same_split(tmp_path: Path):
    make_trainer(tmp_path, Lower, save_strategy="steps", save_steps=1).train()
    other = make_trainer(tmp_path, Lower, rows_per_micro_batch=8)
    with pytest.raises(ValueError, match="rows_per_micro_batch: 4 -> 8"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


def test_a_run_with_kl_refuses_to_resume_towards_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Adapters that a library begins otherwise: no setting says so."""
    plan = {"beta": 0.1, "save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    make_trainer(tmp_path, Lower, **plan).train()
    other = make_trainer(tmp_path / "other", Lower, **plan)
    monkeypatch.setattr(other.team, "start_digest", lambda: "other weights")
    with pytest.raises(ValueError, match="KL term or frozen seats at other weights"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.parametrize(
    ("limit", "greater"),
    [(1, True)] + [pytest.param(*one, marks=pytest.mark.long) for one in ((1, False), (2, True))],
)
def test_the_best_checkpoint_is_kept_under_its_own_name(tmp_path: Path, limit: int, greater: bool):
    """Checkpoints are written aside; the state must name the place they are moved to."""
    plan: dict[str, Any] = {
        "eval_env": Lower,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "eval_tasks": 3,
        "save_strategy": "steps",
        "save_steps": 1,
        "metric_for_best_model": "eval_reward",
        "greater_is_better": greater,
        "save_total_limit": limit,
    }
    trainer = make_trainer(tmp_path, Lower, max_steps=4, **plan)
    trainer.train()
    best = trainer.state.best_global_step
    assert trainer.state.best_model_checkpoint == str(tmp_path / f"checkpoint-{best}")
    assert (tmp_path / f"checkpoint-{best}" / "team.json").is_file()
    again = make_trainer(tmp_path, Lower, max_steps=6, **plan)
    again.train(resume_from_checkpoint=True)
    assert again.state.best_model_checkpoint is not None
    assert Path(again.state.best_model_checkpoint).is_dir()


def test_arguments_of_the_environment_that_are_no_json_can_be_saved(tmp_path: Path):
    source = make("coop_coding-v0").unwrapped.source

    def env() -> Any:
        return make("coop_coding-v0", tasks=source)

    trainer = make_trainer(tmp_path, env, max_steps=1, max_completion_length=4)
    trainer.save_team(tmp_path / "team")
    saved = read_team_file(tmp_path / "team")["env_kwargs"]["tasks"]
    assert "not saved" in saved
    assert "0x" not in saved


DATED = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ strftime_now('%d %b %Y') }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_run_that_goes_on_on_another_day_reads_the_date_of_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Day(datetime.date):
        now = "2026-11-27"

        @classmethod
        def today(cls) -> Any:
            return cls.fromisoformat(cls.now)

    monkeypatch.setattr(chat, "date", Day)

    def trainer(folder: str, **changes: Any) -> MAGRPOTrainer:
        model, tokenizer = untrained()
        tokenizer.chat_template = DATED
        plan = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, **changes}
        args = settings(tmp_path / folder, **plan)
        return MAGRPOTrainer(model, Lower, args, processing_class=tokenizer, peft_config=lora())

    unbroken = trainer("unbroken")
    unbroken.train()
    trainer("run", max_steps=1).train()
    Day.now = "2026-11-28"
    resumed = trainer("run")
    assert resumed.check_folder(True) == tmp_path / "run" / "checkpoint-1"
    resumed.train(resume_from_checkpoint=True)
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])
    resumed.save_team(tmp_path / "team")
    kept = json.loads((tmp_path / "team" / "team.json").read_text())["chat_template_kwargs"]
    assert kept == {"today": "2026-11-27"}
    other = trainer("run", chat_template_kwargs={"today": "2026-11-28"})
    with pytest.raises(ValueError, match=r"today: '2026-11-27' -> '2026-11-28'"):
        other.train(resume_from_checkpoint=True)
