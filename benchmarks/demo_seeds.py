"""The demo on many seeds, and its controls: every point, as JSON, a table and two pictures.

    python benchmarks/demo_seeds.py --seeds 10 --jobs 2 --output runs/demo_seeds
    python benchmarks/demo_seeds.py --preset debate_tiny --control env_kwargs.info=full

Each seed is a run of its own: another warm start, other tasks, other draws. The control trains with
the rewards of each group dealt to its episodes at random (`shuffle_rewards`): whatever rises there
does not come from the reward. Another control can be named, e.g. tasks that one agent can do alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tqdm.auto import tqdm

from llm_marl_envs.evaluation.metrics import wilson_interval
from llm_marl_envs.report.numbers import curve

SOLVED = 0.9
"""A run has learned if its sampled success on held-out tasks is at least this."""


def run_one(options: argparse.Namespace, seed: int, control: bool) -> dict[str, Any]:
    """One demo in a process of its own; an existing result is kept, so a broken run goes on."""
    folder = options.output / f"{'control' if control else 'seed'}-{seed}"
    summary = folder / "summary.json"
    if not summary.is_file():
        command = [sys.executable, "-m", "llm_marl_envs.cli", "demo", "--preset", options.preset]
        command += ["--output", str(folder), "--seed", str(seed)]
        for override in [*options.override, *([options.control] if control else [])]:
            command += ["--override", override]
        with open(options.output / f"{folder.name}.log", "w", encoding="utf-8") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, stdout=log, stderr=log, check=True, env=environment)
    return json.loads(summary.read_text())


COLUMNS: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "cooperation index": lambda row: (row["cooperation"] or {}).get("mean"),
    "above best solo": lambda row: (row["cooperation"] or {}).get("above_solo"),
    "success": lambda row: row["sampled_success"],
    "return": lambda row: row["mean_return"],
    "at 0.5": lambda row: row["half_temperature_success"],
    "greedy": lambda row: row["greedy_success"],
    "match": lambda row: row.get("convention_match"),
    "success given match": lambda row: row.get("success_given_match"),
}
"""What is shown of each run, before and after training."""


def table(results: Sequence[dict[str, Any]], controls: Sequence[dict[str, Any]]) -> str:
    """Markdown: one row per run, each number as before -> after, then the summary."""
    rows = [(f"seed {row['seed']}", row) for row in results]
    rows += [(f"control {row['seed']}", row) for row in controls]
    shown = {
        name: read
        for name, read in COLUMNS.items()
        if any(read(row["after"]) is not None for _, row in rows)
    }
    names = ["run", *shown, "95 % interval of success", "competence after", "seconds", "MiB"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for name, row in rows:
        old, new = row["before"], row["after"]
        cells = [f"{_number(read(old))} -> {_number(read(new))}" for read in shown.values()]
        low, high = new["ci95"]
        competence = " / ".join(f"{value:.2f}" for value in new.get("competence", {}).values())
        cells += [f"{low:.2f} to {high:.2f}", competence or "-"]
        cells += [f"{row['seconds']['total']:.0f}", f"{row['peak_rss_mib']:.0f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_summary(results)])


def _summary(results: Sequence[dict[str, Any]]) -> list[str]:
    after = [row["after"]["sampled_success"] for row in results]
    stalled = sum(value < SOLVED for value in after)
    low, high = wilson_interval(stalled, len(after))
    lines = [
        f"Median sampled success after training: {median(after):.2f} over {len(after)} seeds; "
        f"below {SOLVED}: {stalled} of {len(after)} (95 % Wilson interval {low:.2f} to "
        f"{high:.2f})."
    ]
    if all((row["after"]["cooperation"] or {}).get("mean") is not None for row in results):
        rises = [
            row["after"]["cooperation"]["mean"] - row["before"]["cooperation"]["mean"]
            for row in results
        ]
        lines.append(
            f"Rise of the cooperation index: median {median(rises):.2f}, smallest "
            f"{min(rises):.2f}, largest {max(rises):.2f}."
        )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def picture(
    path: Path, results: Sequence[dict[str, Any]], controls: Sequence[dict[str, Any]]
) -> None:
    """Every run as a line from before to after, for success and the cooperation index."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axes, key in zip(panels, ("success", "cooperation index"), strict=True):
        for rows, color, name in (
            (results, "tab:blue", "trained"),
            (controls, "tab:gray", "control"),
        ):
            for number, row in enumerate(rows):
                values = [COLUMNS[key](row["before"]), COLUMNS[key](row["after"])]
                if None in values:
                    continue
                label = name if number == 0 else None
                axes.plot([0, 1], values, marker="o", color=color, alpha=0.7, label=label)
        axes.set_title(key)
        axes.set_xticks([0, 1], ["warm start", "after training"])
        axes.set_ylim(top=1.02)
        axes.margins(x=0.15)
        axes.grid(alpha=0.3)
    panels[0].legend(loc="best")
    figure.suptitle("held-out tasks, temperature 1: every run", fontsize="medium")
    figure.savefig(path, dpi=150)


def curves(path: Path, folder: Path) -> None:
    """Return and success on training tasks over updates: every run, and their mean."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kinds = {"seed": ("trained", "tab:blue"), "control": ("control", "tab:gray")}
    logs = {kind: _logs(folder, kind) for kind in kinds}
    found = {
        scalar: {kind: one for kind in kinds if (one := curve(logs[kind], scalar)) is not None}
        for scalar in ("reward", "success")
    }
    if [c.members for c in found["reward"].values()] == [
        c.members for c in found["success"].values()
    ]:
        del found["success"]  # the reward is success: one panel says it
    figure, panels = pyplot.subplots(
        1, len(found), figsize=(4.4 * len(found), 3.4), squeeze=False, layout="constrained"
    )
    for axes, (scalar, by_kind) in zip(panels[0], found.items(), strict=True):
        for kind, one in by_kind.items():
            name, color = kinds[kind]
            for member in one.members:
                axes.plot(*zip(*member, strict=True), color=color, alpha=0.45, linewidth=0.8)
            axes.plot(one.steps, one.mean, color=color, label=f"{name}, mean of {len(logs[kind])}")
        low, high = axes.get_ylim()
        for kind, one in by_kind.items():  # the band may be wider than any run
            axes.fill_between(one.steps, one.low, one.high, color=kinds[kind][1], alpha=0.15)
        axes.set(xlabel="update", ylabel="team return" if scalar == "reward" else scalar)
        axes.set_ylim(low, high)
        axes.grid(alpha=0.3)
    panels[0][0].legend(loc="best", fontsize="small")
    figure.suptitle("training tasks, temperature 1", fontsize="medium")
    figure.savefig(path, dpi=150)


def _logs(folder: Path, kind: str) -> list[list[dict[str, Any]]]:
    files = sorted(folder.glob(f"{kind}-*/train/log.jsonl"))
    return [[json.loads(x) for x in f.read_text("utf-8").splitlines()] for f in files]


def main() -> None:
    """Run, collect, write."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/demo_seeds.py --seeds 10 --controls 3 --jobs 2",
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds (default 10)")
    parser.add_argument("--preset", default="coop_coding_tiny", help="default coop_coding_tiny")
    parser.add_argument("--controls", type=int, default=3, help="control runs (default 3)")
    parser.add_argument(
        "--control",
        default="shuffle_rewards=true",
        metavar="KEY=VALUE",
        help="what makes a run a control (default shuffle_rewards=true)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default 2)")
    parser.add_argument("--output", type=Path, default=Path("runs/demo_seeds"))
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    jobs = [(seed, False) for seed in range(options.seeds)]
    jobs += [(seed, True) for seed in range(options.controls)]
    with ThreadPoolExecutor(options.jobs) as pool, tqdm(total=len(jobs), unit="run") as bar:

        def work(job: tuple[int, bool]) -> dict[str, Any]:
            result = run_one(options, *job)
            bar.update()
            return result

        rows = list(pool.map(work, jobs))
    results, controls = rows[: options.seeds], rows[options.seeds :]
    text = table(results, controls)
    (options.output / "table.md").write_text(text + "\n", encoding="utf-8")
    (options.output / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    picture(options.output / "seeds.png", results, controls)
    curves(options.output / "curves.png", options.output)
    print(text)


if __name__ == "__main__":
    main()
