"""From episodes to numbers: the metrics of each episode, and means over actions and tasks.

Which metrics there are, and what computes each of one action or episode, is `metrics.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llm_marl_envs.core.records import Episode, Turn
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.measure.numbers.estimators import by_task
from llm_marl_envs.measure.numbers.lookup import put
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric

TaskKey = tuple[str, int]
"""A task's id and 0, or "" and the reset seed where the task has no name."""


def measure(
    episodes: Sequence[Episode], names: Sequence[str] | None = None
) -> dict[str, list[float | None]]:
    """Name -> one number per episode, None where an episode does not say.

    A metric of actions is the mean over the episode's.

    Args:
        episodes: as `records.measured` gives them.
        names: of metrics, with their places; all that are computed where None.
    """
    found: dict[str, list[float | None]] = {}
    for metric in METRICS.values() if names is None else [METRICS[name] for name in names]:
        for name, compute in _readers(metric, episodes):
            found[name] = [compute(episode) for episode in episodes]
    return found


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
            yield put(place, metric.name), lambda episode, place=place: compute(episode, place)


def over_actions(name: str, turns: Iterable[Turn]) -> float | None:
    """A metric of actions, mean over those that have it; None where none has."""
    compute = METRICS[name].compute
    assert compute is not None
    return mean(compute(turn) for turn in turns)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def per_task(episodes: Sequence[Episode], values: Sequence[float | None]) -> dict[TaskKey, float]:
    """Task -> mean over its episodes that have a finite value.

    Episodes of one task are no independent draws, so intervals are taken over tasks.
    """
    known = [(task_of(e), v) for e, v in zip(episodes, values, strict=True) if finite(v)]
    if not known:
        return {}
    groups: Any = by_task(*zip(*known, strict=True))
    return {task: math.fsum(some) / len(some) for task, some in groups.items()}


def task_of(episode: Episode) -> TaskKey:
    """What tells its task from others; where no task is named each reset seed is one."""
    return episode.task_id, 0 if episode.task_id else episode.seed
