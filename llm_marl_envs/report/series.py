"""What a report computes: per-task numbers of episodes, their intervals, curves over updates.

Pure functions. Every interval is meant to cover 95 %. Of a success share it is Wilson's at the
effective size and of other numbers over tasks a percentile bootstrap, as in `evaluation`; over
updates or runs, of which there are few, it is Student's t.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.evaluation.numbers.estimators import (
    bootstrap_interval,
    success_interval,
    t_interval,
)
from llm_marl_envs.records import Episode, StopReason

MOST_POINTS = 200
"""Points of a drawn curve; longer logs are averaged over equal stretches of updates."""
LARGEST = 1e100
"""Larger numbers have no squares in float; they are shown as missing, as infinities are."""
SOLVED = "solved"
"""The measure that is a success share."""
LEAST_WINDOW = 8
"""Updates that a smoothed point is taken over, at least; fewer give no interval to speak of."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval; `n` numbers went into it. A mean of one may have none."""

    mean: float
    interval: tuple[float, float] | None
    n: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One logged scalar over updates.

    Attributes:
        name: of the scalar.
        steps: updates, rising.
        mean: smoothed over a window of one run, or the mean over runs.
        low, high: the 95 % interval of the mean, equal to it where there is one number only.
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


def finite(value: object) -> bool:
    """Whether it is a number to compute with: no bool, no NaN, and below `LARGEST` in size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < LARGEST


# -- episodes -------------------------------------------------------------------------------------
def characters(episode: Episode) -> float:
    """Characters of all actions."""
    return float(sum(len(turn.action) for turn in episode.turns))


def measures(episodes: Sequence[Episode]) -> dict[str, list[float | None]]:
    """Name -> one number per episode; None where an episode does not say.

    Reward terms are summed over an episode and averaged over agents, as the team return is.
    """
    read: dict[str, Callable[[Episode], float | None]] = {
        SOLVED: lambda e: None if e.success is None else float(e.success),
        "team return": lambda e: e.team_return,
    }
    for agent in _agents_paid_apart(episodes):
        read[f"return of {agent}"] = lambda e, agent=agent: (
            e.undiscounted_return(agent) if agent in e.agents else None
        )
    named = {name: None for e in episodes for turn in e.turns for name in turn.reward_terms}
    for name in named:
        read[f"reward term: {name}"] = lambda e, name=name: _term(e, name)
    read["turns per agent"] = lambda e: e.turns_per_agent
    read["characters per episode"] = characters
    read["actions cut by the token limit"] = lambda e: _share(t.response.cut for t in e.turns)
    read["episodes cut by a limit"] = lambda e: float(e.stop_reason is StopReason.TRUNCATED)
    return {name: [_or_none(of(e)) for e in episodes] for name, of in read.items()}


def per_task(
    episodes: Sequence[Episode], values: Sequence[float | None]
) -> dict[tuple[str, int], float]:
    """(task, reset seed) -> mean over its episodes; where no task is named each seed is one.

    Episodes of one task are no independent draws, so intervals are taken over tasks.
    """
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for episode, value in zip(episodes, values, strict=True):
        if value is not None:
            found[episode.task_id, 0 if episode.task_id else episode.seed].append(value)
    return {key: sum(v) / len(v) for key, v in found.items()}


def estimate(values: Iterable[float]) -> Estimate | None:
    """Mean and bootstrap interval; None of no values."""
    given = list(values)
    if not given:
        return None
    interval = bootstrap_interval(given) if len(given) > 1 else None
    return Estimate(sum(given) / len(given), interval, len(given))


def estimate_success(episodes: Sequence[Episode]) -> Estimate | None:
    """The share of solved tasks, over tasks, with its interval; None where nobody says it."""
    judged = [episode for episode in episodes if episode.success is not None]
    solved = [float(bool(episode.success)) for episode in judged]
    tasks = [(e.task_id, 0 if e.task_id else e.seed) for e in judged]
    if not judged:
        return None
    clusters = {task: episode.clusters for task, episode in zip(tasks, judged, strict=True)}
    found = per_task(judged, solved).values()
    interval = success_interval(tasks, solved, clusters)
    return Estimate(sum(found) / len(found), interval, len(found))


def change(
    before: Mapping[tuple[str, int], float], after: Mapping[tuple[str, int], float]
) -> Estimate | None:
    """After minus before over the tasks that both have, paired; None if they share none."""
    return estimate(after[key] - before[key] for key in before if key in after)


def _agents_paid_apart(episodes: Sequence[Episode]) -> list[str]:
    """Agents, where some episode pays them differently; none where the reward is shared."""
    for episode in episodes:
        returns = [episode.undiscounted_return(agent) for agent in episode.agents]
        if any(abs(value - returns[0]) > 1e-9 for value in returns):
            return list({agent: None for e in episodes for agent in e.agents})
    return []


def _term(episode: Episode, name: str) -> float:
    total = sum(turn.reward_terms.get(name, 0.0) for turn in episode.turns)
    return total / len(episode.agents)


def _share(flags: Iterable[bool]) -> float | None:
    given = [float(flag) for flag in flags]
    return sum(given) / len(given) if given else None


def _or_none(value: float | None) -> float | None:
    return float(value) if value is not None and finite(value) else None


# -- curves ---------------------------------------------------------------------------------------
def points(log: Sequence[Mapping[str, object]], name: str) -> list[tuple[float, float]]:
    """(step, value) of one scalar, by step; what is no finite number is left out."""
    found = {
        float(entry["step"]): float(entry[name])  # type: ignore[arg-type]
        for entry in log
        if finite(entry.get("step")) and finite(entry.get(name))
    }
    return sorted(found.items())


def curve(logs: Sequence[Sequence[Mapping[str, object]]], name: str) -> Curve | None:
    """One scalar of one or several runs; None where no run logged it."""
    members = [found for log in logs if (found := points(log, name))]
    if not members:
        return None
    if len(members) == 1:
        rows, window = _smoothed(members[0])
    else:
        rows, window = _over_runs(members), 1
    rows = _thinned(rows)
    steps, mean, low, high = zip(*rows, strict=True)
    drawn = tuple(tuple((row[0], row[1]) for row in _thinned(member)) for member in members)
    return Curve(name, steps, mean, low, high, drawn, window)


def _smoothed(member: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, ...]], int]:
    """(step, mean, low, high) over the window that ends at each step, from the first full one.

    The window is a tenth of the run, but at least eight updates (half of a shorter run).
    """
    window = max(1, min(LEAST_WINDOW, len(member) // 2), len(member) // 10)
    rows: list[tuple[float, ...]] = []
    for end in range(window, len(member) + 1):
        values = [value for _, value in member[end - window : end]]
        rows.append((member[end - 1][0], sum(values) / len(values), *t_interval(values)))
    return rows, window


def _over_runs(members: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, ...]]:
    """(step, mean, low, high) at every step that all runs have; else at all steps of any."""
    by_step: dict[float, list[float]] = defaultdict(list)
    for member in members:
        for step, value in member:
            by_step[step].append(value)
    shared = {step: v for step, v in by_step.items() if len(v) == len(members)}
    return [
        (step, sum(values) / len(values), *t_interval(values))
        for step, values in sorted((shared or by_step).items())
    ]


def _thinned(rows: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """At most `MOST_POINTS` rows: means of equal stretches. Means of bounds never narrow them."""
    stretch = math.ceil(len(rows) / MOST_POINTS)
    if stretch <= 1:
        return list(rows)
    parts = [rows[i : i + stretch] for i in range(0, len(rows), stretch)]
    return [tuple(sum(c) / len(part) for c in zip(*part, strict=True)) for part in parts]
