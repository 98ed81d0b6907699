"""What a run will take, from its first updates: `llm-marl estimate --config run.yaml`.

    one update   2.10 s: sampling 1.20, environments 0.10, publishing 0.00, learning 0.80
    the run      300 updates, about 10.50 minutes, without evaluations and checkpoints; ...
    memory       912 MiB at most, of 24010
    limited by   sampling, 57.1% of the time

The run's own trainer makes these updates, in a folder that is thrown away. The first one warms up.
An estimate knows what models write now: as they learn, actions grow or shrink. So the time is also
told for the case that every action is as long as it may be.

Owns what is measured and what it means. The times are the trainer's (`running/clock.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
from transformers import TrainerCallback

from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.measure.numbers.format import number, percent, whole
from trainers.running.memory import MIB
from trainers.train import build_trainer, read_run, settled
from trainers.trainer import MAGRPOTrainer

PARTS = {
    "sampling": "sampling",
    "environments": "environments",
    "publishing": "publishing",
    "update": "learning",
}
"""A part's name in the log -> in the text."""
HALF = 0.5
"""Share of the time, or of the memory, from which a part limits a run."""
SECONDS_PER_MINUTE, SECONDS_PER_HOUR = 60, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """What was measured of an update, and what it means for a run.

    Attributes:
        updates: of the whole run; with `max_tokens`, as many as so long actions allow.
        seconds: part -> seconds of one update.
        rows: policy -> rows that it learns from in one update, on this process.
        micro_batch: rows of one forward pass.
        prompt: mean tokens of a prompt that was sent.
        action: mean tokens of an action.
        longest: most tokens of an action.
        prompts_read: of prompt tokens, the share that sampling read; None where the engine does not
            tell.
        rows_read: of tokens of whole rows, the share that the update read; None where rows are
            whole.
        memory: peak, MiB.
        available: MiB of the machine, or of the GPU.
        settings: of the trainer.
    """

    updates: int
    seconds: Mapping[str, float]
    rows: Mapping[str, int]
    micro_batch: int
    prompt: float
    action: float
    longest: int
    prompts_read: float | None
    rows_read: float | None
    memory: float
    available: float
    settings: Any

    @property
    def total(self) -> float:
        """Seconds of one update."""
        return sum(self.seconds.values())

    @property
    def longest_total(self) -> float:
        """Seconds of one update in which every action takes all its tokens, in proportion."""
        spoken = self.longest / max(self.action, 1.0)
        whole = (self.prompt + self.longest) / (self.prompt + max(self.action, 1.0))
        grow = {"sampling": spoken, "update": whole}
        return sum(value * grow.get(part, 1.0) for part, value in self.seconds.items())


def run_estimate(
    config: str | Path, overrides: Sequence[str] = (), updates: int = 2
) -> RunEstimate:
    """Make a few updates of a run and measure the later ones.

    Args:
        config: as `trainers.train.read_run` takes it.
        overrides: likewise.
        updates: how many, at least 2.

    Raises:
        ValueError: fewer updates, or what training would refuse.
        Stopped: by a signal.
    """
    if updates < 2:
        raise ValueError(f"updates={updates}: expected at least 2, the first one warms up")
    run = settled(read_run(config, overrides))
    with TemporaryDirectory() as folder:
        quiet = {
            "output_dir": folder,
            "save_strategy": "no",
            "eval_strategy": "no",
            "report_to": "none",
            "transcript_every": 0,
            "logging_steps": 1,
            "disable_tqdm": True,
            "resume_from_checkpoint": None,
        }
        quiet_run = {**run, "trainer": {**(run.get("trainer") or {}), **quiet}}
        quiet_run.pop("eval_env_kwargs", None)
        trainer = build_trainer(quiet_run)
        trainer.add_callback(_Stop(updates * trainer.steps_per_update))
        trainer.train()
        if trainer.interrupt.signum is not None:
            raise Stopped(signum=trainer.interrupt.signum)
        return _estimate(trainer)


class _Stop(TrainerCallback):
    """Ends a run after so many steps of the optimiser."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """End it."""
        if state.global_step >= self.steps:
            control.should_training_stop = True
        return control


def _estimate(trainer: MAGRPOTrainer) -> RunEstimate:
    steps, costs, args = trainer.steps_per_update, trainer.costs, trainer.args
    log = [
        entry for entry in trainer.state.log_history if entry["step"] > steps
    ]  # the first warms up

    def of(name: str) -> float | None:
        values = [entry[name] for entry in log if name in entry]
        return mean(values) if values else None

    action = mean(of(f"{agent}/tokens") or 0.0 for agent in trainer.trained)
    actions = costs.tokens / max(action, 1e-9)
    updates = trainer.state.max_steps // steps
    if args.max_tokens is not None:
        made = trainer.state.global_step // steps
        updates = min(updates, math.ceil(args.max_tokens * made / max(costs.tokens, 1)))
    return RunEstimate(
        updates=updates,
        seconds={part: of(f"time/{part}") or 0.0 for part in PARTS},
        rows=dict(trainer.plan.trajectories),
        micro_batch=args.rows_per_micro_batch,
        prompt=(costs.prompt_tokens or 0) / max(actions, 1.0),
        action=action,
        longest=args.max_completion_length,
        prompts_read=of("sharing/prompts"),
        rows_read=of("sharing/rows"),
        memory=of("memory/peak") or 0.0,
        available=_available(trainer.accelerator.device),
        settings=args,
    )


def _available(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory / MIB
    return psutil.virtual_memory().total / MIB


def lines_of(run: RunEstimate) -> list[str]:
    """The lines that a user reads."""
    parts = ", ".join(f"{name} {number(run.seconds[part])}" for part, name in PARTS.items())
    lines = [f"one update   {number(run.total)} s: {parts}"]
    longest = f"{number(run.longest_total)} s an update if every action took {run.longest} tokens"
    lines.append(
        f"the run      {run.updates} updates, about {_spent(run.updates * run.total)}, "
        f"without evaluations and checkpoints; {longest}"
    )
    rows = ", ".join(f"{policy} {count}" for policy, count in run.rows.items())
    lines.append(f"rows         {rows}; {run.micro_batch} in a micro-batch at most")
    lines.append(f"tokens       a prompt {whole(run.prompt)}, an action {whole(run.action)}")
    if run.prompts_read is not None:
        lines.append(
            f"sharing      sampling read {percent(run.prompts_read)} of the prompts' tokens"
        )
    if run.rows_read is not None:
        lines.append(f"             learning read {percent(run.rows_read)} of the rows' tokens")
    lines.append(f"memory       {whole(run.memory)} MiB at most, of {whole(run.available)}")
    lines.append(f"limited by   {_limit(run)}")
    lines += [f"would help   {line}" for line in advice(run)]
    return lines


def _spent(seconds: float) -> str:
    if seconds < SECONDS_PER_HOUR:
        return f"{number(seconds / SECONDS_PER_MINUTE)} minutes"
    return f"{number(seconds / SECONDS_PER_HOUR)} hours"


def _limit(run: RunEstimate) -> str:
    part = max(run.seconds, key=lambda name: run.seconds[name])
    share = run.seconds[part] / max(run.total, 1e-9)
    memory = run.memory / run.available
    also = f"; memory, {percent(memory)} of the machine's" if memory > HALF else ""
    return f"{PARTS[part]}, {percent(share)} of the time{also}"


def advice(run: RunEstimate) -> list[str]:
    """Settings that would help, the most important first."""
    args, most = run.settings, max(run.rows.values(), default=0)
    part = max(run.seconds, key=lambda name: run.seconds[name])
    tight = run.memory > HALF * run.available
    lines = []
    if tight and run.micro_batch > 1:
        lines.append(
            f"rows_per_micro_batch below {min(run.micro_batch, most)}: less memory, same steps"
        )
    if tight and not args.gradient_checkpointing and run.micro_batch == 1:
        lines.append("gradient_checkpointing: true, less memory for more time")
    if args.share_prompts and run.rows_read is None:
        lines.append("rows were computed whole: the warning above says why")
    if not args.share_prompts:
        lines.append("share_prompts: true")
    if part == "sampling" and run.action >= HALF * run.longest:
        lines.append(f"max_completion_length below {run.longest}, if shorter actions will do")
    if part == "sampling" and args.sampling_batch_size and not tight:
        lines.append(f"sampling_batch_size above {args.sampling_batch_size}")
    if part == "sampling" and torch.cuda.is_available():
        lines.append("engine: vllm")
    if part == "environments":
        lines.append(f"rollout_chunks above {args.rollout_chunks}: one is sampled while others run")
    if part == "update" and run.micro_batch < most and not tight:
        lines.append(f"rows_per_micro_batch up to {most}, while memory lasts")
    return lines
