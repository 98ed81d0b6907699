"""What studies share whose runs are JSON files: a stopped call goes on, and its settings are quiet.

Runs whose file is there are not made again, so several calls with a part of the runs each can go
side by side in one folder. One process, one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers.utils.logging import disable_progress_bar

from llm_marl_envs.evaluation.numbers.estimators import t_interval
from llm_marl_envs.files.json_files import read_json, write_json
from trainers.trainer import MAGRPOTrainer

Run = dict[str, Any]
"""What the file of one run holds."""


def options(
    name: str, about: str | None, *, output: str, first_seed: int | None = 100, seeds: int = 5
) -> argparse.ArgumentParser:
    """The options that every study has.

    Args:
        name: of its module in `benchmarks`.
        about: the help's text.
        output: the folder of its files.
        first_seed: where seeds begin; None: where each part of the study says.
        seeds: how many.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--first-seed", type=int, default=first_seed, help="where seeds begin")
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--override", action="append", default=[], help="of the presets, all runs")
    parser.add_argument("--minutes", type=float, default=600.0, help="no run begins after them")
    parser.add_argument("--output", type=Path, default=Path(output), help="folder of the files")
    return parser


def runs_of(args: argparse.Namespace, due: Iterable[tuple[str, Callable[[], Run]]]) -> list[Run]:
    """The runs that are there, and those that could be made in `--minutes`, in order.

    Args:
        args: of `options`.
        due: name of the file, without its ending, and what makes the run.
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
            write_json(path, make_run())
            print(path, flush=True)
        found.append(read_json(path))
    return found


def quiet(args: argparse.Namespace, folder: str | Path, seed: int) -> list[str]:
    """Overrides of a run file: a seed, nothing shown, nothing saved, what the user asked for."""
    shown = ["disable_tqdm=true", "transcript_every=0", "save_strategy=no"]
    return [f"seed={seed}", f"output_dir={folder}/run", *shown, *args.override]


def train_to_the_end(trainer: MAGRPOTrainer) -> None:
    """Train; where it is stopped, end the study without a file.

    Raises:
        SystemExit: it was stopped.
    """
    trainer.train()
    if trainer.stopped:
        raise SystemExit(f"stopped at update {trainer.state.global_step}: call again to begin anew")


def with_interval(values: Sequence[float], digits: int = 2) -> str:
    """The mean over runs with Student's 95 % interval, or one number alone."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else "-"
    low, high = t_interval(values)
    return f"{mean(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
