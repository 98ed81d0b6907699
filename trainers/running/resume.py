"""How a run begins or goes on: from which checkpoint, and when that is refused.

A folder holds one run (`folder.py`), and a run goes on with the settings that it began with
(`same_run.py`). What a checkpoint holds, and how it is read back, is in `checkpoints.py`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from transformers.trainer import OPTIMIZER_NAME, TRAINER_STATE_NAME

from llm_marl_envs.files.json_files import read_json
from trainers.running.folder import (
    SETTINGS_FILE,
    BusyError,
    alone,
    has_begun,
    newest_checkpoint,
    newest_or_cleared,
    was_cut_off,
)
from trainers.running.same_run import (
    differences,
    planned_updates,
    recorded_settings,
    write_settings,
)

MOST_SHOWN = 12
SECONDS_TO_SEE = 10


def checkpoint_to_resume(folder: Path, resume: Any) -> Path | None:
    """The checkpoint that a run goes on from; None for a run that begins.

    Args:
        folder: of the run.
        resume: None or False; True for the newest checkpoint in the folder; or a checkpoint. Where
            a run was killed before its first one, True begins anew.

    Raises:
        ValueError: there is no such checkpoint.
    """
    if resume is None or resume is False or (resume is True and was_cut_off(folder)):
        return None
    checkpoint = newest_checkpoint(folder) if resume is True else Path(str(resume))
    if checkpoint is None:
        begun = has_begun(folder)
        why = "with save_strategy='no' a run leaves none, unless a signal stops it"
        raise ValueError(
            f"{folder} holds no checkpoint to go on from "
            f"({why if begun else 'no run has made an update there'}): begin without "
            f"resume_from_checkpoint{', in another output_dir' if begun else ''}"
        )
    if not (checkpoint / TRAINER_STATE_NAME).is_file():
        what = "no checkpoint" if checkpoint.is_dir() else "no such folder"
        raise ValueError(
            f"resume_from_checkpoint: {checkpoint}: {what}; expected a folder checkpoint-N of "
            "a run, or true for the newest in output_dir"
        )
    return checkpoint


def refuse_occupied(folder: Path, resume: Any) -> None:
    """Refuse to begin in a folder that holds a run to go on with, before a model is made for it.

    What differs between the two runs is said by `Run.check`, which needs the model.

    Args:
        folder: of the run.
        resume: as `checkpoint_to_resume` takes it.

    Raises:
        ValueError: the folder holds a run, and this one begins.
    """
    if not resume and has_begun(folder) and not was_cut_off(folder):
        go_on = "go on with resume_from_checkpoint=true, " if newest_checkpoint(folder) else ""
        raise ValueError(
            f"{folder} holds a run already: {go_on}give another output_dir, or delete it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that is about to begin or go on.

    Attributes:
        folder: its `output_dir`.
        settings: as `same_run.settings_of` makes them.
        per_epoch: optimizer steps of an epoch.
    """

    folder: Path
    settings: Mapping[str, Any]
    per_epoch: int

    @property
    def updates(self) -> int:
        """How many are planned."""
        return planned_updates(self.settings, self.per_epoch)

    def check(self, resume: Any) -> Path | None:
        """The checkpoint to go on from, None for a run that begins; nothing is written.

        Args:
            resume: as `checkpoint_to_resume` takes it.

        Raises:
            ValueError: the folder or the checkpoint is of another run, this run begins and the
                folder holds it already with something to go on from or with its end, or there is no
                such checkpoint.
        """
        checkpoint = checkpoint_to_resume(self.folder, resume)
        if checkpoint is not None:
            self._check_optimizer(checkpoint)
            self._check_same(checkpoint)
            self._warn_of_schedule(checkpoint)
        if has_begun(self.folder) or (resume is True and checkpoint is None):
            self._check_same(self.folder)
            if checkpoint is None and not was_cut_off(self.folder):
                newest = newest_checkpoint(self.folder)
                kept = f"its newest is {newest.name}" if newest else "without a checkpoint"
                go_on = "go on with resume_from_checkpoint=true, " if newest else ""
                raise ValueError(
                    f"{self.folder} holds this run of {self.updates} updates already, {kept}: "
                    f"{go_on}give another output_dir, or delete it"
                )
        return checkpoint

    def _check_optimizer(self, checkpoint: Path) -> None:
        step = read_json(checkpoint / TRAINER_STATE_NAME).get("global_step", 0)
        if step < self.updates and not (checkpoint / OPTIMIZER_NAME).is_file():
            raise ValueError(
                f"{checkpoint} holds no optimiser (save_only_model=true): it can be loaded as a "
                "team, and no run can go on from it"
            )

    def _check_same(self, place: Path) -> None:
        other = differences(recorded_settings(place), self.settings, self.per_epoch)
        if other:
            more = len(other) - MOST_SHOWN
            shown = "; ".join(other[:MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
            raise ValueError(
                f"{place} holds another run ({shown}): go on with the settings that it began "
                "with, or begin another run in another output_dir; only more updates, paths, "
                "logging, saving and the times of evaluation may change"
            )

    def _warn_of_schedule(self, checkpoint: Path) -> None:
        now = self.settings["trainer"]
        planned = planned_updates(recorded_settings(checkpoint), self.per_epoch)
        constant = now["lr_scheduler_type"] == "constant" or (
            now["lr_scheduler_type"] == "constant_with_warmup" and now["warmup_steps"] >= 1
        )
        if self.updates > planned and not constant:
            warnings.warn(
                f"{self.updates} updates instead of {planned}: the schedule "
                f"{now['lr_scheduler_type']!r} spans them all, so the learning rate jumps here "
                f"and the run is not the one that {self.updates} updates from the start would be; "
                "lr_scheduler_type='constant' has no such jump",
                stacklevel=2,
            )

    @contextmanager
    def held(self, resume: Any, accelerator: Accelerator) -> Iterator[Path | None]:
        """Hold the run's folder while the block runs; yields the checkpoint to go on from.

        Raises:
            ValueError: as `check`; another process trains there; one of this run does not see it.
        """
        with ExitStack() as held:

            def begin() -> Path | None:
                checkpoint = self.check(resume)
                held.enter_context(alone(self.folder))
                if checkpoint is None and has_begun(self.folder):
                    newest_or_cleared(self.folder)
                    warnings.warn(
                        f"{self.folder}: this run was ended before its first checkpoint; its log "
                        "and transcripts are removed, and it begins anew",
                        stacklevel=2,
                    )
                write_settings(self.folder, self.settings)
                return checkpoint

            checkpoint = decided(accelerator, begin)
            _see(self.folder / SETTINGS_FILE, accelerator)
            yield checkpoint


def decided(accelerator: Accelerator, decide: Callable[[], Path | None]) -> Path | None:
    """What the main process decides; its refusal is everybody's."""
    decision: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            decision[0] = decide()
        except BusyError as error:
            decision[1] = ValueError(str(error))
        except (ValueError, OSError) as error:
            decision[1] = error
    if accelerator.num_processes > 1:
        broadcast_object_list(decision)
    if decision[1] is not None:
        raise decision[1]
    return decision[0]


def _see(file: Path, accelerator: Accelerator) -> None:
    """Every process must see what the main one wrote, or a checkpoint would be in parts."""
    for _ in range(SECONDS_TO_SEE):  # a network's file system may be late
        if file.is_file():
            break
        time.sleep(1)
    blind = [] if file.is_file() else [accelerator.process_index]
    if accelerator.num_processes > 1:
        blind = gather_object(blind)
    if blind:
        raise ValueError(
            f"processes {blind} do not see {file.absolute()}: every node must see output_dir "
            "under the same path; choose a folder of a file system that they share"
        )
