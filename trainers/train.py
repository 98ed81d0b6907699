"""A training run from one YAML file: `accelerate launch -m trainers.train --config run.yaml`.

Owns the format of the file and nothing else. A run file has these keys:

    model: tiny                      # the embedded model, or what from_pretrained takes
    tiny: {steps: 1500, seed: 0}     # for model: tiny: fields of TinySettings, and its seed
    env: coop_coding-v0
    env_kwargs: {split: train}       # arguments of make()
    eval_env_kwargs: {split: val}    # absent: no evaluation during training
    lora: {r: 16, lora_alpha: 32, target_modules: all-linear}    # absent: train all weights
    partners: {helper_0: expert}     # seats not trained: expert, expert:<convention>, random
    trainer: {output_dir: runs/x, learning_rate: 1e-3, ...}      # fields of MAGRPOConfig
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from peft import LoraConfig

from llm_marl_envs import make
from llm_marl_envs.evaluation.manifest import recording
from llm_marl_envs.policies import ExpertPolicy, Policy, RandomPolicy
from trainers.config import MAGRPOConfig
from trainers.trainer import MAGRPOTrainer

KEYS = ("model", "tiny", "env", "env_kwargs", "eval_env_kwargs", "lora", "partners", "trainer")
TINY = "tiny"


class YAMLLoader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-3` as text; people mean a number."""


YAMLLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)|[-+]?\d+\.\d*|[-+]?\.\d+"),
    list("-+0123456789."),
)


def read_run(config: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The contents of a run file, or of a preset of that name, with overrides applied.

    Args:
        config: a path, or a name in `trainers/presets`.
        overrides: "key=value"; a dotted key goes into a section ("env_kwargs.turns=2"), one that
            is no key of the file is a field of `trainer`.

    Raises:
        ValueError: no such file, malformed YAML, or an unknown key; near names are given.
    """
    path = _run_file(config)
    try:
        run = yaml.load(path.read_text(encoding="utf-8"), YAMLLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: malformed YAML: {error}") from error
    if not isinstance(run, dict):
        raise ValueError(f"{path}: expected a map with keys among {KEYS}")
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ValueError(f"--override {override!r}: expected key=value")
        value = yaml.load(text, YAMLLoader)
        section, dot, name = key.partition(".")
        if dot:
            run.setdefault(section, {})
            if not isinstance(run[section], dict):
                raise ValueError(f"--override {override!r}: {section!r} is no section")
            run[section][name] = value
        elif key in KEYS:
            run[key] = value
        else:
            run.setdefault("trainer", {})[key] = value
    refuse_unknown(path, run, KEYS)
    fields = [field.name for field in dataclasses.fields(MAGRPOConfig)]
    refuse_unknown(f"{path}, trainer", run.get("trainer") or {}, fields)
    for needed in ("model", "env"):
        if not isinstance(run.get(needed), str):
            raise ValueError(f"{path}: needs {needed!r}, a text")
    return run


def _run_file(config: str | Path) -> Path:
    if Path(config).is_file():
        return Path(config)
    presets = Path(str(resources.files("trainers") / "presets"))
    names = sorted(file.stem for file in presets.glob("*.yaml"))
    if str(config) in names:
        return presets / f"{config}.yaml"
    raise ValueError(f"config {str(config)!r}: no such file, and no preset; presets: {names}")


def refuse_unknown(where: Any, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise a ValueError that names the first unknown key and a near known one."""
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {sorted(known)}"
            raise ValueError(f"{where}: unknown key {key!r}{hint}")


def build_trainer(run: Mapping[str, Any]) -> MAGRPOTrainer:
    """The trainer that a run file describes.

    Raises:
        ValueError: settings that do not fit together.
    """
    kwargs = dict(run.get("env_kwargs") or {})
    eval_kwargs = run.get("eval_env_kwargs")
    settings = {"output_dir": "runs/train", **(run.get("trainer") or {})}
    args = MAGRPOConfig(**settings)
    lora = run.get("lora")
    env_id = run["env"]
    return MAGRPOTrainer(
        model_path(run),
        lambda: make(env_id, **kwargs),
        args,
        peft_config=None if lora is None else LoraConfig(**lora),
        partners=scripted_partners(run.get("partners") or {}, make(env_id, **kwargs)),
        eval_env=None if eval_kwargs is None else (lambda: make(env_id, **eval_kwargs)),
    )


def model_path(run: Mapping[str, Any], *, seed: int = 0, fresh: bool = False) -> str:
    """The run's `model`, or the folder of the embedded model for "tiny" (built on first use).

    The embedded model is warm-started on the run's environment: as `env_kwargs` say, but on its
    training tasks.

    Args:
        run: what `read_run` returns.
        seed: of the embedded model where `tiny` does not say.
        fresh: build it anew, see `tiny_model`.

    Raises:
        ValueError: an unknown field under `tiny`.
    """
    if run["model"] != TINY:
        return run["model"]
    from trainers.tiny import TinySettings, tiny_model

    given = {"seed": seed, **(run.get("tiny") or {})}
    fields = [field.name for field in dataclasses.fields(TinySettings)]
    refuse_unknown("tiny", given, ["seed", *fields])
    kwargs = {k: v for k, v in (run.get("env_kwargs") or {}).items() if k != "split"}
    return tiny_model(
        seed=given.pop("seed"),
        fresh=fresh,
        env_ids=(run["env"],),
        env_kwargs=kwargs,
        settings=TinySettings(**given),
    )


def scripted_partners(named: Mapping[str, str], env: Any) -> dict[str, Policy]:
    """Policies for seats that are not trained.

    Raises:
        ValueError: another name than "expert", "expert:<convention>" or "random".
    """
    partners: dict[str, Policy] = {}
    for agent, name in named.items():
        kind, _, convention = str(name).partition(":")
        if kind == "random" and not convention:
            partners[agent] = RandomPolicy()
        elif kind == "expert":
            partners[agent] = ExpertPolicy(env, convention or None)
        else:
            raise ValueError(
                f"partner {name!r} of {agent}: expected 'expert', 'expert:<convention>' or 'random'"
            )
    return partners


def train(run: Mapping[str, Any]) -> MAGRPOTrainer:
    """Train as a run says, with a manifest in the run's folder; returns the trainer."""
    trainer = build_trainer(run)
    resume = trainer.args.resume_from_checkpoint
    with recording(
        str(trainer.args.output_dir),
        "train",
        {**run, "trainer": trainer.args.to_dict()},
        env_id=run["env"],
        env_kwargs=run.get("env_kwargs"),
        write=trainer.accelerator.is_main_process,
    ) as costs:
        try:
            trainer.train(True if resume in (True, "true", "True") else resume)
        finally:
            costs.tokens = trainer.sampled_tokens or None
    return trainer


def run_train(config: str | Path, overrides: Sequence[str] = ()) -> Path:
    """Train as a run file says; returns the folder of the saved team.

    An interrupted run goes on with `--override resume_from_checkpoint=true`.
    """
    trainer = train(read_run(config, overrides))
    folder = Path(str(trainer.args.output_dir)) / "team"
    if trainer.accelerator.is_main_process:
        trainer.save_team(folder)
        print(f"team saved to {folder}")
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `accelerate launch -m trainers.train`."""
    parser = argparse.ArgumentParser(
        prog="trainers.train",
        description="Train a team as a YAML file says.",
        epilog="example: accelerate launch -m trainers.train --config coop_coding_tiny",
    )
    parser.add_argument("--config", required=True, help="a YAML file or the name of a preset")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    run_train(options.config, options.override)


if __name__ == "__main__":
    main()
