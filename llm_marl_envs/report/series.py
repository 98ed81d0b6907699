"""What a report computes of its own: a success share, paired changes, curves over updates.

Pure functions. What is measured of episodes, and every interval, is `measure/numbers`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.core.records import Episode
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.measure.numbers.estimates import (
    Estimate,
    over_runs,
    over_tasks,
    series_interval,
    share,
)
from llm_marl_envs.measure.numbers.values import TaskKey, task_of

MOST_POINTS = 200
"""Points of a drawn curve; longer logs are averaged over equal stretches of updates."""
MOST_SMOOTHED = 2000
"""Points that a curve is smoothed from; of a longer log they are means of equal stretches."""
LEAST_WINDOW = 20
"""Updates that a smoothed point is taken over, at least, or half of a shorter run."""
NO_INTERVAL = (math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Curve:
    """One logged scalar over updates.

    Attributes:
        name: of the scalar.
        steps: updates, rising.
        mean: smoothed over a window of one run, or the mean over runs.
        low, high: the 95 % interval of the mean, NaN where there is none.
        members: each run's own points, (step, value), unsmoothed.
        window: updates that each mean of one run is taken over; 1 for several runs.
    """

    name: str
    steps: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    members: tuple[tuple[tuple[float, float], ...], ...]
    window: int


# -- episodes -------------------------------------------------------------------------------------
def estimate_success(episodes: Sequence[Episode]) -> Estimate | None:
    """The share of solved tasks, over tasks, with its interval; None where nobody says it."""
    judged = [episode for episode in episodes if episode.success is not None]
    if not judged:
        return None
    tasks = [task_of(episode) for episode in judged]
    solved = [float(bool(episode.success)) for episode in judged]
    return share(tasks, solved, clusters_of(judged))


def clusters_of(episodes: Sequence[Episode]) -> dict[TaskKey, tuple[str, ...]]:
    """Task -> what it shares with others; an episode that failed may not say it."""
    return {task_of(episode): episode.clusters for episode in episodes if episode.clusters}


def change(
    before: Mapping[TaskKey, float],
    after: Mapping[TaskKey, float],
    clusters: Mapping[TaskKey, tuple[str, ...]],
) -> Estimate | None:
    """After minus before over the tasks that both have, paired; None if they share none."""
    both = [task for task in before if task in after]
    differences = [after[task] - before[task] for task in both]
    shared = [clusters.get(task, ()) for task in both]
    return over_tasks(differences, shared, reach=0.0) if both else None


# -- curves ---------------------------------------------------------------------------------------
def points(log: Sequence[Mapping[str, object]], name: str) -> list[tuple[float, float]]:
    """(step, value) of one scalar, by step; what is no finite number is left out."""
    by_step = {
        float(entry["step"]): float(entry[name])  # type: ignore[arg-type]
        for entry in log
        if finite(entry.get("step")) and finite(entry.get(name))
    }
    return sorted(by_step.items())


def curve(logs: Sequence[Sequence[Mapping[str, object]]], name: str) -> Curve | None:
    """One scalar of one or several runs; None where no run logged it."""
    members = [member for log in logs if (member := points(log, name))]
    if not members:
        return None
    if len(members) == 1:
        rows, window = _smoothed(members[0])
    else:
        rows, window = _over_runs(members), 1
    rows = _thinned(rows, MOST_POINTS)
    steps, mean, low, high = zip(*rows, strict=True)
    drawn = tuple(
        tuple((row[0], row[1]) for row in _thinned(member, MOST_POINTS)) for member in members
    )
    return Curve(name, steps, mean, low, high, drawn, window)


def _smoothed(member: Sequence[tuple[float, ...]]) -> tuple[list[tuple[float, ...]], int]:
    """(step, mean, low, high) over the window that ends at each step, from the first full one.

    The window is a tenth of the run, but at least twenty updates (half of a shorter run).
    """
    stretch = _stretch(member, MOST_SMOOTHED)
    member = _thinned(member, MOST_SMOOTHED)
    window = max(1, min(LEAST_WINDOW, len(member) // 2), len(member) // 10)
    rows = []
    for end in range(window, len(member) + 1):
        values = [point[1] for point in member[end - window : end]]
        ends = series_interval(values) or NO_INTERVAL
        rows.append((member[end - 1][0], sum(values) / len(values), *ends))
    return rows, window * stretch


def _over_runs(members: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, ...]]:
    """(step, mean, low, high) at every step that all runs have; else at all steps of any."""
    by_step: dict[float, list[float]] = defaultdict(list)
    for member in members:
        for step, value in member:
            by_step[step].append(value)
    shared = {step: v for step, v in by_step.items() if len(v) == len(members)}
    found = {step: over_runs(values) for step, values in sorted((shared or by_step).items())}
    return [(step, one.mean, *(one.ci95 or NO_INTERVAL)) for step, one in found.items()]


def _stretch(rows: Sequence[object], most: int) -> int:
    """Rows to each point where there are at most that many points."""
    return math.ceil(len(rows) / most)


def _thinned(rows: Sequence[tuple[float, ...]], most: int) -> list[tuple[float, ...]]:
    """At most that many rows: means of equal stretches. Means of bounds never narrow them."""
    stretch = _stretch(rows, most)
    if stretch <= 1:
        return list(rows)
    parts = [rows[i : i + stretch] for i in range(0, len(rows), stretch)]
    return [tuple(sum(c) / len(part) for c in zip(*part, strict=True)) for part in parts]
