"""The values of metrics: which metric a name means, and what it is of episodes or in a summary.

Owns the places in names, `<agent>` and the like. Which metrics there are, and what computes each of
one action or episode, is `metrics.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_marl_envs.core.records import Episode, Turn
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.measure.numbers.estimates import Estimate, by_task, exact_mean
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric

TaskKey = tuple[str, int]
"""A task's id and 0, or "" and the reset seed where the task has no name."""
_PLACE = re.compile(r"<\w+>")


def named(name: str) -> Metric | None:
    """The metric of a name, its place filled in; None if it has no entry."""
    return _metric_of(name, lambda metric: (metric.name,))


def logged(name: str) -> Metric | None:
    """The metric of a scalar in a training's log; None if it has no entry."""
    return _metric_of(name, lambda metric: metric.log)


def title(name: str) -> str:
    """The title of a metric; the name itself if it has no entry."""
    metric = named(name)
    return name if metric is None else metric.title


def pattern(name: str) -> str:
    """A name with `*` for its place."""
    return _PLACE.sub("*", name)


def charts() -> dict[str, tuple[Metric, ...]]:
    """Title of a chart -> the metrics that are drawn in it."""
    by_chart: dict[str, tuple[Metric, ...]] = {}
    for metric in METRICS.values():
        if metric.chart:
            by_chart[metric.chart] = (*by_chart.get(metric.chart, ()), metric)
    return by_chart


def dig(summary: Any, path: Sequence[str]) -> Any:
    """What a summary holds at a path; None where it holds nothing."""
    for key in path:
        summary = summary.get(key) if isinstance(summary, Mapping) else None
    return summary


def _metric_of(name: str, names_of: Callable[[Metric], Sequence[str]]) -> Metric | None:
    by_name = {full_name: metric for metric in METRICS.values() for full_name in names_of(metric)}
    if name in by_name:
        return by_name[name]
    fitting = [full_name for full_name in by_name if _in_place(name, full_name)]
    # "reward_terms/cut" is a term, whatever ends in "/cut".
    best = max(fitting, key=lambda full_name: full_name.index("<"), default=None)
    if best is None:
        return None
    metric, place = by_name[best], _in_place(name, best)
    return replace(metric, name=filled(place, metric.name), title=filled(place, metric.title))


def _in_place(name: str, pattern: str) -> str:
    """What stands in the place of a known name; empty where the name is another one."""
    head, *tail = _PLACE.split(pattern, maxsplit=1)
    fits = tail and name.startswith(head) and name.endswith(tail[0])
    return name[len(head) : len(name) - len(tail[0])] if fits else ""


def filled(place: str, text: str) -> str:
    """A name with its place filled in."""
    return _PLACE.sub(lambda _: place, text)


# -- in a summary ---------------------------------------------------------------------------------
def in_summary(metric: Metric, summary: Mapping[str, Any]) -> dict[str, Estimate]:
    """Name -> the metric in the summary of an evaluation; empty where it has none.

    Several where the name holds a place.
    """
    estimates: dict[str, Estimate] = {}
    place_at = [bool(_PLACE.search(part)) for part in metric.path]
    places = dig(summary, metric.path[: place_at.index(True)]) if True in place_at else [""]
    for place in places or () if metric.path else ():
        value = dig(summary, [filled(place, part) for part in metric.path])
        if value is not None:
            interval = dig(summary, metric.ci95) if metric.ci95 else None
            ends = interval and (interval[0], interval[1])
            why = "" if ends else dig(summary, ("no_interval", metric.name)) or ""
            estimates[filled(place, metric.name)] = Estimate(value, ends, why=why)
    return estimates


# -- of episodes ----------------------------------------------------------------------------------
def measure(
    episodes: Sequence[Episode], names: Sequence[str] | None = None
) -> dict[str, list[float | None]]:
    """Name -> one number per episode, None where an episode does not say.

    A metric of actions is the mean over the episode's.

    Args:
        episodes: as `records.measured` gives them.
        names: of metrics, with their places; all that are computed where None.
    """
    columns: dict[str, list[float | None]] = {}
    for metric in METRICS.values() if names is None else [METRICS[name] for name in names]:
        for name, compute in _readers(metric, episodes):
            columns[name] = [compute(episode) for episode in episodes]
    return columns


def _readers(
    metric: Metric, episodes: Sequence[Episode]
) -> Iterable[tuple[str, Callable[[Episode], float | None]]]:
    """(name, what computes it of an episode), one for each that may stand in the name's place."""
    compute = metric.compute
    if compute is None:
        return
    if metric.of == "action":
        yield metric.name, lambda episode: over_actions(metric.name, episode.turns)
    elif metric.places is None:
        yield metric.name, compute
    else:
        for place in metric.places(episodes):
            yield filled(place, metric.name), lambda episode, place=place: compute(episode, place)


def over_actions(name: str, turns: Iterable[Turn]) -> float | None:
    """A metric of actions, mean over those that have it; None where none has."""
    compute = METRICS[name].compute
    assert compute is not None
    return mean(compute(turn) for turn in turns)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    numbers = [value for value in values if value is not None]
    return exact_mean(numbers) if numbers else None


def per_task(episodes: Sequence[Episode], values: Sequence[float | None]) -> dict[TaskKey, float]:
    """Task -> mean over its episodes that have a finite value.

    Episodes of one task are no independent draws, so intervals are taken over tasks.
    """
    pairs = [(task_of(e), v) for e, v in zip(episodes, values, strict=True) if finite(v)]
    if not pairs:
        return {}
    groups: Any = by_task(*zip(*pairs, strict=True))
    return {task: math.fsum(some) / len(some) for task, some in groups.items()}


def task_of(episode: Episode) -> TaskKey:
    """What tells its task from others; where no task is named each reset seed is one."""
    return episode.task_id, 0 if episode.task_id else episode.seed
