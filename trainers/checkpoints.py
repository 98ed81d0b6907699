"""Checkpoints of a team: complete or absent, and resumed bit for bit.

The methods of transformers' trainer that write and read checkpoints, as a mixin. A checkpoint is a
folder that `load_team` can load, plus optimiser, scheduler, random states, the position inside the
rollout buffer (without it `num_iterations > 1` would resume differently) and the algorithm's state.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput, get_last_checkpoint, rotate_checkpoints

from llm_marl_envs.records import plain
from llm_marl_envs.rollout import env_arguments, env_name
from trainers.collect import FailureWindow
from trainers.team_files import save_team

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer as Base

    from trainers.algorithms import Algorithm
    from trainers.collect import Collector
    from trainers.config import MAGRPOConfig
    from trainers.packing import PackPlan
    from trainers.team_model import TeamModel
    from trainers.token_policy import TokenPolicy
else:
    Base = object

STATE_FILE = "magrpo_state_{rank}.pt"
STAGING = ".partial-checkpoint"


class TeamCheckpoints(Base):
    """Mixin for `MAGRPOTrainer`; stands before `GRPOTrainer` in the bases."""

    args: MAGRPOConfig  # type: ignore[assignment]
    team: TeamModel
    plan: PackPlan
    algorithm: Algorithm
    collector: Collector
    token_policy: TokenPolicy
    sampled_tokens: int
    failures: FailureWindow
    _staging: str | None = None

    def env_description(self) -> dict[str, Any]:
        """What the team plays, as `team.json` keeps it."""
        env, template = self.collector.env, self.token_policy.template_kwargs
        return {
            "env_id": env_name(env),
            "env_kwargs": _saved(env_arguments(env)),
            "max_completion_length": self.args.max_completion_length,
            **({"chat_template_kwargs": dict(template)} if template else {}),
        }

    def save_team(self, folder: str | Path) -> None:
        """Write the team so that `load_team`, PEFT or Transformers can load it."""
        save_team(self.team, folder, env=self.env_description())

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self.args.should_save:
            folder = Path(str(output_dir or self.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            self.save_team(folder)
            torch.save(self.args, folder / "training_args.bin")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        for policy in self.team.policies:
            self.team.load_policy(policy, Path(resume_from_checkpoint) / policy)
        self.team.activate(self.team.policies[0])

    def _load_finished(self, resume: Any) -> TrainOutput | None:
        """Load a checkpoint of a run that is over; None if there is something left to train.

        Transformers would take one more step, because it looks for the end only after a step.
        """
        per_epoch = self.collector.schedule.updates_per_epoch * self.args.num_iterations
        total = self.args.max_steps
        if total <= 0:
            total = math.ceil(self.args.num_train_epochs * per_epoch)
        path = get_last_checkpoint(str(self.args.output_dir)) if resume is True else resume
        file = Path(str(path)) / TRAINER_STATE_NAME
        if not path or not file.is_file():
            return None
        state = TrainerState.load_from_json(str(file))
        if state.global_step < total:
            return None
        self._load_from_checkpoint(str(path))
        self.state = state
        # Every process counts the tokens of all; there may have been fewer processes then.
        self.sampled_tokens = self._read_own_state(str(path), rank=0)["sampled_tokens"]
        return TrainOutput(state.global_step, 0.0, {})

    def _get_output_dir(self, trial: Any) -> str:
        return self._staging or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write the checkpoint aside and rename it: a checkpoint is complete or absent."""
        run_dir = Path(super()._get_output_dir(trial))
        self._staging = str(run_dir / STAGING)
        if self.accelerator.is_main_process:
            shutil.rmtree(self._staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            super()._save_checkpoint(model, trial)
            name = f"checkpoint-{self.state.global_step}"
            self._name_best(run_dir, Path(self._staging) / name)
            self._save_own_state(Path(self._staging) / name)
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                _publish(Path(self._staging) / name, run_dir / name)
        finally:
            self._staging = None
            if self.accelerator.is_main_process:  # the others may still be writing, or be done
                shutil.rmtree(run_dir / STAGING, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            rotate_checkpoints(
                output_dir=str(run_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=self.state.best_model_checkpoint,
                use_mtime=False,
            )
        self.accelerator.wait_for_everyone()

    def _name_best(self, run_dir: Path, staged: Path) -> None:
        """Let the state name the best checkpoint by its final place, not by the staging folder."""
        best = self.state.best_global_step
        path = run_dir / f"checkpoint-{best}"
        if best and (best == self.state.global_step or path.is_dir()):
            self.state.best_model_checkpoint = str(path)
        if self.args.should_save:
            self.state.save_to_json(str(staged / TRAINER_STATE_NAME))

    def _split(self) -> dict[str, int]:
        """What the position inside an update counts in; a resumed run must count the same."""
        return {
            "micro_batches": self.plan.total,
            "num_iterations": self.args.num_iterations,
            "processes": self.args.world_size,
        }

    def _save_own_state(self, folder: Path) -> None:
        every = self.plan.total * self.num_iterations
        torch.save(
            {
                "step": self._step,
                # Needed only between the iterations over one rollout.
                "buffer": self._buffered_inputs if self._step % every else None,
                "algorithm": self.algorithm.state_dict(),
                "sampled_tokens": self.sampled_tokens,
                "failures": [list(update) for update in self.failures.updates],
                "start": self.team.start_digest(),
                "split": self._split(),
            },
            folder / STATE_FILE.format(rank=self.args.process_index),
        )

    def _read_own_state(self, checkpoint: str, rank: int) -> dict[str, Any]:
        """What `_save_own_state` of one process wrote.

        Raises:
            ValueError: there is no such file.
        """
        path = Path(checkpoint) / STATE_FILE.format(rank=rank)
        if not path.is_file():
            raise ValueError(
                f"{checkpoint} has no {path.name}: it was not written by this trainer, or by a run "
                "with fewer processes"
            )
        return torch.load(path, map_location=self.accelerator.device, weights_only=True)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        state = self._read_own_state(checkpoint, self.args.process_index)
        if state["split"] != self._split():
            raise ValueError(
                f"{checkpoint} was written with {state['split']}, this run has {self._split()}: "
                "resume with the same settings and number of processes"
            )
        if state["start"] != self.team.start_digest():
            raise ValueError(
                f"{checkpoint} was trained with its KL term or frozen seats at other weights: "
                "resume with the model, seed, beta and frozen seats that the run began with"
            )
        self._step = state["step"]
        self._buffered_inputs = state["buffer"]
        self.sampled_tokens = state["sampled_tokens"]
        self.algorithm.load_state_dict(state["algorithm"])
        # Not in checkpoints of releases that knew no failed episodes.
        self.failures = FailureWindow(tuple(tuple(one) for one in state.get("failures", ())))


def _saved(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON; what JSON cannot hold is named by its type, which `make` refuses."""
    saved = {}
    for name, value in arguments.items():
        entry = plain(value)
        told = " object>" in repr(entry)  # as `plain` writes what it does not know
        saved[name] = f"<{type(value).__name__}, not saved>" if told else entry
    return saved


def _publish(staged: Path, final: Path) -> None:
    """Move a finished folder to its place; one that stands there already is replaced."""
    for file in staged.rglob("*"):
        if file.is_file():
            with open(file, "rb") as handle:
                os.fsync(handle.fileno())
    old = final.with_name(f".{final.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        os.replace(final, old)
    os.replace(staged, final)
    shutil.rmtree(old, ignore_errors=True)
