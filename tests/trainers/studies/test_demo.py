"""What the demo measures before and after training."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.models import SHORT, untrained

from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.core.records import read_jsonl
from trainers.policies.token_policy import TokenPolicy
from trainers.running import defaults
from trainers.studies import demo
from trainers.studies.demo import measure
from trainers.trainer import MAGRPOTrainer
from trainers.weights.team_files import build_team_model


@pytest.fixture(scope="module")
def policy() -> TokenPolicy:
    model, tokenizer = untrained()
    seats = ("helper_0", "main_0", "brief_0", "detailed_0")
    team = build_team_model(model, seats, weights="shared", tokenizer=tokenizer)
    return TokenPolicy(team, max_completion_length=4)


def test_the_splits_stand_side_by_side(policy: TokenPolicy) -> None:
    run: dict[str, Any] = {"env": "coop_coding-v0", "env_kwargs": {"split": "train"}}
    found = measure(run, policy, "before", n_tasks=3)
    splits = found.numbers["splits"]
    assert list(splits) == ["test", "test_prompts", "ood"]
    for one in splits.values():
        assert (one["n"], one["sampled_success"]) == (3, 0.0)
        assert one["ci95"] is None  # of three tasks
        assert one["cooperation"]["mean"] < 0  # well below what one seat can do
    assert found.numbers["cooperation"] == splits["test"]["cooperation"]
    assert found.numbers["convention_match"] == 0.0
    assert [episode.task_id for episode in found.episodes["test"]] == ["test/0", "test/1", "test/2"]


def test_rows_are_measured_on_the_test_rows_that_there_are(policy: TokenPolicy) -> None:
    splits = ("train", "test", "test", "val")
    rows = [{"id": str(i), "text": "Mia paid.", "split": one} for i, one in enumerate(splits)]
    kwargs = {"tasks": rows, "reward": "paper", "split": "train"}
    found = measure({"env": "coop_writing_tldr-v0", "env_kwargs": kwargs}, policy, "before")
    assert list(found.numbers["splits"]) == ["test"]
    assert found.numbers["n"] == len(found.episodes["test"]) == 2


@pytest.mark.full
def test_a_demo_that_was_stopped_makes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped in training, then in the second measurement: each stage is made once."""
    monkeypatch.setenv("LLM_MARL_CACHE", str(tmp_path / "cache"))
    for one in untrained():
        one.save_pretrained(tmp_path / "model")
    run = {
        "model": str(tmp_path / "model"),
        "warm_start": {"demonstrations": 4, "steps": 2, "batch_size": 2, "lora_rank": 2},
        "env": "coop_coding-v0",
        "env_kwargs": {"split": "train"},
        "lora": {"r": 2, "target_modules": "all-linear"},
        "trainer": {
            "max_steps": 2,
            **SHORT,
        },
    }
    path, folder = tmp_path / "run.yaml", tmp_path / "demo"
    path.write_text(yaml.safe_dump(run))
    made: list[str] = []
    measured, updated = demo.measure, MAGRPOTrainer.training_step

    def measure(*args: Any) -> Any:
        made.append(args[2])
        if made.count("after") == 1:
            raise KeyboardInterrupt
        return measured(*args)

    def update(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        made.append("update")
        if made.count("update") == 2:
            trainer.interrupt.signum = signal.SIGINT
        return updated(trainer, *args, **kwargs)

    monkeypatch.setattr(demo, "measure", measure)
    monkeypatch.setattr(MAGRPOTrainer, "training_step", update)

    def again() -> Any:
        return demo.run_demo(str(folder), preset=str(path), tasks=2, shown=2)

    with pytest.raises(Stopped, match="goes on"):
        again()
    monkeypatch.setattr(defaults, "_free_bytes", lambda: 1 << 20)  # its rows were chosen before
    with pytest.raises(KeyboardInterrupt):
        again()
    summary = again()
    warm = [one for one in (tmp_path / "cache").iterdir() if one.name.startswith("warm-")]
    assert len(warm) == 1
    assert [one for one in made if one != "update"] == ["before", "after", "after"]
    assert summary["updates"] == 2
    assert len([*read_jsonl(folder / "transcripts_before_ood.jsonl")]) == 2
    said = capsys.readouterr().out
    assert "(test/" in said
    assert "(ood/" in said
    assert not (folder / demo.STAGES).exists()
    assert not [*(folder / "train").glob("checkpoint-*")]
    again()  # it had ended, so it is made again
    assert [one for one in made if one != "update"][3:] == ["before", "after"]
