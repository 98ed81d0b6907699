"""When two runs are the same: where all settings agree that decide what is learned.

Owns `settings.json`: what stands in it, how it is written and read, and how two are compared.
`FREE` lists the settings that may differ. More updates are allowed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig

from llm_marl_envs import __version__
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import plain
from llm_marl_envs.core.specs import env_arguments, env_name
from llm_marl_envs.files.json_files import differing, read_json, write_json
from llm_marl_envs.measure.run_manifest import HASHED_TASKS, sha256
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.named import identity_of
from trainers.config import MAGRPOConfig
from trainers.engines.registry import engine_class
from trainers.running.folder import SETTINGS_FILE
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_model import TeamModel

VERSION = 1
"""Of the file's form."""
FREE = re.compile(
    # where it lies and what it is called
    r"output_dir|run_name|recipe|project|trackio_.*|hub_.*|push_to_hub|resume_from_checkpoint"
    # what is logged, saved and measured when
    r"|logging_(?!nan).*|log_.*|report_to|disable_tqdm|include_num_input_tokens_seen|debug"
    r"|transcript_every|compare_sampling|num_completions_to_print|skip_memory_metrics|do_.*"
    r"|save_.*|enable_jit_checkpoint|metric_for_best_model|greater_is_better"
    r"|eval_(?!tasks).*|per_device_eval_batch_size|prediction_loss_only"
    # how many updates (compared as a number of updates), and when a run gives up
    r"|max_steps|max_tokens|num_train_epochs|max_failed_share|max_update_tokens"
    # where it runs; the number of processes is compared where it matters
    r"|use_cpu|local_rank|ddp_.*|dataloader_.*"
    # of an engine: what counts of it stands under `engine`
    r"|vllm_.*"
    # what the trainer derives from the other sizes
    r"|per_device_train_batch_size|gradient_accumulation_steps|steps_per_generation"
    r"|generation_batch_size"
)
"""Settings of the trainer that a run may go on without or with other values of."""


def settings_of(
    *,
    model: Mapping[str, str],
    environments: Mapping[str, Any],
    peft_config: PeftConfig | None,
    partners: Mapping[str, Policy],
    args: MAGRPOConfig,
) -> dict[str, Any]:
    """The settings of a run, as JSON values; keys are those of a run file.

    `model` is what `origin` returns, `environments` what `environments_of` returns.
    """
    return {
        "model": dict(model),
        **environments,
        "lora": None if peft_config is None else _adapter(peft_config),
        "partners": {agent: identity_of(policy) for agent, policy in partners.items()},
        "trainer": {
            **json.loads(json.dumps(plain(args.to_dict()))),
            "engine": sampled_by(args),
        },
    }


def sampled_by(args: MAGRPOConfig) -> str | dict[str, Any]:
    """What an engine changes in what is learned: its name, and more where it samples elsewhere.

    Where its servers are changes nothing, and an exact one is not corrected for.
    """
    kind, settings = engine_class(args.engine)
    if not kind.remote:
        return kind.name
    exact = settings.get("exact", False)
    named = ("correction", "mode", "clip_min", "clip_max")
    keys = {name: f"vllm_importance_sampling_{name}" for name in named}
    corrected = {} if exact else {name: getattr(args, key) for name, key in keys.items()}
    return {"name": kind.name, "exact": exact, **corrected}


def environments_of(env: Any, eval_env: Any) -> dict[str, Any]:
    """What a run is played and measured in; `eval_env` is None without evaluation."""
    return {**_environment("env", env), **_environment("eval_env", eval_env)}


def _environment(key: str, env: Any) -> dict[str, Any]:
    """Its name, arguments and tasks; None for all where there is no environment."""
    parts = {"": env_name, "_kwargs": lambda env: _saved(env_arguments(env)), "_tasks": _tasks}
    return {f"{key}{end}": None if env is None else part(env) for end, part in parts.items()}


def _saved(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON; what JSON cannot hold is named by its type, which `make` refuses."""
    saved = {}
    for name, value in arguments.items():
        entry = plain(value)
        unknown = " object>" in repr(entry)  # as `plain` writes what it does not know
        saved[name] = f"<{type(value).__name__}, not saved>" if unknown else entry
    return saved


def _tasks(env: Any) -> str | None:
    """A hash of the number of tasks and of what seats hear of the first; None if foreign."""
    source, inner = task_source(env), getattr(env, "unwrapped", env)
    if source is None:
        return None
    openings = [inner.first_words(source[i]) for i in range(min(HASHED_TASKS, len(source)))]
    return sha256(repr((len(source), inner.max_turns, openings)))


def origin(team: TeamModel) -> dict[str, str]:
    """The names of the models that a team begins with, and a hash of a sample of their weights.

    64 numbers of every tensor: another model, or one that was trained, differs in all of them.
    """
    adapters = isinstance(team, AdapterWeights)
    trained = {id(p) for one in team.policies for p in team.parameters(one)} if adapters else set()
    models = {id(model): model for model in map(team.model_of, team.policies)}.values()
    digest = hashlib.sha256()
    for model in models:
        for parameter in model.parameters():
            if id(parameter) not in trained:
                flat = parameter.detach().reshape(-1)
                some = flat[:: max(1, flat.numel() // 64)].cpu().contiguous()
                digest.update(f"{tuple(parameter.shape)} {parameter.dtype}".encode())
                digest.update(some.view(torch.uint8).numpy().tobytes())
    names = dict.fromkeys(str(model.config.name_or_path or "") for model in models)
    return {"name": ", ".join(names), "sha256": digest.hexdigest()}


def _adapter(config: PeftConfig) -> dict[str, Any]:
    """A PEFT config without what building a model writes into it."""
    derived = ("base_model_name_or_path", "inference_mode", "task_type", "peft_version")
    own = {key: value for key, value in config.to_dict().items() if key not in derived}
    return {key: getattr(value, "value", value) for key, value in plain(own).items()}


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a run into its folder, or into a checkpoint."""
    about = {"version": VERSION, "llm_marl_envs": __version__}
    write_json(folder / SETTINGS_FILE, {**about, "settings": settings})


def recorded_settings(folder: Path) -> Mapping[str, Any]:
    """The settings that a run's folder, or a checkpoint, keeps.

    Raises:
        ValueError: there are none, or they are damaged or of another version.
    """
    file = folder / SETTINGS_FILE
    if not file.is_file():
        raise ValueError(
            f"{folder} holds a run without {SETTINGS_FILE}, so nobody knows what it is: give "
            "another output_dir, or delete it"
        )
    record = read_json(file)
    if record.get("version") != VERSION or not isinstance(record.get("settings"), dict):
        raise ValueError(
            f"{file}: written by llm-marl-envs {record.get('llm_marl_envs', '?')} in version "
            f"{record.get('version')!r} of the format; this version reads {VERSION}"
        )
    return record["settings"]


def planned_updates(settings: Mapping[str, Any], per_epoch: int) -> int:
    """Optimizer steps of a run with these settings, `per_epoch` in an epoch."""
    trainer = settings["trainer"]
    if trainer["max_steps"] > 0:
        return int(trainer["max_steps"])
    return math.ceil(trainer["num_train_epochs"] * per_epoch)


def differences(then: Mapping[str, Any], now: Mapping[str, Any], per_epoch: int) -> list[str]:
    """The settings that make two runs different ones, as "key: then -> now".

    Fields of adapters and of the trainer that one of two versions of their libraries lacks are not
    compared. `per_epoch` are the optimizer steps of an epoch, now.
    """
    begun, begins = then["model"], now["model"]
    same_model = begun["sha256"] == begins["sha256"]
    lines = [] if same_model else [f"model: {_weights(begun)} -> {_weights(begins)}"]
    environment = ("env", "env_kwargs", "env_tasks")
    for key in (*environment, *(f"eval_{part}" for part in environment), "partners"):
        lines += _lines(key, then[key], now[key])
    lines += _lines("lora", *_in_both(then["lora"], now["lora"]))
    lines += _lines("", *_in_both(then["trainer"], now["trainer"]))
    planned, plans = planned_updates(then, per_epoch), planned_updates(now, per_epoch)
    if plans < planned:
        lines.append(f"updates: {planned} -> {plans} (they may only become more)")
    return lines


def _in_both(then: Any, now: Any) -> tuple[Any, Any]:
    """Two maps with the keys that both have and that decide; anything else as it is."""
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)):
        return then, now
    keys = [key for key in sorted(now) if key in then and not FREE.fullmatch(key)]
    return {key: then[key] for key in keys}, {key: now[key] for key in keys}


def _lines(name: str, then: Any, now: Any) -> list[str]:
    changed = differing(then, now, name)
    return [f"{key}: {a!r:.120} -> {b!r:.120}" for key, (a, b) in changed.items()]


def _weights(model: Mapping[str, str]) -> str:
    return f"{model['name'] or 'without a name'} (weights {model['sha256'][:8]})"
