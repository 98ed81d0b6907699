"""Checkpoints of a team: complete or absent, and resumed bit for bit.

The methods of transformers' trainer that write and read checkpoints, as a mixin. A checkpoint is a
folder that `load_team` can load, plus optimiser, scheduler, random states, the position inside the
rollout buffer (without it `num_iterations > 1` would resume differently) and the algorithm's state.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list
from peft import PeftConfig
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput, rotate_checkpoints

from llm_marl_envs.policies import Policy
from llm_marl_envs.specs import env_arguments, env_name
from trainers.models.model_card import training_facts
from trainers.models.team_files import save_team
from trainers.running.run_folder import (
    BusyError,
    Run,
    alone,
    environments_of,
    saved_arguments,
    settings_of,
    write_settings,
)
from trainers.update.collect import FailureWindow

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer as Base

    from trainers.algorithms import Algorithm
    from trainers.config import MAGRPOConfig
    from trainers.models.team_model import TeamModel
    from trainers.models.token_policy import TokenPolicy
    from trainers.update.collect import Collector
    from trainers.update.packing import PackPlan
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
    prompt_tokens: int | None
    failures: FailureWindow
    partners: dict[str, Policy]
    make_eval_env: Callable[[], Any] | None
    origin: dict[str, str]
    peft_given: PeftConfig | None
    _staging: str | None = None

    def env_description(self) -> dict[str, Any]:
        """What the team plays, as `team.json` keeps it."""
        env, template = self.collector.env, self.token_policy.template_kwargs
        return {
            "env_id": env_name(env),
            "env_kwargs": saved_arguments(env_arguments(env)),
            "max_completion_length": self.args.max_completion_length,
            **({"chat_template_kwargs": dict(template)} if template else {}),
        }

    def save_team(self, folder: str | Path) -> None:
        """Write the team so that `load_team`, PEFT or Transformers can load it."""
        trained = training_facts(self.args.algorithm, self.state)
        save_team(self.team, folder, env=self.env_description(), trained=trained)

    def create_model_card(
        self, model_name: str | None = None, dataset_name: str | None = None, tags: Any = None
    ) -> None:
        """Nothing: TRL's card knows neither team nor environment; `save_team` writes true ones."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self.args.should_save:
            folder = Path(str(output_dir or self.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            self.save_team(folder)
            write_settings(folder, self.this_run().settings)
            torch.save(self.args, folder / "training_args.bin")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        for policy in self.team.policies:
            self.team.load_policy(policy, Path(resume_from_checkpoint) / policy)
        self.team.activate(self.team.policies[0])

    # -- the folder -------------------------------------------------------------------------------
    def this_run(self) -> Run:
        """What is about to be trained, and where."""
        settings = settings_of(
            model=self.origin,
            environments=self._environments,
            peft_config=self.peft_given,
            partners=self.partners,
            args=self.args,
        )
        per_epoch = self.collector.schedule.updates_per_epoch * self.args.num_iterations
        return Run(folder=Path(str(self.args.output_dir)), settings=settings, per_epoch=per_epoch)

    @cached_property
    def _environments(self) -> dict[str, Any]:
        eval_env = None if self.make_eval_env is None else self.make_eval_env()
        return environments_of(self.collector.env, eval_env)

    def check_folder(self, resume: Any = None) -> Path | None:
        """Whether `train(resume)` may begin; the checkpoint that it would go on from.

        Raises:
            ValueError: the folder holds a run, or the checkpoint is of another one.
        """
        return self._decided(lambda: self.this_run().check(resume))

    @contextmanager
    def own_folder(self, resume: Any) -> Iterator[Path | None]:
        """Hold the run's folder while the block runs; yields the checkpoint to go on from.

        Raises:
            ValueError: as `check_folder`, or another process trains there.
        """
        with ExitStack() as held:

            def begin() -> Path | None:
                run = self.this_run()
                checkpoint = run.check(resume)
                held.enter_context(alone(run.folder))
                write_settings(run.folder, run.settings)
                return checkpoint

            yield self._decided(begin)

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

    def _load_finished(self, checkpoint: Path | None) -> TrainOutput | None:
        """Load a checkpoint of a run that is over; None if there is something left to train.

        Transformers would take one more step, because it looks for the end only after a step.
        """
        if checkpoint is None:
            return None
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if state.global_step < self.this_run().updates:
            return None
        self._load_from_checkpoint(str(checkpoint))
        self.state = state
        # Every process counts the tokens of all; there may have been fewer processes then.
        self._resume_counts(self._read_own_state(str(checkpoint), rank=0))
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
                "prompt_tokens": self.prompt_tokens,
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

    def _resume_counts(self, state: Mapping[str, Any]) -> None:
        """Go on counting; releases that did not count prompt tokens left no number of them."""
        self.sampled_tokens = state["sampled_tokens"]
        self.prompt_tokens = state.get("prompt_tokens")

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
        self._resume_counts(state)
        self.algorithm.load_state_dict(state["algorithm"])
        # Not in checkpoints of releases that knew no failed episodes.
        self.failures = FailureWindow(tuple(tuple(one) for one in state.get("failures", ())))


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
