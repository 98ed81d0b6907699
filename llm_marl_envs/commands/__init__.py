"""Subcommands of `llm-marl`, where they are too many for `cli.py`, and what several share."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any


def quiet_libraries() -> None:
    """Keep notes of the libraries below to their own developers out of a command's output."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\.")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if not sys.stderr.isatty():  # in a file each refresh of a bar is a line of its own
        os.environ.setdefault("TQDM_MININTERVAL", "10")


def add_task_arguments(command: Any, *, split: str) -> None:
    """Register --split (default `split`) and --tasks."""
    command.add_argument("--split", help=f"train, val, test or ood (default {split})")
    command.add_argument(
        "--tasks", type=_task_count, default=100, metavar="N", help="how many, or all (default 100)"
    )
    command.set_defaults(default_split=split)


def _task_count(text: str) -> int | None:
    """A whole number; None for "all"."""
    if text == "all":
        return None
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r}: expected a whole number from 1, or all")
    return int(text)


def env_kwargs_of(
    options: Namespace, assignments: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """The environment's arguments, from --split and --set.

    Raises:
        ValueError: the two name different splits.
    """
    given = assignments(options.set)
    if options.split is not None and given.get("split", options.split) != options.split:
        raise ValueError(
            f"--split {options.split} and --set split={given['split']}: expected one of them"
        )
    return {"split": options.split or options.default_split, **given}
