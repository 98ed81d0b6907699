"""Arguments that several commands share, and what they are read into."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_marl_envs.files.foreign import yaml_of

TEAM_HELP = (
    "folder of a saved team, hub:owner/name of one on the Hub, or a policy for every seat: expert, "
    "expert:<convention>, agreed, random, silent, wordless, tiny, endpoint:URL#MODEL, "
    "relay:K:FIRST,THEN, module:function or a Transformers model"
)


def add_environment(parser: ArgumentParser, split: str | None = None) -> None:
    """ID and --set; with the default of --split, --split and --tasks too."""
    parser.add_argument("id", help="id of an environment, or module:Class")
    _add_assignments(parser, "--set", "an argument of the environment")
    if split is None:
        return
    parser.add_argument("--split", help=f"train, val, test or ood (default {split})")
    parser.add_argument(
        "--tasks", type=_task_count, default=100, metavar="N", help="how many, or all (default 100)"
    )
    parser.set_defaults(default_split=split)


def add_team(parser: ArgumentParser, *, partners: bool = False) -> None:
    """--team and --transfer, and --partner where asked for."""
    parser.add_argument("--team", required=True, help=TEAM_HELP)
    add_transfer(parser)
    if partners:
        add_partners(parser)


def add_partners(parser: ArgumentParser) -> None:
    """--partner."""
    parser.add_argument(
        "--partner",
        action="append",
        default=[],
        metavar="AGENT=POLICY",
        help="who plays a seat instead: expert, expert:<convention>, random, ...",
    )


def add_transfer(parser: ArgumentParser) -> None:
    """--transfer."""
    parser.add_argument(
        "--transfer", action="store_true", help="allow a team trained in another environment"
    )


def add_sampling(parser: ArgumentParser) -> None:
    """How models sample."""
    parser.add_argument(
        "--temperature",
        type=float,
        help="0 is greedy (default: a saved team's own, else the model's own, else 1)",
    )
    parser.add_argument("--greedy", action="store_true", help="the same as --temperature 0")
    parser.add_argument("--max-tokens", type=int, help="most tokens of one action")
    _add_assignments(
        parser, "--template", "a variable of the chat template, e.g. enable_thinking=false"
    )
    parser.add_argument(
        "--tool-format",
        choices=("line", "native"),
        help="how models call tools: by a line of text, or in their own format (default: a saved "
        "team's own, else line)",
    )


def add_overrides(parser: ArgumentParser) -> None:
    """--override."""
    _add_assignments(parser, "--override", "a setting of the run")


def add_threads(parser: ArgumentParser) -> None:
    """--threads."""
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="processor cores that tensors take (default: all; with other work beside, fewer are "
        "faster)",
    )


def limit_threads(options: Namespace) -> None:
    """As --threads says; torch is imported where it is given.

    Raises:
        ValueError: less than one.
    """
    if options.threads is None:
        return
    if options.threads < 1:
        raise ValueError(f"--threads {options.threads}: expected at least 1")
    import torch

    torch.set_num_threads(options.threads)


def _add_assignments(parser: ArgumentParser, flag: str, what: str) -> None:
    about = f"{what}; the value as in YAML; may be repeated"
    parser.add_argument(flag, action="append", default=[], metavar="KEY=VALUE", help=about)


def folder_to_write(text: str) -> str:
    """The path of a folder that a command writes into, `~` expanded."""
    return _path_to_write(text, "a folder")


def file_to_write(text: str) -> str:
    """The path of a file that a command writes, `~` expanded."""
    path = _path_to_write(text, "a file")
    if Path(path).name in ("", "..") or path.endswith(os.sep):
        raise ArgumentTypeError(f"{text!r:.200} is a folder; expected a file")
    return path


def _path_to_write(text: str, what: str) -> str:
    if not text.strip() or "\0" in text:
        raise ArgumentTypeError(f"{text!r} is no path (is a variable unset?); expected {what}")
    path = os.path.expanduser(text)
    if path.startswith("~"):
        raise ArgumentTypeError(f"{text!r:.200}: no such user; expected {what}, or one below ./")
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ArgumentTypeError(f"{text!r:.80}...: the name is too long") from error
    return path


def positive_number(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r:.200}: expected a whole number from 1")
    return int(text)


def _task_count(text: str) -> int | None:
    """A whole number; None for "all"."""
    if text == "all":
        return None
    try:
        return positive_number(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or all") from error


# -- reading ---------------------------------------------------------------------------------------
def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """{"a": 1} from ["a=1"]; values are read as YAML.

    Raises:
        ValueError: a pair has no "=" or no key, a key comes twice, a value is no YAML.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"{pair!r:.200}: expected KEY=VALUE, e.g. turns=2")
        if key in settings:
            raise ValueError(f"{key!r:.200} is given twice")
        try:
            settings[key] = yaml_of(value)
        except ValueError as error:
            raise ValueError(f"{pair!r:.100}: the value is no YAML: {error}") from error
    return settings


def named_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """{"a": "x", "runs/y": "runs/y"} from ["a=x", "runs/y"]; a path that exists is no pair.

    Raises:
        ValueError: a name comes twice.
    """
    by_name: dict[str, str] = {}
    for argument in arguments:
        name, equals, team = argument.partition("=")
        if not equals or Path(argument).exists() or "/" in name or ":" in name:
            name, team = argument, argument
        if name in by_name:
            raise ValueError(f"{name!r:.200} is given twice; name them apart: a={team:.80}")
        by_name[name] = team
    return by_name


def env_kwargs_of(options: Namespace) -> dict[str, Any]:
    """The environment's arguments, from --split and --set.

    Raises:
        ValueError: the two name different splits.
    """
    kwargs = assignments(options.set)
    if options.split is not None and kwargs.get("split", options.split) != options.split:
        raise ValueError(
            f"--split {options.split} and --set split={kwargs['split']}: expected one of them"
        )
    return {"split": options.split or options.default_split, **kwargs}


def sampling_of(options: Namespace) -> Any:
    """`policies.named.Sampling`."""
    from llm_marl_envs.policies.named import Sampling

    return Sampling(
        temperature=0.0 if options.greedy else options.temperature,
        max_completion_length=options.max_tokens,
        template=assignments(options.template),
        tool_format=options.tool_format,
    )


def quiet_libraries() -> None:
    """Keep notes of the libraries below to their own developers out of a command's output."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\.")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if not sys.stderr.isatty():  # in a file each refresh of a bar is a line of its own
        os.environ.setdefault("TQDM_MININTERVAL", "10")
