"""Trains as a run file says (run_file.py): `accelerate launch -m trainers.train --config run.yaml`.

What depends on the model and is not given is chosen, printed and recorded: `running/defaults.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

from accelerate import PartialState
from peft import LoraConfig

from llm_marl_envs import make
from llm_marl_envs.commands.exit_status import ending
from llm_marl_envs.core.checks import check_types, refuse_unknown
from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.files.atomic import check_folder
from llm_marl_envs.measure.run_manifest import recording
from llm_marl_envs.policies.named import Context, named_partners
from trainers import run_file
from trainers.config import MAGRPOConfig
from trainers.recipes import prepared
from trainers.run_file import TINY
from trainers.running.defaults import choices, chosen_before
from trainers.running.folder import TEAM, newest_checkpoint, step_of
from trainers.running.resume import checkpoint_to_resume, refuse_occupied
from trainers.trainer import MAGRPOTrainer
from trainers.weights.adapter_checks import check_adapter
from trainers.weights.imported import model_folder
from trainers.weights.team_files import load_config, trusts

LORA_NAMES = {
    "rank": "r",
    "alpha": "lora_alpha",
    "dropout": "lora_dropout",
    "targets": "target_modules",
}


def read_run(config: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The contents of a run file, or of a preset of that name, with overrides applied.

    Args:
        config: as `run_file.read` takes it.
        overrides: as `run_file.read` takes them.

    Raises:
        ValueError: as `run_file.read`, or an unknown setting; near names are given.
    """
    path, run = run_file.read(config, overrides)
    fields = [field.name for field in dataclasses.fields(MAGRPOConfig)]
    given = run.get("trainer") or {}
    where = f"{path}, trainer"
    refuse_unknown(where, given, fields, run_file.COMMON_NAMES, run_file.LISTED)
    adapter_of(run.get("lora"), f"{path}, lora")
    return prepared(run)


def adapter_of(lora: Mapping[str, Any] | None, where: str = "lora") -> LoraConfig | None:
    """The adapters that a `lora` section asks for; None without one.

    Raises:
        ValueError: a key or a value that PEFT does not take.
    """
    if lora is None:
        return None
    fields = {field.name for field in dataclasses.fields(LoraConfig)}
    refuse_unknown(where, lora, fields, LORA_NAMES, "peft.LoraConfig")
    hints = get_type_hints(LoraConfig)
    check_types(where, lora, {name: hints[name] for name in lora})
    try:
        return LoraConfig(**lora)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def build_trainer(run: Mapping[str, Any]) -> MAGRPOTrainer:
    """The trainer that a run file describes.

    Raises:
        ValueError: settings that do not fit together.
    """
    kwargs = dict(run.get("env_kwargs") or {})
    evaluated = run.get("eval_env_kwargs")
    eval_kwargs = {**kwargs, **(evaluated or {})}
    settings = {"output_dir": "runs/train", **(run.get("trainer") or {})}
    args = MAGRPOConfig(**settings)
    adapter = adapter_of(run.get("lora"))
    env_id = run["env"]
    env = make(env_id, **kwargs)  # a wrong argument is said before a model is made
    return MAGRPOTrainer(
        run["model"] if "chosen" in run else models_of(run),
        lambda: make(env_id, **kwargs),
        args,
        peft_config=adapter,
        partners=named_partners(run.get("partners") or {}, Context(env=env)),
        eval_env=None if evaluated is None else (lambda: make(env_id, **eval_kwargs)),
    )


def settled(
    run: Mapping[str, Any], *, say: bool = True, resume: Path | None = None
) -> dict[str, Any]:
    """The run with what its model decides: its folders, and settings that it leaves out.

    Args:
        run: what `read_run` returns.
        say: print what was chosen.
        resume: checkpoint that the run goes on from, where its settings do not name one.

    Returns:
        The run with `model` as `from_pretrained` takes it, and `chosen`: setting -> why.

    Raises:
        ValueError: a wrong setting, before a model is made: that may take long.
    """
    given = dict(run.get("trainer") or {})
    args = MAGRPOConfig(**{"output_dir": "runs/train", **given})
    env = make(run["env"], **(run.get("env_kwargs") or {}))
    run_file.check_seats(run, env.possible_agents)
    if isinstance(run["model"], dict) and args.weights != "separate":
        raise ValueError(
            f"model: a map from policy to model needs weights: separate, not {args.weights!r}"
        )
    _check_before_warm_start(run)
    models = models_of(run)
    chosen = choices(
        given,
        [*dict.fromkeys(models.values())] if isinstance(models, dict) else [models],
        env,
        lora=run.get("lora") is not None,
        turns=getattr(env.unwrapped, "most_actions", None) or args.max_turns or 1,
    )
    if resume is None:
        resume = checkpoint_to_resume(Path(str(args.output_dir)), args.resume_from_checkpoint)
    if resume is not None:
        chosen |= chosen_before(resume, chosen)
    for name, choice in chosen.items():
        given[name] = choice.value
        if say:
            print(f"{name} {choice.value:g}: {choice.why}")
    return {
        **{key: value for key, value in run.items() if key not in ("tiny", "warm_start")},
        "model": models,
        "trainer": given,
        "chosen": {name: choice.why for name, choice in chosen.items()},
    }


def checked_settings(run: Mapping[str, Any]) -> MAGRPOConfig:
    """The trainer's settings, checked before a model is made: that may take long.

    Raises:
        ValueError: a wrong setting, or `output_dir` is a file.
        OSError: `output_dir` cannot be written.
    """
    args = MAGRPOConfig(**{"output_dir": "runs/train", **(run.get("trainer") or {})})
    check_folder(Path(str(args.output_dir)))
    return args


def _check_before_warm_start(run: Mapping[str, Any]) -> None:
    """Refuse adapters that do not fit the model; a warm start takes long."""
    adapter, model = adapter_of(run.get("lora")), run["model"]
    if run.get("warm_start") is not None and adapter is not None and isinstance(model, str):
        trainer = run.get("trainer") or {}
        given = {**trainer, **(trainer.get("model_init_kwargs") or {})}
        trust = trusts(given)
        check_adapter(adapter, load_config(model_folder(model), trust=trust), trust=trust)


def models_of(run: Mapping[str, Any]) -> str | dict[str, str]:
    """The run's `model`, or policy -> model, each as `model_path` has it.

    Of several models, `tiny` is for the embedded ones and `warm_start` for the others.
    """
    model = run["model"]
    if isinstance(model, str):
        return model_path(run)
    others = {**run, "warm_start": None}
    return {
        policy: model_path({**(others if one == TINY else run), "model": one})
        for policy, one in model.items()
    }


def model_path(run: Mapping[str, Any], *, seed: int = 0, fresh: bool = False) -> str:
    """The run's `model`, or the folder of one that is made on first use.

    So are the embedded model ("tiny"), one that is fetched ("smollm2"), and one with `warm_start`.
    A warm start is on the run's environment: as `env_kwargs` say, but on its training tasks.

    Args:
        run: what `read_run` returns.
        seed: of the embedded model where `tiny` does not say.
        fresh: build it anew, see `tiny_model`.

    Raises:
        ValueError: an unknown field under `tiny` or `warm_start`, or a map from policy to model.
    """
    kwargs = {k: v for k, v in (run.get("env_kwargs") or {}).items() if k != "split"}
    if not isinstance(run["model"], str):
        raise ValueError(f"model: expected one for all policies here, got {run['model']!r:.80}")
    if run["model"] != TINY:
        model = model_folder(run["model"])
        if run.get("warm_start") is None:
            return model
        from trainers.weights.warm_start import WarmStart, warm_started

        settings = WarmStart(**{"seed": seed, **run["warm_start"]})
        return warm_started(model, run["env"], kwargs, settings, fresh=fresh)
    if run.get("warm_start") is not None:
        raise ValueError("warm_start with model: tiny: that model has one; see tiny: {steps: ...}")
    from trainers.weights.tiny import TinySettings, tiny_model

    given = {"seed": seed, **(run.get("tiny") or {})}
    own = given.pop("seed")
    if not isinstance(own, int) or isinstance(own, bool):
        raise TypeError(f"tiny: seed={own!r}: expected a whole number")
    return tiny_model(
        seed=own,
        fresh=fresh,
        env_ids=(run["env"],),
        env_kwargs=kwargs,
        settings=TinySettings(**given),
    )


def train(run: Mapping[str, Any]) -> MAGRPOTrainer:
    """Train as a run says, with a manifest in the run's folder; returns the trainer.

    Raises:
        ValueError: settings that do not fit together, or a folder that holds another run.
        Stopped: a signal ended the training; it says what was kept.
    """
    given = checked_settings(run)
    if run.get("warm_start") is not None:  # which takes long, and comes before all other checks
        refuse_occupied(Path(str(given.output_dir)), given.resume_from_checkpoint)
    asked = run
    run = settled(run, say=PartialState().is_main_process)
    trainer = build_trainer(run)
    args = trainer.args
    resume = args.resume_from_checkpoint
    trainer.check_folder(resume)  # before the manifest is touched
    with recording(
        str(args.output_dir) if trainer.accelerator.is_main_process else None,
        "train",
        # What was asked for, and the folders that came of it: a cache's say nothing elsewhere.
        {**asked, "folders": run["model"], "chosen": run["chosen"], "trainer": args.to_dict()},
        env_id=run["env"],
        env_kwargs=run.get("env_kwargs"),
    ) as costs:
        try:
            trainer.train(resume)
            if trainer.stopped:
                raise Stopped(signum=trainer.interrupt.signum or signal.SIGINT)
        except KeyboardInterrupt as stop:
            raise _stopped(trainer, stop) from stop
        finally:
            costs.tokens, costs.counts = trainer.costs.tokens or None, asdict(trainer.costs)
    return trainer


def _stopped(trainer: MAGRPOTrainer, stop: KeyboardInterrupt) -> Stopped:
    """The same stop, which says at which update and what was kept."""
    made = trainer.state.global_step
    newest = newest_checkpoint(Path(str(trainer.args.output_dir)))
    said = f"stopped at update {made} of {trainer.state.max_steps}"
    if newest is None:
        said += "; no checkpoint was written"
    elif step_of(newest) != made:
        said += f"; the newest checkpoint is {newest.name}"
    stopped = Stopped(said, signum=getattr(stop, "status", 128 + signal.SIGINT) - 128)
    stopped.resumable = newest is not None
    return stopped


def run_train(
    config: str | Path, overrides: Sequence[str] = (), command: str = "llm-marl train"
) -> Path:
    """Train as a run file says; returns the folder of the saved team.

    An interrupted run goes on with `--override resume_from_checkpoint=true`.

    Args:
        config: as `read_run` takes it.
        overrides: as `read_run` takes them.
        command: what the user called, for the words that say how to go on.

    Raises:
        ValueError: as `train`.
        Stopped: as `train`; it says how to go on.
    """
    try:
        trainer = train(read_run(config, overrides))
    except Stopped as stop:
        if stop.resumable:
            resume = ("resume_from_checkpoint=", "trainer.resume_from_checkpoint=")
            kept = [one for one in overrides if not one.startswith(resume)]
            words = [f"--override {shlex.quote(o)}" for o in (*kept, "resume_from_checkpoint=true")]
            again = f"{command} --config {shlex.quote(str(config))} {' '.join(words)}"
            raise Stopped(f"{stop.said}; go on with: {again}", stop.status - 128) from stop
        raise
    folder = Path(str(trainer.args.output_dir)) / TEAM
    trainer.save_team(folder)
    if trainer.accelerator.is_main_process:
        print(f"team saved to {folder}")
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `accelerate launch -m trainers.train`; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="trainers.train",
        description="Train a team as a YAML file says.",
        epilog="example: accelerate launch -m trainers.train --config coop_coding_tiny",
    )
    parser.add_argument("--config", required=True, help="a YAML file or the name of a preset")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)

    def run() -> None:
        run_train(options.config, options.override, "accelerate launch -m trainers.train")

    return ending(run, "trainers.train")


if __name__ == "__main__":
    sys.exit(main())
