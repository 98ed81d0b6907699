"""Checkpoints of a team: complete or absent, written aside and renamed, read back bit for bit.

A checkpoint is a folder that `load_team` can load, plus the settings of the run (`same_run.py`),
optimiser, scheduler, random states, past selves, and what each process keeps: the position inside
the rollout buffer (without it `num_iterations > 1` would resume differently), the algorithm's
state, costs and failed episodes. `MAGRPOTrainer._own_state` lists the latter, `_go_on` takes it
back. Whether a run may go on from a checkpoint is decided before, in `resume.py`.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import rotate_checkpoints

from llm_marl_envs.files.atomic import naming
from trainers.config import MAGRPOConfig
from trainers.running.costs import Costs
from trainers.running.folder import STAGING, checkpoint_after
from trainers.running.processes import Processes
from trainers.weights.sharding import part

STATE_FILE = "magrpo_state_{rank}.pt"


class Checkpoints:
    """Writes and reads a run's checkpoints; every process calls it at the same time.

    Attributes:
        staging: the folder in which a checkpoint is being written; None while none is.
    """

    def __init__(self, args: MAGRPOConfig, accelerator: Accelerator) -> None:
        self.args = args
        self.accelerator = accelerator
        self.staging: str | None = None

    def ended(self, checkpoint: Path, updates: int) -> TrainerState | None:
        """The state of a run that is over; None if there is something to train.

        Transformers would take one more step, because it looks for the end only after a step.

        Args:
            checkpoint: of the run.
            updates: that are planned.
        """
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        over = state.global_step >= updates
        if not over and self.args.max_tokens is not None:
            kept = self.read(checkpoint, rank=0)
            between = kept["buffer"] is None  # all of the last rollout was learned from
            over = between and Costs(**kept["costs"]).tokens >= self.args.max_tokens
        return state if over else None

    def write(
        self,
        run_dir: Path,
        state: TrainerState,
        write: Callable[[], None],
        own: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Write the checkpoint aside and rename it.

        `write` writes the trainer's part into `staging`; `own` is what this process keeps beside
        it. Afterwards `state` names the best checkpoint by its final place.

        Raises:
            OSError: the disk is full; the message names the file.
            RuntimeError: on another process.
        """
        main, staging = self.accelerator.is_main_process, run_dir / STAGING
        staged = checkpoint_after(staging, state.global_step)
        self.staging = str(staging)
        if main:
            shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        failed: Exception | None = None
        try:
            try:
                with naming(staged, run_dir / staged.name):
                    write()
                    self._name_best(run_dir, state)
                    torch.save(own(), staged / STATE_FILE.format(rank=self.args.process_index))
            except OSError as error:  # the others would wait for this process for ever
                failed = error
            Processes(self.accelerator).stop(failed)
            if main:
                _publish(staged, run_dir / staged.name)
        finally:
            self.staging = None
            if main:  # the others may still be writing, or be done
                shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            rotate_checkpoints(
                output_dir=str(run_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=state.best_model_checkpoint,
                use_mtime=False,
            )
        self.accelerator.wait_for_everyone()

    def _name_best(self, run_dir: Path, state: TrainerState) -> None:
        """Let the state name the best checkpoint by its final place, not by the staging folder."""
        best = state.best_global_step
        path = checkpoint_after(run_dir, best or 0)
        if best and (best == state.global_step or path.is_dir()):
            state.best_model_checkpoint = str(path)
        if self.args.should_save:
            staged = checkpoint_after(run_dir / STAGING, state.global_step)
            state.save_to_json(str(staged / TRAINER_STATE_NAME))

    def read(self, checkpoint: str | Path, rank: int) -> dict[str, Any]:
        """What one process kept beside weights and optimiser.

        Raises:
            ValueError: there is no such file.
        """
        path = Path(checkpoint) / STATE_FILE.format(rank=rank)
        if not path.is_file():
            raise ValueError(
                f"{checkpoint} has no {path.name}: it was not written by this trainer, or by a run "
                "with fewer processes"
            )
        # Several processes on a CPU call it "cpu:0", which torch cannot restore.
        place = self.accelerator.device
        where = torch.device("cpu") if place.type == "cpu" else place
        return torch.load(path, map_location=where, weights_only=True)

    def read_on(self, checkpoint: str, now: Mapping[str, Any]) -> dict[str, Any]:
        """What this process kept, where it can go on from it; `now` is what it would keep now.

        Raises:
            ValueError: positions count in other units, or a KL term pulls to other weights.
        """
        then = self.read(checkpoint, self.args.process_index)
        if then["split"] != now["split"]:
            raise ValueError(
                f"{checkpoint} was written with {then['split']}, this run has {now['split']}: "
                "resume with the same settings and number of processes"
            )
        if then["start"] != now["start"]:
            raise ValueError(
                f"{checkpoint} was trained with its KL term or frozen seats at other weights: "
                "resume with the model, seed, beta and frozen seats that the run began with"
            )
        return then


def all_finite(kept: Any) -> bool:
    """Whether no number in these tensors, lists and maps is a NaN or infinite."""
    if isinstance(kept, torch.Tensor):
        return bool(torch.isfinite(part(kept)).all())
    if isinstance(kept, Mapping):
        return all(map(all_finite, kept.values()))
    if isinstance(kept, (list, tuple)):
        return all(map(all_finite, kept))
    return not isinstance(kept, float) or math.isfinite(kept)


def on_host(kept: Any) -> Any:
    """A copy that later steps do not change, its tensors in the memory of the processor."""
    if isinstance(kept, torch.Tensor):
        return kept.detach().to("cpu", copy=True)
    if isinstance(kept, Mapping):
        return {key: on_host(value) for key, value in kept.items()}
    if isinstance(kept, (list, tuple)):
        return type(kept)(map(on_host, kept))
    return copy.deepcopy(kept)


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
