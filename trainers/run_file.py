"""The format of run files: what a file or a preset says, with overrides. Nothing here needs torch.

A run file has these keys:

    plugins: [my_module]             # modules to import first, which register what they bring
    model: tiny                      # the embedded model, smollm2, or what from_pretrained takes;
                                     # with weights: separate also policy -> one of these
    tiny: {steps: 1500, seed: 0}     # for model: tiny: fields of TinySettings, and its seed
    warm_start: {steps: 110}         # for other models: fields of WarmStart (weights/warm_start.py)
    env: coop_coding-v0              # an id, or my_module:MyEnv
    env_kwargs: {split: train}       # arguments of make()
    prompts: {main: "{prompt} ..."}  # seat or role -> its prompt in other words (wrappers)
    eval_env_kwargs: {split: val}    # what evaluations change in them; absent: no evaluation
    lora: {r: 16, lora_alpha: 32, target_modules: all-linear}    # absent: train all weights
    partners: {helper_0: expert}     # seats not trained: any policy's name, policies/named.py
    trainer: {output_dir: runs/x, learning_rate: 1e-3, ...}      # fields of MAGRPOConfig
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from llm_marl_envs import make
from llm_marl_envs.core.checks import refuse_unknown, suggestion
from llm_marl_envs.core.plugins import REFERENCE, entries, import_plugins
from llm_marl_envs.files.atomic import check_folder
from llm_marl_envs.files.foreign import yaml_of
from llm_marl_envs.policies.named import check_name

SECTIONS = (
    "tiny",
    "warm_start",
    "env_kwargs",
    "prompts",
    "eval_env_kwargs",
    "lora",
    "partners",
    "trainer",
)
KEYS = ("plugins", "model", "env", *SECTIONS)
TINY = "tiny"
NAMED = {"algorithm": "magrpo", "engine": "generate", "returns": "discounted"}
"""Settings that are a name, or a map of it (`name`) and of settings of its own -> what stands where
none is given."""
COMMON_NAMES = {
    "lr": "learning_rate",
    "steps": "max_steps",
    "updates": "max_steps",
    "epochs": "num_train_epochs",
    "output": "output_dir",
    "batch_size": "tasks_per_update",
    "G": "num_generations",
    "kl": "beta",
    "gamma": "discount",
    "shaping": "returns",
}
"""What people call settings in other libraries -> what they are called here."""
LISTED = "`llm-marl schema`"
"""Lists all settings."""
EXPECTED = "# Expected: "
"""How a preset's first line begins."""
PATIENCE = 30.0
"""Seconds in which something must come out of a pipe that is given as a run file."""
MOST_BYTES = 10_000_000
"""That are read of one."""


def read(config: str | Path, overrides: Sequence[str] = ()) -> tuple[Path, dict[str, Any]]:
    """A run file, or a preset of that name, and its contents with overrides applied.

    Modules under `plugins` are imported.

    Args:
        config: a path, or a name in `trainers/presets`.
        overrides: "key=value"; a dotted key goes into a section ("env_kwargs.turns=2") or into the
            settings of a named part ("algorithm.weight=0.1"), one that is no key of the file is a
            field of `trainer`.

    Raises:
        ValueError: no such file, malformed YAML, or an unknown key; near names are given.
        ImportError: a plugin cannot be imported.
    """
    path = _path(config)
    run = read_yaml(path)
    if not isinstance(run, dict):
        raise ValueError(f"{path}: expected a map with keys among {KEYS}")
    for override in overrides:
        _apply(run, override)
    refuse_unknown(path, run, KEYS, listed=f"settings stand under `trainer:`; {LISTED}")
    for section in SECTIONS:
        if not isinstance(run.get(section), (dict, type(None))):
            raise ValueError(f"{path}, {section}: expected a map, got {run[section]!r:.80}")
        for key in run.get(section) or ():
            if not isinstance(key, str):
                raise ValueError(f"{path}, {section}: expected texts as keys, got {key!r:.80}")
    _check_names(path, run)
    if run.get("prompts") and "prompts" in (run.get("env_kwargs") or {}):
        raise ValueError(f"{path}: prompts stand twice, also in env_kwargs; give them once")
    if run.get("prompts"):  # an argument of `make`, so a record of the environment has it
        run["env_kwargs"] = {**(run.get("env_kwargs") or {}), "prompts": run.pop("prompts")}
    import_plugins(run.get("plugins") or ())
    return path, run


def check_first(config: str | Path, overrides: Sequence[str] = (), *, trains: bool = False) -> Path:
    """Refuse at once what is wrong in a run file, as far as it can be seen without torch.

    Torch, Transformers and TRL take many seconds to import. Settings of the trainer are looked at
    later: their names are those of TRL. So are seats where a recipe may change the environment.

    Args:
        config: as `read` takes it.
        overrides: as `read` takes them.
        trains: look at what a training alone needs, its folder and evaluations, too.

    Returns:
        The file.

    Raises:
        ValueError: as `read`; or its algorithm, its environment, a seat or a partner is wrong.
        OSError: its folder cannot be written.
    """
    path, run = read(config, overrides)
    trainer = run.get("trainer") or {}
    mistaken = {name: one for name, one in trainer.items() if name in COMMON_NAMES}
    refuse_unknown(f"{path}, trainer", mistaken, COMMON_NAMES.values(), COMMON_NAMES, LISTED)
    if trains and isinstance(trainer.get("output_dir"), str):
        check_folder(Path(trainer["output_dir"]).expanduser())
    if not _by_recipe(trainer.get("algorithm", NAMED["algorithm"])):
        env_kwargs = run.get("env_kwargs") or {}
        check_seats(run, make(run["env"], **env_kwargs).possible_agents)
        if trains and run.get("eval_env_kwargs"):
            try:
                make(run["env"], **{**env_kwargs, **run["eval_env_kwargs"]})
            except (TypeError, ValueError) as error:
                raise ValueError(f"eval_env_kwargs: {error}") from error
    return path


def _by_recipe(algorithm: Any) -> bool:
    """Whether a recipe may set the run's environment; refuses a name that nobody can have.

    Raises:
        ValueError: neither an algorithm, nor a recipe, nor a place in a module.
    """
    name = algorithm.get("name") if isinstance(algorithm, Mapping) else algorithm
    algorithms, recipes = entries("trainers.algorithms"), entries("trainers.recipes")
    if not isinstance(name, str) or name in algorithms or REFERENCE.fullmatch(name):
        return False
    # A module under `plugins` that registers names has imported these, and torch.
    if name not in recipes and "trainers.algorithms" not in sys.modules:
        hint = suggestion(name, [*algorithms, *recipes])
        raise ValueError(f"algorithm={name!r:.200}: no such algorithm{hint}")
    return True


def check_seats(run: Mapping[str, Any], seats: Sequence[str]) -> None:
    """Refuse models and partners of seats that an environment has not, and unknown partners.

    Raises:
        ValueError: names the first one.
    """
    partners = run.get("partners") or {}
    refuse_unknown("partners", partners, seats)
    for name in partners.values():
        check_name(str(name))
    if isinstance(run["model"], dict):
        refuse_unknown("model", run["model"], seats)


def presets() -> dict[str, Path]:
    """Name -> run file of everything in `trainers/presets`, by name."""
    folder = Path(str(resources.files("trainers") / "presets"))
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def expected(preset: Path) -> str:
    """What a preset's first line says to expect, and how long it takes."""
    return preset.read_text(encoding="utf-8").partition("\n")[0].removeprefix(EXPECTED)


def _check_names(path: Path, run: Mapping[str, Any]) -> None:
    if not isinstance(run.get("env"), str):
        raise ValueError(f"{path}: needs 'env', a text")
    model = run.get("model")
    models = list(model.values()) if isinstance(model, dict) else [model]
    if not models or not all(isinstance(one, str) for one in models):
        raise ValueError(f"{path}: needs 'model', a text, or a map from policy to text")
    plugins = run.get("plugins") or []
    if not isinstance(plugins, list) or not all(isinstance(one, str) for one in plugins):
        raise ValueError(f"{path}, plugins: expected a list of modules, got {plugins!r:.80}")


def read_yaml(path: Path) -> Any:
    """What a YAML file holds, or a pipe such as `<(...)`, which is read once.

    Raises:
        ValueError: no YAML, as `yaml_of` says; or as `_streamed`.
    """
    content = path.read_bytes() if path.is_file() else _streamed(path, os.stat(path).st_ino)
    if b"\0" in content:  # YAML has none; UTF-16 and UTF-32 without a mark are full of them
        raise ValueError(f"{path}: no text in UTF-8 (it holds bytes of zero); save it as UTF-8")
    return yaml_of(content, path)


@cache
def _streamed(path: Path, number: int) -> bytes:
    """What a pipe or a device holds; it cannot be read again, and commands look at runs twice.

    Raises:
        ValueError: nobody writes into it, or without end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        if not select.select([stream], [], [], PATIENCE)[0]:
            raise ValueError(f"{path}: nothing came within {PATIENCE:g} s; expected a run file")
        os.set_blocking(descriptor, True)
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path}: more than {MOST_BYTES} bytes; expected a run file")
    return content


def _apply(run: dict[str, Any], override: str) -> None:
    """Change one setting of a run file's contents."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ValueError(f"--override {override!r:.200}: expected key=value")
    try:
        value = yaml_of(text)
    except ValueError as error:
        raise ValueError(f"--override {override!r:.100}: the value is no YAML: {error}") from error
    part, dot, setting = key.removeprefix("trainer.").partition(".")
    if dot and part in NAMED:
        key, value = part, _with_setting(run, part, setting, value)
    section, dot, name = key.partition(".")
    if not dot and key in KEYS:
        run[key] = value
        return
    if not dot:
        section, name = "trainer", key
    if run.get(section) is None:
        run[section] = {}
    if not isinstance(run[section], dict):
        raise ValueError(f"--override {override!r:.200}: {section!r} is no section")
    run[section][name] = value


def _with_setting(run: Mapping[str, Any], part: str, name: str, value: Any) -> dict[str, Any]:
    """The choice of a named part of the trainer, one of its settings changed."""
    trainer = run.get("trainer")
    chosen = trainer.get(part) if isinstance(trainer, dict) else None
    chosen = chosen if chosen is not None else NAMED[part]
    return {**(chosen if isinstance(chosen, dict) else {"name": chosen}), name: value}


def _path(config: str | Path) -> Path:
    if os.path.isfile(config):  # False of what is too long for a path
        return Path(config)
    known = presets()
    if str(config) in known:
        return known[str(config)]
    if os.path.isdir(config):
        raise ValueError(f"config {str(config)!r}: a folder; expected a file, or a preset's name")
    if os.path.exists(config):  # a pipe
        return Path(config)
    hint = suggestion(config, known) or ";"
    raise ValueError(
        f"config {str(config)!r:.200}: no such file, and no preset{hint} presets: {list(known)}"
    )
