"""What a run will take, told before it begins."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
import yaml
from support.models import settings, untrained

from llm_marl_envs.core.errors import Stopped
from trainers.studies import estimate
from trainers.studies.estimate import RunEstimate, advice, lines_of, run_estimate
from trainers.trainer import MAGRPOTrainer

MEASURED = (
    *("time/sampling", "time/environments", "time/publishing", "time/update"),
    *("sharing/prompts", "sharing/rows", "memory/peak", "left_0/tokens"),
)


def run_file(folder: Path, **trainer: Any) -> Path:
    """A run that writes, evaluates and saves."""
    model, tokenizer = untrained()
    for part in (model, tokenizer):
        part.save_pretrained(folder / "model")
    given = {
        "max_steps": 40,
        "num_generations": 4,
        "tasks_per_update": 2,
        "max_completion_length": 6,
        "use_cpu": True,
        "output_dir": str(folder / "run"),
        "save_strategy": "steps",
        "eval_strategy": "steps",
        **trainer,
    }
    run = {
        "model": str(folder / "model"),
        "env": "support.toys:WordPair",
        "eval_env_kwargs": {},
        "trainer": given,
    }
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(run))
    return file


def test_a_run_is_measured_and_leaves_nothing(tmp_path: Path) -> None:
    file = run_file(tmp_path)
    found = run_estimate(file, ["num_iterations=2"], updates=3)
    # Steps are counted: two of them make an update.
    assert found.updates == 20
    assert found.rows == {"shared": 16}
    assert 0 < found.seconds["sampling"] < found.total < found.longest_total
    assert 4 < found.action <= found.longest == 6
    assert 40 < found.prompt < 120
    assert found.prompts_read is not None
    assert found.prompts_read < 1
    assert 100 < found.memory < found.available
    assert not (tmp_path / "run").exists()
    text = "\n".join(lines_of(found))
    assert "20 updates, about" in text
    assert "16; 32 in a micro-batch at most" in text
    with pytest.raises(ValueError, match="updates=1"):
        run_estimate(file, updates=1)


def test_the_update_that_warms_up_is_in_no_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four updates of two steps: the first one's numbers are absurd, the others are averaged."""
    logs: list[dict[str, Any]] = []
    estimated = estimate._estimate

    def marked(trainer: MAGRPOTrainer) -> RunEstimate:
        for entry in trainer.state.log_history:
            for number, name in enumerate(MEASURED):
                if name in entry:
                    entry[name] = 1e9 if entry["step"] <= 2 else float(entry["step"] + number)
        logs.extend(trainer.state.log_history)
        return estimated(trainer)

    monkeypatch.setattr(estimate, "_estimate", marked)
    found = run_estimate(run_file(tmp_path), ["num_iterations=2"], updates=4)
    means = [
        mean(entry[name] for entry in logs if name in entry and entry["step"] > 2)
        for name in MEASURED
    ]
    *seconds, prompts, rows, memory, _ = means
    assert [found.seconds[name.removeprefix("time/")] for name in MEASURED[:4]] == seconds
    assert (found.prompts_read, found.rows_read, found.memory) == (prompts, rows, memory)
    assert found.action < 1e6
    assert any(name in entry for entry in logs for name in MEASURED if entry["step"] <= 2)


def test_a_run_that_ends_by_tokens(tmp_path: Path) -> None:
    """32 actions of an update have 6 tokens at most, so 10,000 last for 53 updates or more."""
    file = run_file(tmp_path, max_tokens=10_000, max_steps=-1, lr_scheduler_type="constant")
    assert 53 <= run_estimate(file).updates < 70


def measured(tmp_path: Path, **changes: Any) -> RunEstimate:
    """An update of 10 seconds; sampling takes 6 of them."""
    made = RunEstimate(
        updates=100,
        seconds={"sampling": 6.0, "environments": 1.0, "publishing": 0.0, "update": 3.0},
        rows={"left_0": 64, "right_0": 32},
        micro_batch=32,
        prompt=100.0,
        action=50.0,
        longest=100,
        prompts_read=0.2,
        rows_read=0.3,
        memory=1000.0,
        available=10_000.0,
        settings=settings(tmp_path),
    )
    return dataclasses.replace(made, **changes)


def test_what_is_told_by_hand(tmp_path: Path) -> None:
    """Twice the tokens: 12 s of sampling; rows of 200 and not 150 tokens: 4 s of learning."""
    found = measured(tmp_path)
    assert found.longest_total == pytest.approx(12 + 1 + 4)
    lines = lines_of(found)
    assert lines[0].startswith("one update   10.00 s: sampling 6.00,")
    assert "about 16.67 minutes" in lines[1]
    assert "sampling, 60.0% of the time" in "".join(lines)
    long = lines_of(dataclasses.replace(found, updates=3600))
    assert "about 10.00 hours" in long[1]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["max_completion_length below 100"]),
        ({"action": 10.0}, []),
        ({"memory": 9000.0}, ["rows_per_micro_batch below 32", "max_completion_length"]),
        ({"memory": 9000.0, "micro_batch": 1}, ["gradient_checkpointing", "max_completion"]),
        ({"rows_read": None, "action": 10.0}, ["computed whole"]),
        (
            {"seconds": {"sampling": 1.0, "environments": 6.0, "publishing": 0, "update": 1}},
            ["rollout_chunks above 1"],
        ),
        (
            {"seconds": {"sampling": 1.0, "environments": 1.0, "publishing": 0, "update": 6}},
            ["rows_per_micro_batch up to 64"],
        ),
    ],
)
def test_advice_fits_what_limits(
    tmp_path: Path,
    changes: dict[str, Any],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    estimate = measured(tmp_path, **changes)
    lines = advice(estimate)
    assert len(lines) == len(expected)
    assert all(word in line for word, line in zip(expected, lines, strict=True))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    sampling = max(estimate.seconds, key=lambda part: estimate.seconds[part]) == "sampling"
    assert ("engine: vllm" in advice(estimate)) == sampling


def test_a_signal_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    updates, made = MAGRPOTrainer.training_step, []

    def update(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(trainer.state.global_step)
        trainer.interrupt.signum = signal.SIGINT
        return updates(trainer, *args, **kwargs)

    monkeypatch.setattr(MAGRPOTrainer, "training_step", update)
    with pytest.raises(Stopped):
        run_estimate(run_file(tmp_path), updates=9)
    assert max(made) < 2
