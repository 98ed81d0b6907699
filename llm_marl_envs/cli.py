"""The `llm-marl` command: look at environments, play one, train and measure teams.

Owns arguments and printing. What a command does lives in the library: `list`, `spec` and `play`
need the core install; `train`, `eval` and `demo` import `trainers` when they are called.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import platform
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import yaml

from llm_marl_envs import __version__
from llm_marl_envs.commands import quiet_libraries
from llm_marl_envs.commands.ending import ending
from llm_marl_envs.commands.measuring import add_measuring
from llm_marl_envs.commands.reporting import add_reporting
from llm_marl_envs.commands.research import add_research

RESUMED = ("eval", "baselines", "collect", "demo", "sweep", "train-baselines")
"""Commands that, given once more, go on where they were stopped."""
# Of these the trainer needs all; `version` reports those that are installed.
TRAIN_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, see `commands.ending`."""
    options = _parser().parse_args(arguments)
    as_python_writes_it = warnings.formatwarning
    if not options.traceback:  # what is wrong, without the line of ours that says so
        warnings.formatwarning = lambda message, *_, **__: f"llm-marl: {message}\n"
    try:
        return ending(
            lambda: options.run(options),
            f"llm-marl {options.command}",
            traceback=options.traceback,
            again=_again(options),
        )
    finally:
        warnings.formatwarning = as_python_writes_it


def _again(options: argparse.Namespace) -> str:
    """What becomes of the work when the command is stopped."""
    if options.command not in RESUMED:
        return ""
    if getattr(options, "output", True):
        return "the same command goes on"
    return "nothing was kept: with --output the same command would go on"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llm-marl",
        description="Text environments for teams of language models, and their trainer.",
        epilog="example: llm-marl play coop_coding-v0 --seed 1",
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show where in the code an error comes from"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[Any], int | None], about: str, example: str) -> Any:
        command = commands.add_parser(
            name,
            help=about,
            description=about,
            epilog=f"example: llm-marl {name} {example}".strip(),
        )
        command.set_defaults(run=run)
        return command

    add("list", _list, "List the environments.", "")
    command = add("spec", _spec, "Show what an environment is and takes.", "coop_coding-v0")
    command.add_argument("id", help="id of an environment; without -vN the newest version")
    _add_play(add)
    _add_training(add)
    add_measuring(add, _add_env_arguments, parse_assignments)
    add_reporting(add)
    add_research(add, _add_env_arguments, parse_assignments)
    add(
        "doctor",
        _doctor,
        "Show which layers confine model-written programs here, and whether that is enough: the "
        "last line says so, and the exit status (0 all is well, 1 something is missing).",
        "",
    )
    add("version", _version, "Show the versions of this package and of what it uses.", "")
    return parser


def _add_play(add: Callable[..., Any]) -> None:
    command = add(
        "play",
        _play,
        "Take one seat of an environment; scripted experts take the others (random text where the "
        "task has no experts).",
        "coop_coding-v0 --agent main_0 --set turns=2 --seed 1",
    )
    command.add_argument("id", help="id of an environment")
    command.add_argument("--agent", help="your seat; the last one where not given")
    command.add_argument("--task", help="id or index of the task; drawn by the seed otherwise")
    command.add_argument("--seed", type=int, default=0, help="reset seed (default 0)")
    _add_env_arguments(command)


def _add_training(add: Callable[..., Any]) -> None:
    command = add(
        "train",
        _train,
        "Train a team as a YAML file says.",
        "--config run.yaml --override learning_rate=1e-4 --override seed=3",
    )
    command.add_argument("--config", required=True, help="the run: a YAML file or a preset's name")
    _add_overrides(command)
    command = add(
        "demo", _demo, "Train a team of tiny models and show what changed.", "--output runs/demo"
    )
    command.add_argument(
        "--preset",
        default="coop_coding_tiny",
        help="a preset or run file with model: tiny (default coop_coding_tiny)",
    )
    command.add_argument("--output", default="runs/demo", help="folder (default runs/demo)")
    command.add_argument("--seed", type=int, default=0, help="default 0")
    command.add_argument(
        "--fresh", action="store_true", help="build the tiny model anew instead of using the cache"
    )
    _add_overrides(command)


def _add_overrides(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the run, value as in YAML; may be repeated",
    )


def _add_env_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an argument of the environment, value as in YAML; may be repeated",
    )


def parse_assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """{"a": 1} from ["a=1"]; values are read as YAML.

    Raises:
        ValueError: a pair has no "=" or no key, a key comes twice, a value is no YAML.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"{pair!r}: expected KEY=VALUE, e.g. turns=2")
        if key in found:
            raise ValueError(f"{key!r} is given twice")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"{pair!r}: the value is no YAML: {error}") from error
    return found


def _list(options: argparse.Namespace) -> None:
    from llm_marl_envs.specs import list_envs, spec

    for env_id in list_envs():
        one = spec(env_id)
        print(f"{env_id}  ({one.api}; {', '.join(one.agents)})\n    {one.summary}")


def _spec(options: argparse.Namespace) -> None:
    from llm_marl_envs.registry import load_entry_point
    from llm_marl_envs.specs import spec

    one = spec(options.id)
    create = load_entry_point(one)
    print(f"{one.id}: {one.summary}")
    print(f"form: {one.api}\nagents: {', '.join(one.agents)}")
    print(f"extras needed: {', '.join(one.extras) or 'none'}\narguments:")
    for parameter in inspect.signature(create).parameters.values():
        default = one.kwargs.get(parameter.name, parameter.default)
        print(f"    {parameter.name} = {default!r}")
    page = inspect.getdoc(inspect.getmodule(create)) or inspect.getdoc(create) or ""
    print(f"\n{page}")


def _play(options: argparse.Namespace) -> None:
    from llm_marl_envs.commands.play import play

    task = int(options.task) if (options.task or "").isdecimal() else options.task
    play(
        options.id,
        agent=options.agent,
        task=task,
        seed=options.seed,
        env_kwargs=parse_assignments(options.set),
    )


def _trainers(module: str) -> Any:
    """Import `trainers.<module>`, or say what to install."""
    quiet_libraries()
    try:
        return importlib.import_module(f"trainers.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "trainers":
            raise
        raise ImportError(
            f"this command needs {error.name!r}: pip install 'llm-marl-envs[train]'"
        ) from error


def _train(options: argparse.Namespace) -> None:
    _trainers("train").run_train(options.config, options.override)


def _demo(options: argparse.Namespace) -> None:
    _trainers("studies.demo").run_demo(
        output=options.output,
        seed=options.seed,
        fresh=options.fresh,
        overrides=options.override,
        preset=options.preset,
    )


def _doctor(options: argparse.Namespace) -> int:
    from llm_marl_envs.sandbox import doctor, verdict

    layers = doctor()
    for layer in layers:
        print(f"{'yes' if layer.active else 'no ':4}{layer.name:14}{layer.reason}")
    well, said = verdict(layers)
    print(said)
    return 0 if well else 1


def _version(options: argparse.Namespace) -> None:
    print(f"llm-marl-envs {__version__}\npython {platform.python_version()}")
    for package in ("pettingzoo", "gymnasium", "numpy", *TRAIN_PACKAGES):
        try:
            print(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            print(f"{package} not installed")


if __name__ == "__main__":
    sys.exit(main())
