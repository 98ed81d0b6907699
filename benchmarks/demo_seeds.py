"""The demo on many seeds, and its controls: every point, written as JSON, a table and a picture.

    python benchmarks/demo_seeds.py --seeds 10 --jobs 2 --output runs/demo_seeds

Each seed is a run of its own: another warm start, other tasks, other draws. The control trains with
the rewards of each group dealt to its episodes at random (`shuffle_rewards`): whatever rises there
does not come from the reward.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tqdm.auto import tqdm

from llm_marl_envs.evaluation.metrics import wilson_interval

SOLVED = 0.9
"""A run has learned if its sampled success on held-out tasks is at least this."""


def run_one(output: Path, seed: int, shuffled: bool, overrides: Sequence[str]) -> dict[str, Any]:
    """One demo in a process of its own; an existing result is kept, so a broken run goes on."""
    folder = output / f"{'shuffled' if shuffled else 'seed'}-{seed}"
    summary = folder / "summary.json"
    if not summary.is_file():
        command = [sys.executable, "-m", "llm_marl_envs.cli", "demo"]
        command += ["--output", str(folder), "--seed", str(seed)]
        more = ["shuffle_rewards=true"] if shuffled else []
        for override in [*overrides, *more]:
            command += ["--override", override]
        with open(output / f"{folder.name}.log", "w", encoding="utf-8") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, stdout=log, stderr=log, check=True, env=environment)
    return json.loads(summary.read_text())


def table(results: Sequence[dict[str, Any]], controls: Sequence[dict[str, Any]]) -> str:
    """Markdown: one row per run, then the summary."""
    lines = [
        "| run | success before | after | 95 % interval | at 0.5 | greedy | match before | after "
        "| success given match | competence after | seconds | MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in (("seed", results), ("shuffled", controls)):
        for row in rows:
            old, new = row["before"], row["after"]
            given = new["success_given_match"]
            competence = " / ".join(f"{value:.2f}" for value in new["competence"].values())
            lines.append(
                f"| {name} {row['seed']} | {old['sampled_success']:.2f} "
                f"| {new['sampled_success']:.2f} | {new['ci95'][0]:.2f} to {new['ci95'][1]:.2f} "
                f"| {new['half_temperature_success']:.2f} | {new['greedy_success']:.2f} "
                f"| {old['convention_match']:.2f} | {new['convention_match']:.2f} "
                f"| {'-' if given is None else f'{given:.2f}'} | {competence} "
                f"| {row['seconds']['total']:.0f} | {row['peak_rss_mib']:.0f} |"
            )
    after = [row["after"]["sampled_success"] for row in results]
    stalled = sum(value < SOLVED for value in after)
    low, high = wilson_interval(stalled, len(after))
    lines += [
        "",
        f"Median sampled success after training: {median(after):.2f} over {len(after)} seeds; "
        f"below {SOLVED}: {stalled} of {len(after)} (95 % Wilson interval {low:.2f} to "
        f"{high:.2f}).",
    ]
    return "\n".join(lines)


def picture(
    path: Path, results: Sequence[dict[str, Any]], controls: Sequence[dict[str, Any]]
) -> None:
    """Every run as a line from before to after, for success and for convention match."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(8, 4), layout="constrained", sharey=True)
    for axes, key, title in zip(
        panels,
        ("sampled_success", "convention_match"),
        ("solved together (temperature 1)", "conventions match"),
        strict=True,
    ):
        for rows, color, name in (
            (results, "tab:blue", "trained"),
            (controls, "tab:gray", "rewards shuffled"),
        ):
            for number, row in enumerate(rows):
                values = [row["before"][key], row["after"][key]]
                label = name if number == 0 else None
                axes.plot([0, 1], values, marker="o", color=color, alpha=0.7, label=label)
        axes.set_title(title)
        axes.set_xticks([0, 1], ["warm start", "after training"])
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of held-out episodes")
    panels[0].legend(loc="lower left")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run, collect, write."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/demo_seeds.py --seeds 10 --controls 3 --jobs 2",
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds (default 10)")
    parser.add_argument("--controls", type=int, default=3, help="shuffled-reward runs (default 3)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default 2)")
    parser.add_argument("--output", type=Path, default=Path("runs/demo_seeds"))
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    jobs = [(seed, False) for seed in range(options.seeds)]
    jobs += [(seed, True) for seed in range(options.controls)]
    with ThreadPoolExecutor(options.jobs) as pool, tqdm(total=len(jobs), unit="run") as bar:

        def work(job: tuple[int, bool]) -> dict[str, Any]:
            result = run_one(options.output, *job, options.override)
            bar.update()
            return result

        rows = list(pool.map(work, jobs))
    results, controls = rows[: options.seeds], rows[options.seeds :]
    text = table(results, controls)
    (options.output / "table.md").write_text(text + "\n", encoding="utf-8")
    (options.output / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    picture(options.output / "seeds.png", results, controls)
    print(text)


if __name__ == "__main__":
    main()
