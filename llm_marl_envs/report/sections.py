"""The parts of a report that are tables or charts: key figures, summary, curves, records."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_marl_envs.core.records import countable, measured
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.measure.numbers.diagnosis import Finding, diagnose
from llm_marl_envs.measure.numbers.estimates import Estimate, over_tasks
from llm_marl_envs.measure.numbers.format import NOTHING, interval, number, within
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric
from llm_marl_envs.measure.numbers.values import (
    TaskKey,
    charts,
    logged,
    measure,
    pattern,
    per_task,
    title,
)
from llm_marl_envs.report.charts import COLOURS, Chart, HeldOut, curve_chart, histogram
from llm_marl_envs.report.series import change, clusters_of, curve, estimate_success, points
from llm_marl_envs.report.sources import Run, Transcript
from llm_marl_envs.report.tables import Cell, Table, capital, estimated, table

DISTRIBUTIONS = ("mean_return", "completion_tokens", "chars", "turns_per_agent")
"""What is drawn as a histogram; what is alike in all episodes is not, but for the return."""
KEY_FIGURES = ("success", "mean_return")
TERMS, SOCIETY = "Reward terms", "Society"
"""Charts that have a part of their own."""


@dataclass(frozen=True, slots=True)
class Score:
    """One metric of a transcript: of each episode, of each task, and the mean over these."""

    values: Sequence[float | None]
    per_task: Mapping[TaskKey, float]
    over_tasks: Estimate | None
    clusters: Mapping[TaskKey, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """Large print: what it is, its value on each side, a remark."""

    what: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The first part of a page."""

    figures: tuple[KeyFigure, ...]
    table: Table


Scores = Mapping[str, Score]
UNKNOWN = Score((), {}, None, {})


# -- summary --------------------------------------------------------------------------------------
def scores(transcript: Transcript) -> Scores:
    """Name of a metric -> its score, of the episodes of one transcript that can be counted."""
    played = measured(filter(countable, transcript.episodes))
    by_name: dict[str, Score] = {}
    clusters = clusters_of(played)
    for name, values in measure(played).items():
        each = per_task(played, values)
        if name == "success":
            by_name[name] = Score(values, each, estimate_success(played), clusters)
        elif each:
            estimate = over_tasks([*each.values()], [clusters.get(task, ()) for task in each])
            by_name[name] = Score(values, each, estimate, clusters)
    return by_name


def summary(
    measured: Mapping[str, Scores], failed: Mapping[str, int], pair: tuple[str, str] | None
) -> Summary:
    """Key figures above all measures, of transcripts side by side.

    `failed` counts the episodes of each that failed; `pair` names two that are compared task by
    task.
    """
    return Summary(tuple(_key_figures(measured, failed)), _summary_table(measured, pair))


def _key_figures(measured: Mapping[str, Scores], failed: Mapping[str, int]) -> Iterator[KeyFigure]:
    """The success and return of each transcript, and how many episodes failed."""
    for name in KEY_FIGURES:
        shown = [
            (label, estimate)
            for label, by_name in measured.items()
            if (estimate := by_name.get(name, UNKNOWN).over_tasks) is not None
        ]
        if shown:
            values = " → ".join(number(estimate.mean) for _, estimate in shown)
            ranges = "; ".join(f"{label} {within(estimate)}" for label, estimate in shown)
            yield KeyFigure(title(name), values, f"95 %: {ranges}")
    if any(failed.values()):
        counts = " → ".join(map(str, failed.values()))
        yield KeyFigure("failed episodes", counts, "the environment raised; see docs/measuring.md")


def _summary_table(measured: Mapping[str, Scores], pair: tuple[str, str] | None) -> Table:
    """Every measure of every transcript with its interval, and the paired change of two of them."""
    labels = list(measured)
    pair = pair if set(pair or ()) <= set(measured) else None  # one may hold no episode
    names = list(dict.fromkeys(name for by_name in measured.values() for name in by_name))
    rows: list[list[Cell]] = []
    for name in names:
        estimates = [measured[label].get(name, UNKNOWN).over_tasks for label in labels]
        if all(estimate is None for estimate in estimates):
            continue
        row: list[Cell] = [title(name), *map(estimated, estimates)]
        if pair:
            old, new = (measured[label].get(name, UNKNOWN) for label in pair)
            clusters = {**old.clusters, **new.clusters}
            row.append(estimated(change(old.per_task, new.per_task, clusters)))
        rows.append(row)
    changes = [f"{pair[1]} minus {pair[0]}, paired"] if pair else []
    return table(["per episode", *labels, *changes], rows)


def histograms(measured: Mapping[str, Scores]) -> list[Chart]:
    """Returns and lengths of the episodes of each transcript, where all transcripts have them."""
    drawn = []
    for name in DISTRIBUTIONS:
        of = {label: by_name.get(name, UNKNOWN).values for label, by_name in measured.items()}
        samples = {k: [v for v in row if v is not None and finite(v)] for k, row in of.items()}
        varied = len({v for row in samples.values() for v in row}) > 1
        if samples and all(samples.values()) and (varied or name == "mean_return"):
            metric = METRICS[name]
            drawn.append(histogram(capital(metric.title), samples, unit=metric.unit))
    return drawn


# -- training -------------------------------------------------------------------------------------
def diagnoses(runs: Sequence[Run]) -> list[tuple[str, Finding]]:
    """(run, likely cause why it did not improve); the run's name is "" where there is one run."""
    return [(r.name if len(runs) > 1 else "", finding) for r in runs for finding in diagnose(r.log)]


def curves(runs: Sequence[Run], measured: Mapping[str, Scores]) -> list[Chart]:
    """The charts of the table of metrics of which something was logged, but for those apart."""
    return [
        chart
        for name, metrics in charts().items()
        if name not in (TERMS, SOCIETY)
        for chart in _charts(runs, name, metrics, measured)
    ]


def term_curves(runs: Sequence[Run]) -> list[Chart]:
    """The reward terms over time."""
    return _charts(runs, TERMS, charts()[TERMS], {})


def society_curves(runs: Sequence[Run]) -> list[Chart]:
    """What became of a society, over time."""
    return _charts(runs, SOCIETY, charts()[SOCIETY], {})


def over_one_another(runs: Sequence[Run]) -> list[Chart]:
    """All charts of one run; of several each chart has the lines of each run."""
    return [
        chart
        for name, metrics in charts().items()
        for chart in _charts(runs, name, metrics, {}, apart=len(runs) > 1)
    ]


def _charts(
    runs: Sequence[Run],
    name: str,
    metrics: Sequence[Metric],
    measured: Mapping[str, Scores],
    *,
    apart: bool = False,
) -> list[Chart]:
    """The lines of a chart: means over the runs, or one for each run where they stand apart."""
    named = (
        [(f"{run.name}: ", [run.log]) for run in runs] if apart else [("", [r.log for r in runs])]
    )
    patterns = [pattern(log) for metric in metrics for log in metric.log]
    # A reward term may be called "cut", which the pattern of another chart fits.
    drawn = [
        log
        for log in names(runs, patterns)
        if (metric := logged(log)) is not None and metric.chart == name
    ]
    lines = [
        replace(line, name=f"{run}{log}")
        for log in drawn
        for run, logs in named
        if (line := curve(logs, log)) is not None
    ]
    shown = [line for line in lines if any(line.mean)] or lines
    parts = [shown[i : i + COLOURS] for i in range(0, len(shown), COLOURS)]
    held_out = [point for metric in metrics for point in _held_out(runs, measured, metric)]
    return [
        curve_chart(
            name if len(parts) == 1 else f"{name} ({place + 1} of {len(parts)})",
            part,
            unit=metrics[0].unit,
            held_out=held_out,
        )
        for place, part in enumerate(parts)
    ]


def names(runs: Sequence[Run], patterns: Sequence[str]) -> list[str]:
    """Logged names that match, in the order of the patterns."""
    logged = sorted({name for run in runs for entry in run.log for name in entry})
    return [name for p in patterns for name in logged if fnmatch.fnmatchcase(name, p)]


def _held_out(runs: Sequence[Run], measured: Mapping[str, Scores], metric: Metric) -> list[HeldOut]:
    """The measurements before and after a run, at its first and last update."""
    if len(runs) != 1 or not metric.interval:
        return []
    last = max((float(e["step"]) for e in runs[0].log if finite(e.get("step"))), default=0.0)
    points = []
    for label, step in (("before", 0.0), ("after", last)):
        estimate = measured.get(label, {}).get(metric.name, UNKNOWN).over_tasks
        if estimate is not None:
            points.append(HeldOut(step, estimate))
    return points


def other_scalars(runs: Sequence[Run]) -> Table | None:
    """First and last value of every logged scalar, drawn or not."""
    rows = []
    for run in runs:
        for name in names([run], ("*",)):
            values = [value for _, value in points(run.log, name)]
            if values and name != "step":
                label = name if len(runs) == 1 else f"{run.name}: {name}"
                metric = logged(name)
                what = ("", "") if metric is None else (metric.title, metric.unit)
                ends = number(values[0]), number(values[-1])
                rows.append([label, *what, *ends, str(len(values))])
    return table(["scalar", "what", "unit", "first", "last", "points"], rows) if rows else None


# -- what was recorded ----------------------------------------------------------------------------
def recorded(summary: Mapping[str, Any]) -> list[Table]:
    """Everything in `summary.json`, before and after in columns of one table where it has both.

    The diagnosis is left out: the page has it from the log.
    """
    rest = {key: value for key, value in summary.items() if key != "diagnosis"}
    tables: list[Table] = []
    old, new = summary.get("before"), summary.get("after")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        del rest["before"], rest["after"]
        left, right = dict(flat(old)), dict(flat(new))
        keys = dict.fromkeys([*left, *right])
        rows = [[key, left.get(key, NOTHING), right.get(key, NOTHING)] for key in keys]
        tables.append(table(["measured", "before", "after"], rows))
    if rest:
        tables.append(table(["recorded", "value"], list(flat(rest))))
    return tables


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, text) of every entry; a pair of numbers is shown as a range."""
    for key, entry in value.items():
        name = f"{prefix}{key}"
        if isinstance(entry, Mapping):
            yield from flat(entry, f"{name}.")
        elif isinstance(entry, list) and len(entry) == 2 and all(finite(x) for x in entry):
            yield name, interval((entry[0], entry[1]))
        elif isinstance(entry, list) and len(entry) > 8:
            yield name, f"{len(entry)} entries"
        elif isinstance(entry, list):
            yield name, ", ".join(map(_text, entry))
        else:
            yield name, _text(entry)


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return number(value) if isinstance(value, float) and finite(value) else str(value)
