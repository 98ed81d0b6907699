"""Which metric a name means: in tables, in the log of a training, in the summary of an evaluation.

Owns the places in names, `<agent>` and the like. The table of the metrics is `metrics.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_marl_envs.measure.numbers.estimate import Estimate
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric

_PLACE = re.compile(r"<\w+>")


def named(name: str) -> Metric | None:
    """The metric of a name, its place filled in; None if it has no entry."""
    return _found(name, lambda metric: (metric.name,))


def logged(name: str) -> Metric | None:
    """The metric of a scalar in a training's log; None if it has no entry."""
    return _found(name, lambda metric: metric.log)


def title(name: str) -> str:
    """The title of a metric; the name itself if it has no entry."""
    metric = named(name)
    return name if metric is None else metric.title


def pattern(name: str) -> str:
    """A name with `*` for its place."""
    return _PLACE.sub("*", name)


def charts() -> dict[str, tuple[Metric, ...]]:
    """Title of a chart -> the metrics that are drawn in it."""
    found: dict[str, tuple[Metric, ...]] = {}
    for metric in METRICS.values():
        if metric.chart:
            found[metric.chart] = (*found.get(metric.chart, ()), metric)
    return found


def dig(summary: Any, path: Sequence[str]) -> Any:
    """What a summary holds at a path; None where it holds nothing."""
    for key in path:
        summary = summary.get(key) if isinstance(summary, Mapping) else None
    return summary


def _found(name: str, names_of: Callable[[Metric], Sequence[str]]) -> Metric | None:
    known = {one: metric for metric in METRICS.values() for one in names_of(metric)}
    if name in known:
        return known[name]
    fitting = [one for one in known if _in_place(name, one)]
    # "reward_terms/cut" is a term, whatever ends in "/cut".
    best = max(fitting, key=lambda one: one.index("<"), default=None)
    if best is None:
        return None
    metric, place = known[best], _in_place(name, best)
    return replace(metric, name=put(place, metric.name), title=put(place, metric.title))


def _in_place(name: str, known: str) -> str:
    """What stands in the place of a known name; empty where the name is another one."""
    head, *tail = _PLACE.split(known, maxsplit=1)
    fits = tail and name.startswith(head) and name.endswith(tail[0])
    return name[len(head) : len(name) - len(tail[0])] if fits else ""


def put(place: str, text: str) -> str:
    """A name with its place filled in."""
    return _PLACE.sub(lambda _: place, text)


def read(metric: Metric, summary: Mapping[str, Any]) -> dict[str, Estimate]:
    """Name -> the metric in the summary of an evaluation; empty where it has none.

    Several where the name holds a place.
    """
    found: dict[str, Estimate] = {}
    place_at = [bool(_PLACE.search(part)) for part in metric.path]
    places = dig(summary, metric.path[: place_at.index(True)]) if True in place_at else [""]
    for place in places or () if metric.path else ():
        value = dig(summary, [put(place, part) for part in metric.path])
        if value is not None:
            interval = dig(summary, metric.ci95) if metric.ci95 else None
            ends = interval and (interval[0], interval[1])
            found[put(place, metric.name)] = Estimate(value, ends)
    return found
