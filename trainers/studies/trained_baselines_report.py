"""Trained baselines as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from string import ascii_uppercase
from typing import Any

from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.pictures import require_matplotlib
from llm_marl_envs.measure.numbers.estimates import over_runs
from llm_marl_envs.measure.numbers.format import format_table, number, whole, with_interval
from llm_marl_envs.measure.numbers.values import title
from llm_marl_envs.report.series import curve
from trainers.running.folder import LOG_FILE
from trainers.studies.trained_baselines import TEAM

PICTURE_FILE = "trained_baselines.png"
SMOOTH = 8
REACHED = ("success", "mean_return", "cooperation")
COSTS = {
    "tokens": "tokens",
    "prompt_tokens": "train_prompt_tokens",
    "parameters": "trained_parameters",
}
"""Costs in the file -> metric."""


def baselines_table(results: Mapping[str, Any]) -> str:
    """One line per method: means over seeds with Student's 95 % intervals, then the costs."""
    key = headline(results)
    heading = ["", *map(title, (*REACHED, "before", "ahead")), "start"]
    heading += [*map(title, COSTS.values()), title("updates"), title("learning_rate")]
    first = [run["after"][key] for run in results["methods"][TEAM]]
    starts = begun_with(results)
    rows = []
    for name, trained in results["methods"].items():
        rates = [
            f"{rate:g}"
            for run, rate in results["learning_rates"].items()
            if run == name or run.startswith(f"{name}_")
        ]
        reached = [
            _over_seeds([run["after"].get(measure) for run in trained]) for measure in REACHED
        ]
        before = number(mean(run["before"][key] for run in trained))
        ahead = [team - other["after"][key] for team, other in zip(first, trained, strict=True)]
        costs = [_counted(trained, key) for key in COSTS]
        rows.append(
            (
                name,
                *reached,
                before,
                "" if name == TEAM else _over_seeds(ahead),
                starts[name],
                *costs,
                f"{trained[0]['updates']}",
                ", ".join(rates),
            )
        )
    note = (
        f"Means over {len(first)} seeds on {results['tasks']} held-out tasks, Student's 95 % "
        f"intervals over seeds; learning rates tried: {results['trials']}.\n"
        f"{title('before')}, {title('ahead')}: of the {title(key)}; the warm start on the same "
        "tasks, and the difference by seed.\n"
        "start: methods of one letter began with the same weights, seed by seed; another letter is "
        "a warm start on other\ndemonstrations with a tokenizer of its own.\n"
        "tokens, prompt tokens: generated in training, and read before that, each action's whole "
        "prompt; both cost compute,\nthe first are made equal, the second are not."
    )
    return f"{format_table(heading, rows)}\n{note}"


def begun_with(results: Mapping[str, Any]) -> dict[str, str]:
    """Method -> a letter; the same for methods that began with the same weights in every seed."""
    starts = {
        name: tuple(run["start"] for run in trained) for name, trained in results["methods"].items()
    }
    letters = dict(zip(dict.fromkeys(starts.values()), ascii_uppercase, strict=False))
    return {name: letters[start] for name, start in starts.items()}


def headline(results: Mapping[str, Any]) -> str:
    """The metric that methods are compared by: the index where it is known, else the return."""
    trained = [run for some in results["methods"].values() for run in some]
    has_index = all("cooperation" in run[when] for run in trained for when in ("before", "after"))
    return "cooperation" if has_index else "mean_return"


def _counted(trained: Sequence[Mapping[str, Any]], key: str) -> str:
    """The mean of a cost; "-" where it was not counted in each seed."""
    values = [run[key] for run in trained]
    return whole(None if None in values else mean(values))


def _over_seeds(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return with_interval(over_runs(numbers) if numbers else None)


def save_picture(results: Mapping[str, Any], folder: Path) -> Path:
    """Every seed from the warm start to what was trained, and the runs' curves, as an image.

    `folder` holds `trained_baselines.json`, of which `results` is the contents, and the runs' logs.
    """
    height = 1.4 + 0.7 * len(results["methods"])
    figure = require_matplotlib()(figsize=(11, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_points(left, results)
    for number_of, name in enumerate(results["learning_rates"]):
        runs = [f"variant-{name}_*seed-{run['seed']}" for run in results["methods"][TEAM]]
        files = [file for run in runs for file in folder.glob(f"final/{run}/train/{LOG_FILE}")]
        logs = [[json_of(x, file) for x in file.read_bytes().splitlines()] for file in files]
        line = curve(logs, "reward")
        if line is not None:
            right.plot(line.steps, _smooth(line.mean), color=f"C{number_of}", label=name)
    right.set(xlabel="update", ylabel=f"return in training, mean of {SMOOTH} updates")
    right.set_title("mean over seeds")
    right.grid(alpha=0.3)
    if right.lines:
        right.legend(fontsize="small")
    path = folder / PICTURE_FILE
    figure.savefig(path, dpi=150)
    return path


def _draw_points(axes: Any, results: Mapping[str, Any]) -> None:
    """One line per method and seed, from before to after."""
    trained = results["methods"]
    measure = headline(results)
    for place, some in enumerate(trained.values()):
        for i, run in enumerate(some):
            height = place + (i - (len(some) - 1) / 2) * 0.6 / len(some)
            old, new = run["before"][measure], run["after"][measure]
            axes.plot([old, new], [height, height], color="0.8", zorder=1)
            labels = ("warm start", "trained") if place == i == 0 else (None, None)
            axes.scatter([old], [height], color="0.6", s=16, label=labels[0])
            axes.scatter([new], [height], color="tab:blue", s=24, label=labels[1])
        middle = mean(run["after"][measure] for run in some)
        axes.plot([middle, middle], [place - 0.35, place + 0.35], color="tab:red", linewidth=2)
    axes.set_yticks(range(len(trained)), list(trained))
    axes.invert_yaxis()
    axes.set_xlabel(f"{title(measure)}, held-out tasks")
    axes.set_title(f"{results['env_id']}: every seed; red: mean of the trained")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, fontsize="small")


def _smooth(values: Sequence[float]) -> list[float]:
    """The mean of the last `SMOOTH` values up to each."""
    return [mean(values[max(0, end - SMOOTH) : end]) for end in range(1, len(values) + 1)]
