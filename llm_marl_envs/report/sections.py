"""The parts of a report that are tables or charts: key figures, summary, curves, records."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.records import Episode, living
from llm_marl_envs.report.axes import number, span
from llm_marl_envs.report.charts import COLOURS, Chart, HeldOut, curve_chart, histogram
from llm_marl_envs.report.series import (
    SOLVED,
    Estimate,
    change,
    characters,
    curve,
    estimate,
    estimate_success,
    finite,
    measures,
    per_task,
)
from llm_marl_envs.report.sources import Run, Transcript
from llm_marl_envs.report.tables import Cell, Table, estimated, table

# Title, unit, names of scalars (patterns) in one chart; the order is that of the report. The names
# and units are those of `trainers.running.metrics`, which needs torch and is not imported.
CHARTS = (
    ("Team return", "reward", ("reward", "eval_reward")),
    ("Solved", "share", ("success", "eval_success")),
    ("Spread of returns inside a group", "reward", ("reward_std",)),
    ("Groups without a signal", "share", ("frac_reward_zero_std",)),
    ("Failed episodes", "count", ("episodes/failed", "eval_failed")),
    ("Tokens per action", "tokens", ("*/tokens",)),
    ("Actions cut", "share", ("*/cut", "*/action_truncated", "truncated")),
    ("Entropy", "nats per token", ("entropy", "*/entropy")),
    ("KL to the start", "nats per token", ("kl", "*/kl")),
    ("Gradient norm before clipping", "norm", ("*/grad_norm",)),
)
TERMS = ("Reward terms", "reward", ("reward_terms/*",))
HELD_OUT = {"reward": "team return", "success": SOLVED}


@dataclass(frozen=True, slots=True)
class Score:
    """One measure of a transcript: (task, seed) -> its mean, and the mean over these."""

    per_task: Mapping[tuple[str, int], float]
    over_tasks: Estimate | None


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
NOTHING = Score({}, None)


# -- summary --------------------------------------------------------------------------------------
def scores(transcript: Transcript) -> Scores:
    """Measure -> its score, of the episodes of one transcript that did not fail."""
    played = living(transcript.episodes)
    found = {name: per_task(played, values) for name, values in measures(played).items()}
    return {
        name: Score(each, estimate_success(played) if name == SOLVED else estimate(each.values()))
        for name, each in found.items()
    }


def summary(
    measured: Mapping[str, Scores], failed: Mapping[str, int], pair: tuple[str, str] | None
) -> Summary:
    """Key figures above all measures, of transcripts side by side.

    Args:
        measured: label -> the scores of its transcript.
        failed: label -> how many of its episodes failed.
        pair: labels of two that are compared task by task; None without such.
    """
    return Summary(tuple(_key_figures(measured, failed)), _summary_table(measured, pair))


def _key_figures(measured: Mapping[str, Scores], failed: Mapping[str, int]) -> Iterator[KeyFigure]:
    """The success and return of each transcript, and how many episodes failed."""
    for name in (SOLVED, "team return"):
        shown = [
            (label, one)
            for label, found in measured.items()
            if (one := found.get(name, NOTHING).over_tasks) is not None
        ]
        if shown:
            values = " → ".join(number(one.mean) for _, one in shown)
            ranges = "; ".join(f"{label} {span(one.interval)}" for label, one in shown)
            yield KeyFigure(name, values, f"95 %: {ranges}")
    if any(failed.values()):
        counts = " → ".join(map(str, failed.values()))
        yield KeyFigure("failed episodes", counts, "the environment raised; they are in no mean")


def _summary_table(measured: Mapping[str, Scores], pair: tuple[str, str] | None) -> Table:
    """Every measure of every transcript with its interval, and the paired change of two of them."""
    labels = list(measured)
    pair = pair if set(pair or ()) <= set(measured) else None  # one may hold no episode
    names = list(dict.fromkeys(name for found in measured.values() for name in found))
    rows: list[list[Cell]] = []
    for name in names:
        estimates = [measured[label].get(name, NOTHING).over_tasks for label in labels]
        if all(one is None for one in estimates):
            continue
        row: list[Cell] = [name, *map(estimated, estimates)]
        if pair:
            old, new = (measured[label].get(name, NOTHING).per_task for label in pair)
            row.append(estimated(change(old, new)))
        rows.append(row)
    changes = [f"{pair[1]} minus {pair[0]}, paired"] if pair else []
    return table(["per episode", *labels, *changes], rows)


def histograms(measured: Mapping[str, Transcript]) -> list[Chart]:
    """Of returns, of lengths in tokens where those were counted else in characters."""
    given = {label: some for label, one in measured.items() if (some := living(one.episodes))}
    if not given:
        return []
    returns = {k: [e.team_return for e in some] for k, some in given.items()}
    charts = [("Team returns", returns, "team return")]
    tokens = {k: list(_token_counts(some)) for k, some in given.items()}
    if all(len(tokens[k]) == len(given[k]) for k in given):
        charts.append(("Lengths in tokens", tokens, "tokens per episode"))
    texts = {k: [characters(e) for e in some] for k, some in given.items()}
    charts.append(("Lengths in characters", texts, "characters per episode"))
    turns = {k: [e.turns_per_agent for e in some] for k, some in given.items()}
    if len({count for row in turns.values() for count in row}) > 1:
        charts.append(("Lengths in turns", turns, "turns per agent"))
    return [
        histogram(title, {k: [v for v in row if finite(v)] for k, row in s.items()}, unit=u)
        for title, s, u in charts
    ]


def _token_counts(episodes: Sequence[Episode]) -> Iterator[float]:
    """Completion tokens of each episode whose actions were all counted."""
    for episode in episodes:
        counts = [turn.response.tokens for turn in episode.turns]
        if counts and None not in counts:
            yield float(sum(one[1] for one in counts if one is not None))


# -- training -------------------------------------------------------------------------------------
def curves(runs: Sequence[Run], measured: Mapping[str, Scores]) -> list[Chart]:
    """One chart for each entry of `CHARTS` that the runs logged."""
    return [one for chart in CHARTS for one in _charts(runs, chart, measured)]


def term_curves(runs: Sequence[Run]) -> list[Chart]:
    """The reward terms over time."""
    return _charts(runs, TERMS, {})


def _charts(
    runs: Sequence[Run],
    chart: tuple[str, str, tuple[str, ...]],
    measured: Mapping[str, Scores],
) -> list[Chart]:
    title, unit, patterns = chart
    logs = [run.log for run in runs]
    found = [one for name in names(runs, patterns) if (one := curve(logs, name)) is not None]
    told = [one for one in found if any(one.mean)] or found
    parts = [told[i : i + COLOURS] for i in range(0, len(told), COLOURS)]
    points = _held_out(runs, measured, HELD_OUT.get(patterns[0], ""))
    return [
        curve_chart(
            title if len(parts) == 1 else f"{title} ({place + 1} of {len(parts)})",
            part,
            unit=unit,
            held_out=points,
        )
        for place, part in enumerate(parts)
    ]


def names(runs: Sequence[Run], patterns: Sequence[str]) -> list[str]:
    """Logged names that match, in the order of the patterns."""
    logged = sorted({name for run in runs for entry in run.log for name in entry})
    return [name for p in patterns for name in logged if fnmatch.fnmatchcase(name, p)]


def _held_out(runs: Sequence[Run], measured: Mapping[str, Scores], name: str) -> list[HeldOut]:
    """The measurements before and after a run, at its first and last update."""
    if len(runs) != 1 or not name:
        return []
    last = max((float(e["step"]) for e in runs[0].log if finite(e.get("step"))), default=0.0)
    points = []
    for label, step in (("before", 0.0), ("after", last)):
        one = measured.get(label, {}).get(name, NOTHING).over_tasks
        if one is not None:
            points.append(HeldOut(step, one))
    return points


def other_scalars(runs: Sequence[Run]) -> Table | None:
    """First and last value of every logged scalar, drawn or not."""
    rows = []
    for run in runs:
        for name in names([run], ("*",)):
            one = curve([run.log], name)
            if one is not None and name != "step":
                values = [value for _, value in one.members[0]]
                label = name if len(runs) == 1 else f"{run.name}: {name}"
                rows.append([label, number(values[0]), number(values[-1]), str(len(values))])
    return table(["scalar", "first", "last", "points"], rows) if rows else None


# -- what was recorded ----------------------------------------------------------------------------
def recorded(summary: Mapping[str, Any]) -> list[Table]:
    """Everything in `summary.json`, before and after in columns of one table where it has both."""
    rest = dict(summary)
    found: list[Table] = []
    old, new = summary.get("before"), summary.get("after")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        del rest["before"], rest["after"]
        left, right = dict(flat(old)), dict(flat(new))
        keys = dict.fromkeys([*left, *right])
        rows = [[key, left.get(key, "-"), right.get(key, "-")] for key in keys]
        found.append(table(["measured", "before", "after"], rows))
    if rest:
        found.append(table(["recorded", "value"], list(flat(rest))))
    return found


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, text) of every entry; a pair of numbers is shown as a range."""
    for key, one in value.items():
        name = f"{prefix}{key}"
        if isinstance(one, Mapping):
            yield from flat(one, f"{name}.")
        elif isinstance(one, list) and len(one) == 2 and all(finite(x) for x in one):
            yield name, span((one[0], one[1]))
        elif isinstance(one, list) and len(one) > 8:
            yield name, f"{len(one)} entries"
        elif isinstance(one, list):
            yield name, ", ".join(map(_text, one))
        else:
            yield name, _text(one)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) and finite(value) else str(value)
