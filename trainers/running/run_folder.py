"""The folder of a training run: one run in it, one process group at a time.

Owns `settings.json`, which every run writes into its folder and into each checkpoint, what counts
as the same run, and the refusal of a second one. Two runs are the same where all settings agree
that decide what is learned; `FREE` lists the others. More updates are allowed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig
from transformers.trainer import OPTIMIZER_NAME, TRAINER_STATE_NAME
from transformers.trainer_utils import get_last_checkpoint

from llm_marl_envs import __version__
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import plain
from llm_marl_envs.core.specs import env_arguments, env_name
from llm_marl_envs.files.atomic import make_folder
from llm_marl_envs.files.json_files import differing, read_json, write_json
from llm_marl_envs.files.locks import locked
from llm_marl_envs.measure.run_manifest import HASHED_TASKS, sha256
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.named import identity_of
from trainers.config import MAGRPOConfig
from trainers.engines.registry import engine_class
from trainers.running.transcripts import LOG_FILE
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_files import TEAM_FILE
from trainers.weights.team_model import TeamModel

SETTINGS_FILE = "settings.json"
SETTINGS_VERSION = 1
MOST_SHOWN = 12
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


class BusyError(RuntimeError):
    """Another process works in a folder."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system releases whatever becomes of the process.

    Raises:
        BusyError: another process holds it.
        ValueError: the folder is a file.
    """
    make_folder(folder)
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / ".lock", wait=False))
        except BlockingIOError as error:
            raise BusyError(f"{folder}: another process works on it") from error
        yield


# -- what a run's settings are ---------------------------------------------------------------------
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
    found: dict[str, Any] = {}
    for key, one in (("env", env), ("eval_env", eval_env)):
        found[key] = None if one is None else env_name(one)
        found[f"{key}_kwargs"] = None if one is None else saved_arguments(env_arguments(one))
        found[f"{key}_tasks"] = None if one is None else _tasks(one)
    return found


def _tasks(env: Any) -> str | None:
    """A hash of the number of tasks and of what seats are told of the first; None if foreign."""
    source, inner = task_source(env), getattr(env, "unwrapped", env)
    if source is None:
        return None
    told = [inner.first_words(source[i]) for i in range(min(HASHED_TASKS, len(source)))]
    return sha256(repr((len(source), inner.max_turns, told)))


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


def saved_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON; what JSON cannot hold is named by its type, which `make` refuses."""
    saved = {}
    for name, value in arguments.items():
        entry = plain(value)
        told = " object>" in repr(entry)  # as `plain` writes what it does not know
        saved[name] = f"<{type(value).__name__}, not saved>" if told else entry
    return saved


def _adapter(config: PeftConfig) -> dict[str, Any]:
    """A PEFT config without what building a model writes into it."""
    derived = ("base_model_name_or_path", "inference_mode", "task_type", "peft_version")
    found = {key: value for key, value in config.to_dict().items() if key not in derived}
    return {key: getattr(value, "value", value) for key, value in plain(found).items()}


def planned_updates(trainer: Mapping[str, Any], per_epoch: int) -> int:
    """Optimizer steps of a run with these settings of the trainer, `per_epoch` in an epoch."""
    if trainer["max_steps"] > 0:
        return int(trainer["max_steps"])
    return math.ceil(trainer["num_train_epochs"] * per_epoch)


# -- what lies in a folder -------------------------------------------------------------------------
def has_begun(folder: Path) -> bool:
    """Whether a run has made an update here: there is something that a second one would mix with.

    A run that failed before its first update leaves a folder that may be used again.
    """
    log = folder / LOG_FILE
    return (
        (log.is_file() and log.stat().st_size > 0)
        or any((place / TEAM_FILE).is_file() for place in (folder, folder / "team"))
        or get_last(folder) is not None
        or any((folder / "transcripts").glob("update-*.jsonl"))
    )


def get_last(folder: Path) -> Path | None:
    """The newest checkpoint of a run's folder."""
    found = get_last_checkpoint(str(folder)) if folder.is_dir() else None
    return None if found is None else Path(found)


def begin_anew(folder: Path) -> None:
    """Remove what a run without a checkpoint left; its manifest goes on counting the costs.

    Raises:
        ValueError: there is a checkpoint.
    """
    last = get_last(folder)
    if last is not None:
        raise ValueError(f"{last} is there: go on from it, or delete {folder}")
    shutil.rmtree(folder / "transcripts", ignore_errors=True)
    for file in (LOG_FILE, SETTINGS_FILE):
        (folder / file).unlink(missing_ok=True)


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write `settings.json`."""
    about = {"version": SETTINGS_VERSION, "llm_marl_envs": __version__}
    write_json(folder / SETTINGS_FILE, {**about, "settings": settings})


def recorded(folder: Path) -> Mapping[str, Any] | None:
    """The settings that a run's folder, or a checkpoint's, keeps; None where it keeps none.

    Raises:
        ValueError: written by a newer version, or damaged.
    """
    file = folder / SETTINGS_FILE
    if file.is_file():
        found = read_json(file)
        if found.get("version") != SETTINGS_VERSION or not isinstance(found.get("settings"), dict):
            raise ValueError(
                f"{file}: written by llm-marl-envs {found.get('llm_marl_envs', '?')} in version "
                f"{found.get('version')!r} of the format; this version reads {SETTINGS_VERSION}"
            )
        return found["settings"]
    if folder.name.startswith("checkpoint-"):
        return recorded(folder.parent)
    return None


# -- whether two runs are one ----------------------------------------------------------------------
def differences(then: Mapping[str, Any], now: Mapping[str, Any], per_epoch: int) -> list[str]:
    """The settings that make two runs different ones, as "key: then -> now".

    What one of the two versions did not know is not compared. `per_epoch` are the optimizer steps
    of an epoch, now.
    """
    found = []
    begun, begins = then.get("model"), now["model"]
    if begun is not None and begun["sha256"] != begins["sha256"]:
        found.append(f"model: {_weights(begun)} -> {_weights(begins)}")
    about = ("env", "env_kwargs", "env_tasks")
    for key in (*about, *(f"eval_{one}" for one in about), "partners"):
        if key in then:
            found += _lines(key, then[key], now[key])
    if "lora" in then:
        found += _lines("lora", then["lora"], now["lora"], both=True)
    before, after = then.get("trainer") or {}, now["trainer"]
    decisive = [key for key in after if key in before and not FREE.fullmatch(key)]
    found += _lines("", {k: before[k] for k in decisive}, {k: after[k] for k in decisive})
    if "max_steps" in before:
        planned, plans = planned_updates(before, per_epoch), planned_updates(after, per_epoch)
        if plans < planned:
            found.append(f"updates: {planned} -> {plans} (they may only become more)")
    return found


def _lines(name: str, then: Any, now: Any, both: bool = False) -> list[str]:
    """Differences below a key; with `both` of the keys alone that both sides have."""
    if both and isinstance(then, Mapping) and isinstance(now, Mapping):
        common = then.keys() & now.keys()
        then, now = ({k: one[k] for k in sorted(common)} for one in (then, now))
    changed = differing(then, now, name)
    return [f"{key}: {_shown(a)} -> {_shown(b)}" for key, (a, b) in changed.items()]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _weights(model: Mapping[str, str]) -> str:
    return f"{model['name'] or 'without a name'} (weights {model['sha256'][:8]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that is about to begin or go on.

    Attributes:
        folder: its `output_dir`.
        settings: as `settings_of` makes them.
        per_epoch: optimizer steps of an epoch.
    """

    folder: Path
    settings: Mapping[str, Any]
    per_epoch: int

    @property
    def updates(self) -> int:
        """How many are planned."""
        return planned_updates(self.settings["trainer"], self.per_epoch)

    def check(self, resume: Any) -> Path | None:
        """The checkpoint to go on from, None for a run that begins; nothing is written.

        Args:
            resume: None or False; True for the newest checkpoint in the folder; or a checkpoint.

        Raises:
            ValueError: the folder holds another run, this one begins and the folder holds it
                already, or there is no such checkpoint, or one of a run with other settings.
        """
        checkpoint = self._checkpoint(resume)
        if checkpoint is not None:
            self._check_checkpoint(checkpoint)
        if not has_begun(self.folder):
            return checkpoint
        there = recorded(self.folder)
        own = checkpoint is not None and checkpoint.parent.resolve() == self.folder.resolve()
        if there is None and not own:
            raise ValueError(
                f"{self.folder} holds a run whose settings nobody recorded: give another "
                "output_dir, or delete it"
            )
        other = [] if there is None else differences(there, self.settings, self.per_epoch)
        if checkpoint is None:
            kept = f"another run ({_some(other)}):" if other else self._unfinished()
            raise ValueError(f"{self.folder} holds {kept} give another output_dir, or delete it")
        if other:
            raise ValueError(self._refusal(self.folder, other))
        return checkpoint

    def _checkpoint(self, resume: Any) -> Path | None:
        if resume is None or resume is False:
            return None
        if resume is not True:
            return Path(str(resume))
        last = get_last(self.folder)
        if last is None:
            raise ValueError(
                f"{self.folder} holds no checkpoint to go on from: {self._why_none()}; begin "
                "without resume_from_checkpoint"
                + (", in another output_dir" if has_begun(self.folder) else "")
            )
        return last

    def _why_none(self) -> str:
        if not has_begun(self.folder):
            return "no run has made an update there"
        there = recorded(self.folder)
        if ((there or {}).get("trainer") or {}).get("save_strategy") == "no":
            return "its run was made with save_strategy='no'"
        return "its run ended before it saved one"

    def _unfinished(self) -> str:
        last = get_last(self.folder)
        if last is None:
            return "this run already, without a checkpoint to go on from:"
        made = last.name.partition("-")[2]
        return (
            f"this run already, with a checkpoint of update {made} of {self.updates}: go on with "
            "resume_from_checkpoint=true,"
        )

    def _check_checkpoint(self, checkpoint: Path) -> None:
        if not (checkpoint / TRAINER_STATE_NAME).is_file():
            what = "no checkpoint" if checkpoint.is_dir() else "no such folder"
            raise ValueError(
                f"resume_from_checkpoint: {checkpoint}: {what}; expected a folder checkpoint-N of "
                "a run, or true for the newest in output_dir"
            )
        step = read_json(checkpoint / TRAINER_STATE_NAME).get("global_step", 0)
        if step < self.updates and not (checkpoint / OPTIMIZER_NAME).is_file():
            raise ValueError(
                f"{checkpoint} holds no optimiser (save_only_model=true): it can be loaded as a "
                "team, and no run can go on from it"
            )
        there = recorded(checkpoint)
        if there is None:
            warnings.warn(
                f"{checkpoint} was written by a version of llm-marl-envs that recorded no "
                "settings: that they are those of this run is not checked",
                stacklevel=2,
            )
            return
        other = differences(there, self.settings, self.per_epoch)
        if other:
            raise ValueError(self._refusal(checkpoint, other))
        self._warn_of_schedule(there["trainer"])

    def _refusal(self, place: Path, other: list[str]) -> str:
        return (
            f"{place} belongs to a run of other settings ({_some(other)}): go on with those that "
            "it began with, or begin another run in another output_dir; only more updates, paths, "
            "logging, saving and the times of evaluation may change"
        )

    def _warn_of_schedule(self, before: Mapping[str, Any]) -> None:
        now = self.settings["trainer"]
        planned = planned_updates(before, self.per_epoch)
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


def _some(lines: list[str]) -> str:
    more = len(lines) - MOST_SHOWN
    return "; ".join(lines[:MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
