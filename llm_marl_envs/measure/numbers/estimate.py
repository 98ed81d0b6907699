"""A mean and its 95 % interval: the one record of every number that has an interval.

Owns which interval goes with which kind of number. The arithmetic is `estimators.py`, how an
estimate is shown `format.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_marl_envs.measure.numbers.estimators import (
    bootstrap_interval,
    success_interval,
    t_interval,
    task_means,
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % interval.

    Attributes:
        mean: of `n` numbers.
        ci95: its interval, None where there is none; without width where all numbers were alike,
            which is no certainty.
        n: tasks or runs that it was taken over, None where a file does not say.
    """

    mean: float
    ci95: tuple[float, float] | None = field(default=None, metadata={"needed": True})
    n: int | None = field(default=None, metadata={"key": "n_tasks"})


def over_tasks(per_task: Sequence[float]) -> Estimate:
    """The mean of one number per task, with its bootstrap interval.

    Raises:
        ValueError: no numbers.
    """
    values = [float(one) for one in per_task]
    interval = bootstrap_interval(values)
    return Estimate(sum(values) / len(values), interval, len(values))


def over_runs(values: Sequence[float]) -> Estimate:
    """The mean of one number per run, with Student's interval; one run alone has none.

    Raises:
        ValueError: no numbers.
    """
    interval = t_interval(values)
    return Estimate(sum(values) / len(values), interval if len(values) > 1 else None, len(values))


def share(
    tasks: Sequence[Hashable],
    solved: Sequence[float],
    clusters: Mapping[Any, Sequence[Hashable]] | None = None,
) -> Estimate:
    """The share of solved tasks, mean over tasks, as `estimators.success_interval` has it."""
    means = task_means(tasks, solved)
    interval = success_interval(tasks, solved, clusters)
    return Estimate(sum(means) / len(means), interval, len(means))


def as_filed(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The `dict_factory` of `asdict` for files: an estimate's `n` is called `n_tasks` in them."""
    return {"n_tasks" if name == "n" else name: value for name, value in fields}
