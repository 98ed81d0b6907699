"""The demo on many seeds, and its controls: every point, as JSON, a table and pictures.

    python benchmarks/demo_seeds.py --seeds 10 --controls 3 --partners 10 --jobs 2
    python benchmarks/demo_seeds.py --preset debate_tiny --first-seed 200 --seeds 5
    python benchmarks/demo_seeds.py --preset debate_tiny --control env_kwargs.info=full

Each seed is a run of its own: another warm start, other tasks, other draws. `--first-seed` takes
fresh ones, on which no setting was chosen. Two kinds of control share seeds with them. `--controls`
trains with the rewards of each group dealt to its episodes at random (`shuffle_rewards`, or what
`--control` says): whatever rises there does not come from the reward, but competence is lost as
well. `--partners` pays each seat for its own text beside a scripted partner whose convention is
drawn for every episode (`random_partner`): competence pays, agreement does not.

At last the trained teams of the seeds play each other. A run that has finished is not made again,
so a broken command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

from tqdm.auto import tqdm

from llm_marl_envs import make
from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.files.json_files import claim
from llm_marl_envs.measure.numbers.estimates import t_interval, wilson_interval
from llm_marl_envs.measure.studies.cross_play import axes_of
from llm_marl_envs.report.series import curve

STALLED = 0.9
"""A run has stalled if its success, or its cooperation index, on held-out tasks is below this."""
SPLIT = "test"
KINDS = {
    "seed": ("trained", "tab:blue"),
    "control": ("control", "tab:gray"),
    "partner": ("random partner", "tab:orange"),
}
"""Kind of run, which begins its folder's name -> its name and color in pictures."""

Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""Kind -> the summaries of its runs."""


# -- running ---------------------------------------------------------------------------------------
def overrides_of(options: argparse.Namespace, kind: str) -> list[str]:
    """What a kind of run changes in the preset."""
    own = {"seed": [], "control": [options.control], "partner": ["random_partner=true"]}
    return [*options.override, *own[kind]]


def run_one(options: argparse.Namespace, kind: str, seed: int) -> dict[str, Any]:
    """One demo in a process of its own; an existing result is kept, so a broken run goes on.

    Raises:
        RuntimeError: the demo failed; its log is named.
    """
    folder = options.output / f"{kind}-{seed}"
    summary = folder / "summary.json"
    if not summary.is_file():
        command = [sys.executable, "-m", "llm_marl_envs.cli", "demo", "--preset", options.preset]
        command += ["--output", str(folder), "--seed", str(seed)]
        for override in overrides_of(options, kind):
            command += ["--override", override]
        path = options.output / f"{folder.name}.log"
        with open(path, "w", encoding="utf-8") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            status = subprocess.run(command, stdout=log, stderr=log, env=environment).returncode
        if status:
            raise RuntimeError(f"{folder.name}: the demo ended with status {status}; see {path}")
    return json.loads(summary.read_text("utf-8"))


def run_all(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Kind -> the summaries of its runs, in the order of the seeds."""
    counts = {"seed": options.seeds, "control": options.controls, "partner": options.partners}
    jobs = [(kind, options.first_seed + i) for kind, count in counts.items() for i in range(count)]
    with ThreadPoolExecutor(options.jobs) as pool, tqdm(total=len(jobs), unit="run") as bar:

        def work(job: tuple[str, int]) -> tuple[str, dict[str, Any]]:
            result = run_one(options, *job)
            bar.update()
            return job[0], result

        done = list(pool.map(work, jobs))
    return {kind: [row for of, row in done if of == kind] for kind in counts}


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot run, and a folder of runs with other settings, before anything is run.

    Raises:
        ValueError: the message says what does not fit.
    """
    from trainers.experience.collect import check_random_partner
    from trainers.train import read_run

    if min(options.first_seed, options.controls, options.partners) < 0 or options.seeds < 1:
        raise ValueError("expected at least one seed, and no number below 0")
    run = read_run(options.preset, options.override)
    if options.partners:
        check_random_partner(make(run["env"], **(run.get("env_kwargs") or {})))
    asked = {name: getattr(options, name) for name in ("preset", "override", "control")}
    claim(options.output / "settings.json", asked, "set of runs")


# -- numbers ---------------------------------------------------------------------------------------
def chosen_match(point: Mapping[str, Any]) -> float | None:
    """Share of agreement over the tasks that several conventions can solve."""
    choices = point.get("match_by_choice") or ()
    episodes = sum(one["episodes"] for one in choices)
    return sum(one["matching"] for one in choices) / episodes if episodes else None


def chance(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """`chosen_match` of seats that each keep to any convention, whatever the others do."""
    choices = [one for row in rows for one in row["after"].get("match_by_choice") or ()]
    episodes = sum(one["episodes"] for one in choices)
    agree = sum(one["episodes"] / len(one["conventions"]) for one in choices)
    return agree / episodes if episodes else None


def of_split(point: Mapping[str, Any], split: str) -> float | None:
    """Success on a split that holds more back than `SPLIT`, None where there is none.

    Summaries of older versions have none.
    """
    return point.get("splits", {}).get(split, {}).get("sampled_success")


COLUMNS: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "cooperation index": lambda point: (point["cooperation"] or {}).get("mean"),
    "above best solo": lambda point: (point["cooperation"] or {}).get("above_solo"),
    "success": lambda point: point["sampled_success"],
    "success, new prompts": lambda point: of_split(point, "test_prompts"),
    "success, ood": lambda point: of_split(point, "ood"),
    "return": lambda point: point["mean_return"],
    "at 0.5": lambda point: point["half_temperature_success"],
    "greedy": lambda point: point["greedy_success"],
    "match": lambda point: point.get("convention_match"),
    "match where there is a choice": chosen_match,
    "success given match": lambda point: point.get("success_given_match"),
}
"""What is shown of each run, before and after training."""


def table(runs: Runs) -> str:
    """Markdown: one row per run, each number as before -> after, then what they come to."""
    rows = [(f"{kind} {row['seed']}", row) for kind, some in runs.items() for row in some]
    shown = {
        name: read
        for name, read in COLUMNS.items()
        if any(read(row["after"]) is not None for _, row in rows)
    }
    names = ["run", *shown, "95 % interval of success", "competence after", "seconds", "MiB"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for name, row in rows:
        old, new = row["before"], row["after"]
        cells = [f"{number(read(old))} -> {number(read(new))}" for read in shown.values()]
        low, high = new["ci95"]
        competence = " / ".join(f"{value:.2f}" for value in new.get("competence", {}).values())
        cells += [f"{low:.2f} to {high:.2f}", competence or "-"]
        cells += [f"{row['seconds']['total']:.0f}", f"{row['peak_rss_mib']:.0f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary_of(runs: Runs) -> dict[str, Any]:
    """Kind -> name of a number -> median and worst before and after, and how many runs stalled."""
    found: dict[str, Any] = {}
    for kind, rows in runs.items():
        for name, read in COLUMNS.items():
            points = [(read(row["before"]), read(row["after"])) for row in rows]
            known = [(old, new) for old, new in points if old is not None and new is not None]
            if known and len(known) == len(points):
                found.setdefault(kind, {})[name] = _summed_up(name, known)
    return found


def _summed_up(name: str, points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    old, new = ([point[i] for point in points] for i in (0, 1))
    one: dict[str, Any] = {"runs": len(points)}
    for when, values in (("before", old), ("after", new), ("rise", [b - a for a, b in points])):
        one[when] = {"median": median(values), "worst": min(values), "best": max(values)}
    one["after"] |= {"mean": mean(new), "mean_ci95": t_interval(new) if len(new) > 1 else None}
    if name in ("success", "cooperation index"):
        stalls = sum(value < STALLED for value in new)
        one |= {"stalls": stalls, "stalls_ci95": wilson_interval(stalls, len(new))}
    return one


def sentences(runs: Runs, summary: Mapping[str, Any]) -> str:
    """The summary in Markdown: a table of every kind, then the match beside its chance."""
    heads = ["runs of a kind", "number", "before: median", "worst", "after: median", "worst"]
    heads += ["rise: median", "worst", f"stalls (below {STALLED})", "95 % Wilson interval"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for kind, numbers in summary.items():
        for name, one in numbers.items():
            cells = [f"{KINDS[kind][0]} ({one['runs']})", name]
            cells += [
                f"{one[when][how]:.2f}"
                for when in ("before", "after", "rise")
                for how in ("median", "worst")
            ]
            low, high = one.get("stalls_ci95") or (None, None)
            stalls = f"{one['stalls']} of {one['runs']}" if "stalls" in one else ""
            cells += [stalls, f"{low:.2f} to {high:.2f}" if low is not None else ""]
            lines.append(f"| {' | '.join(cells)} |")
    for kind, numbers in summary.items():
        one, expected = numbers.get("match where there is a choice"), chance(runs[kind])
        if one and expected is not None:
            after, ci = one["after"], one["after"]["mean_ci95"]
            interval = f" (95 % interval over runs {ci[0]:.2f} to {ci[1]:.2f})" if ci else ""
            lines += [
                "",
                f"{KINDS[kind][0].capitalize()}: match after training where there is a choice: "
                f"mean {after['mean']:.2f}{interval}, {after['worst']:.2f} to {after['best']:.2f}; "
                f"two that draw evenly and apart: {expected:.2f}.",
            ]
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Two digits, "-" for nothing."""
    return "-" if value is None else f"{value:.2f}"


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    with replacing(path) as partial:
        Path(partial).write_text(text + "\n", encoding="utf-8")


# -- cross-play ------------------------------------------------------------------------------------
def cross(options: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> Any:
    """The trained teams of all seeds in every pairing; None for fewer than two or no tasks."""
    if len(rows) < 2 or not options.cross_tasks:
        return None
    import torch

    from llm_marl_envs.measure.paired import Stage
    from llm_marl_envs.measure.progress import counter
    from llm_marl_envs.measure.runner import Plan
    from llm_marl_envs.measure.studies.cross_play import cross_play
    from llm_marl_envs.measure.studies.cross_play_files import read_cross_play, write_cross_play
    from llm_marl_envs.policies.named import Context, named_team

    torch.set_num_threads(1)
    folders = {f"seed {row['seed']}": options.output / f"seed-{row['seed']}" for row in rows}
    file = options.output / "cross_play.json"
    newest = max((folder / "summary.json").stat().st_mtime for folder in folders.values())
    if file.is_file() and file.stat().st_mtime > newest:
        result = read_cross_play(file)[0]
        tasks = {len(one) for row in result.scores for one in row}
        if result.teams == tuple(folders) and tasks == {options.cross_tasks}:
            return result
    kwargs = {**rows[0]["env_kwargs"], "split": SPLIT}
    env = make(rows[0]["env"], **kwargs)
    teams = {
        name: named_team(str(folder / "team"), Context(env=env)).seats
        for name, folder in folders.items()
    }
    with counter(None, "cross-play") as progress:
        plan = Plan(n_tasks=options.cross_tasks)
        stage = Stage(lambda: make(rows[0]["env"], **kwargs), plan, progress=progress)
        result = cross_play(stage, teams)
        stage.close()
    write_cross_play(file, result)
    return result


def matrices(result: Any) -> dict[str, list[list[float]]]:
    """Name -> matrix of a cross-play."""
    found = {"return": result.matrix, "success": result.success_matrix}
    found["match"] = result.match_matrix
    return {name: matrix for name, matrix in found.items() if matrix is not None}


def cross_text(result: Any) -> str:
    """Markdown: a matrix for each number, and what strangers lose."""
    row, column = axes_of(result.agents)
    parts = [
        f"Teams of the seeds, {len(result.scores[0][0])} held-out tasks. The team of a row {row}; "
        f"that of a column {column}."
    ]
    for name, matrix in matrices(result).items():
        heads = [name, *result.teams]
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for team, values in zip(result.teams, matrix, strict=True):
            lines.append(f"| {' | '.join([team, *map(number, values)])} |")
        own = mean(matrix[i][i] for i in range(len(matrix)))
        others = mean(v for i, some in enumerate(matrix) for j, v in enumerate(some) if i != j)
        lines += ["", f"Mean {name}: {own:.2f} with itself, {others:.2f} with others."]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


# -- pictures --------------------------------------------------------------------------------------
def panels_of(count: int, width: float, height: float) -> tuple[Any, Any, Any]:
    """Pyplot without a display, a figure, and a row of so many panels of so many inches."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plot

    size = (width * count, height)
    figure, panels = plot.subplots(1, count, figsize=size, squeeze=False, layout="constrained")
    return plot, figure, panels[0]


def picture(path: Path, runs: Runs) -> None:
    """Every run as a line from before to after, one panel for each of three numbers."""
    keys = ("success", "cooperation index", "match where there is a choice")
    points = {
        key: {
            kind: [
                values
                for row in rows
                if None not in (values := [COLUMNS[key](row[when]) for when in ("before", "after")])
            ]
            for kind, rows in runs.items()
        }
        for key in keys
    }
    shown = {key: kinds for key, kinds in points.items() if any(kinds.values())}
    plot, figure, panels = panels_of(len(shown), 4, 4)
    for axes, (key, kinds) in zip(panels, shown.items(), strict=True):
        for kind, lines in kinds.items():
            name, color = KINDS[kind]
            for i, values in enumerate(lines):
                label = name if i == 0 else None
                axes.plot([0, 1], values, marker="o", color=color, alpha=0.7, label=label)
        axes.set_title(key, fontsize="medium")
        axes.set_xticks([0, 1], ["warm start", "after training"])
        axes.set_ylim(top=1.02)
        axes.margins(x=0.15)
        axes.grid(alpha=0.3)
    panels[0].legend(loc="best")
    figure.suptitle("held-out tasks, temperature 1: every run", fontsize="medium")
    figure.savefig(path, dpi=150)
    plot.close(figure)


def match_picture(path: Path, runs: Runs) -> None:
    """The match after training of every run, apart for each choice of conventions."""
    choices = {
        tuple(one["conventions"])
        for rows in runs.values()
        for row in rows
        for one in row["after"].get("match_by_choice") or ()
    }
    if not choices:
        return
    plot, figure, panels = panels_of(len(choices), 3.6, 3.6)
    kinds = [kind for kind, rows in runs.items() if rows]
    for axes, conventions in zip(panels, sorted(choices), strict=True):
        for x, kind in enumerate(kinds):
            shares = [
                one["matching"] / one["episodes"]
                for row in runs[kind]
                for one in row["after"].get("match_by_choice") or ()
                if tuple(one["conventions"]) == conventions
            ]
            places = [x + 0.3 * (i / max(1, len(shares) - 1) - 0.5) for i in range(len(shares))]
            axes.plot(places, shares, "o", color=KINDS[kind][1], alpha=0.7)
            axes.plot([x - 0.25, x + 0.25], [mean(shares)] * 2, color=KINDS[kind][1])
        axes.axhline(1 / len(conventions), color="black", linestyle=":", linewidth=1)
        axes.set_title(" or ".join(conventions), fontsize="medium")
        axes.set_xticks(range(len(kinds)), [KINDS[kind][0] for kind in kinds])
        axes.set(ylim=(-0.03, 1.03), xlim=(-0.5, len(kinds) - 0.5))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("match")
    figure.suptitle("after training: every run, the mean, and drawing by lot", fontsize="medium")
    figure.savefig(path, dpi=150)
    plot.close(figure)


def cross_picture(path: Path, result: Any) -> None:
    """The matrices of success and match, or of the return where there is no success."""
    found = matrices(result)
    shown = {name: found[name] for name in ("success", "match") if name in found} or found
    side = 2 + 0.45 * len(result.teams)
    plot, figure, panels = panels_of(len(shown), side, side)
    for axes, (name, matrix) in zip(panels, shown.items(), strict=True):
        image = axes.imshow(matrix, cmap="viridis", vmin=0, vmax=1)
        for i, values in enumerate(matrix):
            for j, value in enumerate(values):
                color = "white" if value < 0.5 else "black"
                text = f"{value:.2f}"
                axes.text(j, i, text, ha="center", va="center", color=color, fontsize="x-small")
        axes.set_xticks(range(len(result.teams)), result.teams, rotation=45, ha="right")
        axes.set_yticks(range(len(result.teams)), result.teams)
        row, column = axes_of(result.agents)
        axes.set_xlabel(f"column {column}", fontsize="small")
        axes.set_ylabel(f"row {row}", fontsize="small")
        axes.set_title(name, fontsize="medium")
        figure.colorbar(image, ax=axes, shrink=0.8)
    figure.savefig(path, dpi=150)
    plot.close(figure)


def curves(path: Path, folder: Path, runs: Runs) -> None:
    """Return and success on training tasks over updates: every run, and their mean."""
    logs = {kind: _logs(folder, kind, rows) for kind, rows in runs.items()}
    found = {
        scalar: {kind: one for kind in runs if (one := curve(logs[kind], scalar)) is not None}
        for scalar in ("reward", "success")
    }
    if [c.members for c in found["reward"].values()] == [
        c.members for c in found["success"].values()
    ]:
        del found["success"]  # the reward is success: one panel says it
    plot, figure, panels = panels_of(len(found), 4.4, 3.4)
    for axes, (scalar, by_kind) in zip(panels, found.items(), strict=True):
        for kind, one in by_kind.items():
            name, color = KINDS[kind]
            for member in one.members:
                axes.plot(*zip(*member, strict=True), color=color, alpha=0.45, linewidth=0.8)
            axes.plot(one.steps, one.mean, color=color, label=f"{name}, mean of {len(logs[kind])}")
        low, high = axes.get_ylim()
        for kind, one in by_kind.items():  # the band may be wider than any run
            axes.fill_between(one.steps, one.low, one.high, color=KINDS[kind][1], alpha=0.15)
        axes.set(xlabel="update", ylabel="team return" if scalar == "reward" else scalar)
        axes.set_ylim(low, high)
        axes.grid(alpha=0.3)
    panels[0].legend(loc="best", fontsize="small")
    figure.suptitle("training tasks, temperature 1", fontsize="medium")
    figure.savefig(path, dpi=150)
    plot.close(figure)


def _logs(folder: Path, kind: str, rows: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    files = [folder / f"{kind}-{row['seed']}" / "train" / "log.jsonl" for row in rows]
    return [[json.loads(x) for x in f.read_text("utf-8").splitlines()] for f in files]


# -- the command -----------------------------------------------------------------------------------
def asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/demo_seeds.py --seeds 10 --controls 3 --jobs 2",
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds (default 10)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first one (default 0)")
    parser.add_argument("--preset", default="coop_coding_tiny", help="default coop_coding_tiny")
    parser.add_argument("--controls", type=int, default=3, help="control runs (default 3)")
    parser.add_argument(
        "--control",
        default="shuffle_rewards=true",
        metavar="KEY=VALUE",
        help="what makes a run a control (default shuffle_rewards=true)",
    )
    parser.add_argument(
        "--partners", type=int, default=0, help="runs beside random partners (default 0)"
    )
    parser.add_argument(
        "--cross-tasks",
        type=int,
        default=64,
        help="tasks of each pairing of the cross-play; 0 leaves it out (default 64)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default 2)")
    parser.add_argument("--output", type=Path, default=Path("runs/demo_seeds"))
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def main() -> None:
    """Run, collect, write."""
    options = asked()
    check(options)
    runs = run_all(options)
    summary = summary_of(runs)
    result = cross(options, runs["seed"])
    text = f"{table(runs)}\n\n{sentences(runs, summary)}"
    everything: dict[str, Any] = {"preset": options.preset, "runs": runs, "summary": summary}
    if result is not None:
        text += f"\n\n{cross_text(result)}"
        everything["cross_play"] = {"teams": result.teams, **matrices(result)}
        cross_picture(options.output / "cross_play.png", result)
    write(options.output / "table.md", text)
    write(options.output / "results.json", json.dumps(everything, indent=1))
    picture(options.output / "seeds.png", runs)
    match_picture(options.output / "match.png", runs)
    curves(options.output / "curves.png", options.output, runs)
    print(text)


if __name__ == "__main__":
    main()
