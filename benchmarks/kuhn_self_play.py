"""Self-play in Kuhn poker with and without past selves: exact exploitability over updates.

    python -m benchmarks.kuhn_self_play --picture docs/self_play.png
    python -m benchmarks.kuhn_self_play --seeds 1 --updates 20 --output runs/look    # a look

Both arms are the preset `kuhn_poker_tiny`; `present` has no pool, so both seats always play with
the present weights. A seed decides tasks, sampling and line-ups; the embedded model is one for all
runs. Before the first update and after every `--every` updates the policy's table is scored
(`exploitability.py`).

Criterion, written after the pilots on seed 0 and before the runs on seeds from 100 on:

- A run's number is its mean exploitability over the last third of the updates.
- The pool is better or worse if the 95 % interval (Student's t) of the differences by seed leaves
  out 0; else the two cannot be told apart.
- A run has collapsed if its `reading` over the last third is below 0.5. That is the chance to call
  a bet with the king less that with the jack, mean of both seats: 1 in every equilibrium, 0 for one
  who looks at no card.

`words` is the lowest chance, over the twelve situations at the end, that one of the two words is
said; other texts are passes.

One JSON file for each run; those that are there are not made again, so a stopped call goes on, and
two calls with one of the `--arms` each can run side by side. Then prints the table. One process,
one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from transformers import TrainerCallback

from benchmarks.exploitability import kuhn_tables
from benchmarks.resumable import options, run_overrides, runs_of, train_to_the_end
from llm_marl_envs.measure.numbers.estimates import t_interval
from trainers.train import build_trainer, model_path, read_run
from trainers.trainer import MAGRPOTrainer

PRESET = "kuhn_poker_tiny"
ARMS: dict[str, list[str]] = {"present": ["schedules=null"], "pool": []}
"""Arm -> overrides of the preset."""
COLOURS = {"present": "#b3541e", "pool": "#2a6f97"}
UNITS = {"update": "updates", "sampled_tokens": "sampled tokens"}
LINES = {"at random": 11 / 24, "always bet": 1 / 3, "equilibrium": 0.0}
TEXT: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 7, "color": "0.4"}


class Measure(TrainerCallback):
    """Scores the policy's table before the first update and after every so many."""

    def __init__(self, trainer: MAGRPOTrainer, every: int) -> None:
        self.trainer, self.every = trainer, every
        self.points: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.measure(0)

    def measure(self, update: int) -> None:
        """Add a point."""
        begun = time.process_time()
        tables = kuhn_tables(self.trainer.team)
        self.points.append(
            {
                "update": update,
                "exploitability": tables.exploitability,
                "bets": [table.tolist() for table in tables.bets],
                "legal": [table.tolist() for table in tables.legal],
                "sampled_tokens": self.trainer.costs.tokens,
                "prompt_tokens": self.trainer.costs.prompt_tokens,
            }
        )
        self.seconds += time.process_time() - begun

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """As transformers calls it."""
        if state.global_step % self.every == 0:
            self.measure(state.global_step)


def run_one(args: argparse.Namespace, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm with one seed, with a table every so many updates."""
    begun = time.process_time()
    with TemporaryDirectory() as folder:
        changes = [*ARMS[arm], *[f"max_steps={args.updates}"] * bool(args.updates)]
        run = read_run(PRESET, [*changes, *run_overrides(args, folder, seed)])
        model_path(run)
        made = time.process_time()
        trainer = build_trainer(run)
        measure = Measure(trainer, args.every)
        trainer.add_callback(measure)
        train_to_the_end(trainer)
        played = [
            {key: value for key, value in log.items() if key.startswith("pool/")}
            for log in trainer.state.log_history
        ]
    return {
        "arm": arm,
        "seed": seed,
        "updates": trainer.state.global_step,
        "points": measure.points,
        "played": [one for one in played if one],
        "cpu_seconds": {
            "model": made - begun,
            "training": time.process_time() - made - measure.seconds,
            "measuring": measure.seconds,
        },
    }


def curve(run: Mapping[str, Any], key: str = "exploitability") -> np.ndarray:
    """A number of every point of a run."""
    return np.array([point[key] for point in run["points"]])


def late(run: Mapping[str, Any], values: np.ndarray) -> float:
    """The mean over the points of the last third of the updates."""
    return float(values[curve(run, "update") >= run["updates"] * 2 / 3].mean())


def reading(run: Mapping[str, Any]) -> np.ndarray:
    """At every point: the chance to call with the king less that with the jack, mean of seats."""
    bets = curve(run, "bets")  # (points, seats, situations)
    return (bets[:, :, 5] - bets[:, :, 3]).mean(1)


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one line for each run, then the means of each arm and of the differences."""
    lines = [
        "| arm | seed | start | lowest | end | last third | reading | words | tokens | CPU s |",
        "|" + "---|" * 10,
    ]
    for run in sorted(runs, key=lambda one: (one["arm"], one["seed"])):
        found = curve(run)
        cells = [run["arm"], str(run["seed"])]
        numbers = [found[0], found.min(), found[-1], late(run, found), late(run, reading(run))]
        numbers.append(np.min(run["points"][-1]["legal"]))
        cells += [f"{one:.3f}" for one in numbers]
        cells += [f"{run['points'][-1]['sampled_tokens']}", f"{run['cpu_seconds']['training']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    by_arm = {arm: {r["seed"]: r for r in runs if r["arm"] == arm} for arm in ARMS}
    scores = {
        arm: {seed: late(run, curve(run)) for seed, run in found.items()}
        for arm, found in by_arm.items()
    }
    for arm, found in by_arm.items():
        collapsed = sum(late(run, reading(run)) < 0.5 for run in found.values())
        lines.append(f"- {arm}: {_mean([*scores[arm].values()])}; collapsed: {collapsed}")
    both = sorted(set(scores["present"]) & set(scores["pool"]))
    gaps = [scores["pool"][seed] - scores["present"][seed] for seed in both]
    lines.append(f"- pool less present, by seed: {_mean(gaps)}")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    """Mean with a 95 % interval over runs."""
    if len(values) < 2:
        return f"{values[0]:.3f} (1 seed)" if values else "-"
    low, high = t_interval(values)
    return f"{np.mean(values):.3f} ({low:.3f} to {high:.3f}, {len(values)} seeds)"


def draw(runs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Exploitability against updates and sampled tokens; thin: each run, thick: the mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axis, unit in zip(figure.subplots(1, 2, sharey=True), UNITS, strict=True):
        for arm, colour in COLOURS.items():
            mine = [run for run in runs if run["arm"] == arm]
            if not mine:
                continue
            xs = np.array([curve(run, unit) for run in mine])
            ys = np.array([curve(run) for run in mine])
            for x, y in zip(xs, ys, strict=True):
                axis.plot(x, y, color=colour, alpha=0.4, linewidth=0.8)
            axis.plot(xs.mean(0), ys.mean(0), color=colour, linewidth=2.5, label=f"{arm}, mean")
        for name, height in LINES.items():
            axis.axhline(height, color="0.4", linewidth=0.8, linestyle=":")
            axis.annotate(name, (0.99, height), xycoords=("axes fraction", "data"), **TEXT)
        axis.set_xlabel(UNITS[unit])
        axis.set_ylim(-0.02)
    axes = figure.axes[0]
    axes.set_ylabel("exploitability, antes per hand")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Make the runs that are missing, then the table and the picture."""
    parser = options("kuhn_self_play", __doc__, output="benchmarks/results/kuhn", seeds=4)
    parser.add_argument("--updates", type=int, default=0, help="0: as the preset says")
    parser.add_argument("--every", type=int, default=4, help="updates between points")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--picture", type=Path, help="draw it there; needs matplotlib")
    args = parser.parse_args()
    due = [
        (f"{arm}-{seed}", partial(run_one, args, arm, seed))
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for arm in args.arms
    ]
    runs = runs_of(args, due)
    print(table(runs))
    if args.picture:
        draw(runs, args.picture)


if __name__ == "__main__":
    main()
