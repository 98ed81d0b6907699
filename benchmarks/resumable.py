"""What studies share whose runs are JSON files: a stopped call goes on.

Runs whose file is there are not made again, so several calls with a part of the runs each can go
side by side in one folder. One process, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from llm_marl_envs.files.json_files import read_json, write_json
from trainers.trainer import MAGRPOTrainer

Run = dict[str, Any]
"""What the file of one run holds."""


def options(
    name: str,
    about: str | None,
    *,
    output: str,
    first_seed: int | None = 100,
    seeds: int | None = 5,
) -> argparse.ArgumentParser:
    """The options that every study has.

    Args:
        name: of its module in `benchmarks`.
        about: the help's text.
        output: the folder of its files.
        first_seed: where seeds begin; None: where each part of the study says.
        seeds: how many; None: as many as each part of the study says.
    """
    first = "of each preset, where nothing was chosen" if first_seed is None else first_seed
    many = "of each preset, as it says" if seeds is None else seeds
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--first-seed", type=int, default=first_seed, help=f"where seeds begin (default: {first})"
    )
    parser.add_argument("--seeds", type=int, default=seeds, help=f"how many (default: {many})")
    parser.add_argument("--override", action="append", default=[], help="of the presets, all runs")
    parser.add_argument("--minutes", type=float, default=600.0, help="no run begins after them")
    parser.add_argument("--output", type=Path, default=Path(output), help="folder of the files")
    return parser


def runs_of(args: argparse.Namespace, due: Iterable[tuple[str, Callable[[], Run]]]) -> list[Run]:
    """The runs that are there, and those that could be made in `--minutes`, in order.

    Args:
        args: of `options`.
        due: name of the file, without its ending, and what makes the run.

    Raises:
        SystemExit: a file was made with other overrides, or a training was stopped.
    """
    torch.set_num_threads(1)
    disable_progress_bar()
    args.output.mkdir(parents=True, exist_ok=True)
    end, found = time.monotonic() + 60 * args.minutes, []
    for name, make_run in due:
        path = args.output / f"{name}.json"
        if not path.exists():
            if time.monotonic() > end:
                continue
            try:
                made = make_run()
            except MissingError as error:
                print(f"{name} is left out: {error}", flush=True)
                continue
            except StoppedError as error:
                raise SystemExit(f"{name}: {error}; call again to begin it anew") from error
            write_json(path, {**made, "overrides": args.override})
            print(path, flush=True)
        run = read_json(path)
        if run.get("overrides", []) != args.override:
            raise SystemExit(f"{path} was made with other overrides: name another --output")
        found.append(run)
    return found


class MissingError(Exception):
    """What a run needs is not there."""


class StoppedError(Exception):
    """A training was stopped before its end."""


def run_overrides(args: argparse.Namespace, folder: str | Path, seed: int) -> list[str]:
    """What is changed in a run file: as the user asks, then a seed, and nothing shown or saved."""
    quiet = ["disable_tqdm=true", "transcript_every=0", "save_strategy=no"]
    return [*args.override, f"seed={seed}", f"output_dir={folder}/run", *quiet]


def train_to_the_end(trainer: MAGRPOTrainer) -> None:
    """Train.

    Raises:
        StoppedError: before the end, as by a signal.
    """
    trainer.train()
    if trainer.stopped:
        raise StoppedError(f"stopped after update {trainer.state.global_step}")
