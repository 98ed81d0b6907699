"""`llm-marl report`: one HTML file of a folder of results."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def add_reporting(add: Callable[..., Any]) -> None:
    """Register the command; `add` is `cli.py`'s."""
    command = add(
        "report",
        _report,
        "Write one self-contained HTML file of what a demo, a training run or an evaluation left "
        "in a folder.",
        "runs/demo --output report.html",
    )
    command.add_argument("folder", help="folder with summary.json, logs or transcripts")
    command.add_argument("--output", help="the file (default report.html in the folder)")
    command.add_argument(
        "--against",
        metavar="FOLDER",
        help="another evaluation to show beside this one; both go by their folders' names",
    )
    command.add_argument(
        "--cross-play", metavar="FILE", help="cross_play.json, where it is not in the folder"
    )
    command.add_argument(
        "--episodes", type=int, default=12, help="how many episodes to show (default 12)"
    )


def _report(options: argparse.Namespace) -> None:
    from llm_marl_envs.report import write_report

    path = write_report(
        options.folder,
        options.output,
        against=options.against,
        cross_play=options.cross_play,
        most_episodes=options.episodes,
    )
    print(f"report written to {path}")
