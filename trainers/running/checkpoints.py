"""Checkpoints of a team: complete or absent, and resumed bit for bit.

A checkpoint is a folder that `load_team` can load, plus optimiser, scheduler, random states, the
position inside the rollout buffer (without it `num_iterations > 1` would resume differently) and
the algorithm's state. What is in them is the trainer's; how they are written, and who may, is here.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import rotate_checkpoints

from trainers.config import MAGRPOConfig
from trainers.running.costs import costs_of
from trainers.running.run_folder import SETTINGS_FILE, BusyError, Run, alone, write_settings

STATE_FILE = "magrpo_state_{rank}.pt"
STAGING = ".partial-checkpoint"
SECONDS_TO_SEE = 10


class Checkpoints:
    """The folder of a run while a trainer works in it.

    Attributes:
        staging: the folder in which a checkpoint is being written; None while none is.
    """

    def __init__(
        self, args: MAGRPOConfig, accelerator: Accelerator, this_run: Callable[[], Run]
    ) -> None:
        self.args = args
        self.accelerator = accelerator
        self.this_run = this_run
        self.staging: str | None = None

    def check(self, resume: Any) -> Path | None:
        """Whether `train(resume)` may begin; the checkpoint that it would go on from.

        Raises:
            ValueError: the folder holds a run, or the checkpoint is of another one.
        """
        return self._decided(lambda: self.this_run().check(resume))

    @contextmanager
    def held(self, resume: Any) -> Iterator[Path | None]:
        """Hold the run's folder while the block runs; yields the checkpoint to go on from.

        Raises:
            ValueError: as `check`; another process trains there; one of this run does not see it.
        """
        with ExitStack() as held:

            def begin() -> Path | None:
                run = self.this_run()
                checkpoint = run.check(resume)
                held.enter_context(alone(run.folder))
                write_settings(run.folder, run.settings)
                return checkpoint

            checkpoint = self._decided(begin)
            self._see(Path(str(self.args.output_dir)) / SETTINGS_FILE)
            yield checkpoint

    def _see(self, file: Path) -> None:
        """Every process must see what the main one wrote, or a checkpoint would be in parts."""
        for _ in range(SECONDS_TO_SEE):  # a network's file system may be late
            if file.is_file():
                break
            time.sleep(1)
        blind = [] if file.is_file() else [self.args.process_index]
        if self.args.world_size > 1:
            blind = gather_object(blind)
        if blind:
            raise ValueError(
                f"processes {blind} do not see {file.absolute()}: every node must see output_dir "
                "under the same path; choose a folder of a file system that they share"
            )

    def _decided(self, decide: Callable[[], Path | None]) -> Path | None:
        """What the main process decides; its refusal is everybody's."""
        said: list[Any] = [None, None]
        if self.accelerator.is_main_process:
            try:
                said[0] = decide()
            except BusyError as error:
                said[1] = ValueError(str(error))
            except (ValueError, OSError) as error:
                said[1] = error
        if self.args.world_size > 1:
            broadcast_object_list(said)
        if said[1] is not None:
            raise said[1]
        return said[0]

    def last_state(self, checkpoint: Path | None) -> TrainerState | None:
        """The state of a checkpoint of a run that is over; None if there is something to train.

        Transformers would take one more step, because it looks for the end only after a step.
        """
        if checkpoint is None:
            return None
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        over = state.global_step >= self.this_run().updates
        if not over and self.args.max_tokens is not None:
            kept = self.read(checkpoint, rank=0)
            between = kept["buffer"] is None  # all of the last rollout was learned from
            over = between and costs_of(kept).tokens >= self.args.max_tokens
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
        """
        main, staging = self.accelerator.is_main_process, run_dir / STAGING
        name = f"checkpoint-{state.global_step}"
        self.staging = str(staging)
        if main:
            shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            write()
            self._name_best(run_dir, state)
            torch.save(own(), staging / name / STATE_FILE.format(rank=self.args.process_index))
            self.accelerator.wait_for_everyone()
            if main:
                _publish(staging / name, run_dir / name)
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
        path = run_dir / f"checkpoint-{best}"
        if best and (best == state.global_step or path.is_dir()):
            state.best_model_checkpoint = str(path)
        if self.args.should_save:
            name = f"checkpoint-{state.global_step}"
            state.save_to_json(str(run_dir / STAGING / name / TRAINER_STATE_NAME))

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
