"""A mean and its 95 % interval: the one record of every number that has one, and the arithmetic.

Pure functions, one implementation for every user of them: the runner, comparisons, reports, and the
`evaluate.Metric` classes of `hf_metrics.py`. Owns which interval goes with which kind of number.
Tests of a difference are in `compare.py`, how an estimate is written in `format.py`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

RESAMPLES = 2000
Z = 1.959964
"""The 0.975 quantile of the normal distribution."""


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
    values = [float(value) for value in per_task]
    interval = bootstrap_interval(values)
    return Estimate(exact_mean(values), interval, len(values))


def over_runs(values: Sequence[float]) -> Estimate:
    """The mean of one number per run, with Student's interval; one run alone has none.

    Raises:
        ValueError: no numbers.
    """
    interval = t_interval(values)
    return Estimate(exact_mean(values), interval if len(values) > 1 else None, len(values))


def share(
    tasks: Sequence[Hashable],
    solved: Sequence[float],
    clusters: Mapping[Any, Sequence[Hashable]] | None = None,
) -> Estimate:
    """The share of solved tasks, mean over tasks, as `success_interval` has it."""
    means = task_means(tasks, solved)
    interval = success_interval(tasks, solved, clusters)
    return Estimate(exact_mean(means), interval, len(means))


def as_filed(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The `dict_factory` of `asdict` for files: an estimate's `n` is called `n_tasks` in them."""
    return {"n_tasks" if name == "n" else name: value for name, value in fields}


# -- the arithmetic -------------------------------------------------------------------------------
def exact_mean(values: Sequence[float]) -> float:
    """The mean of at least one number, its sum rounded once.

    `sum` rounds otherwise from Python 3.12 on, and tables should be the same everywhere.
    """
    try:
        return fmean(values)
    except (OverflowError, ValueError):  # too large a sum, or infinities of both signs
        return sum(values) / len(values)


def bootstrap_interval(per_task: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap interval of a mean, resampling tasks.

    Samples of one task are not independent, so pass one mean per task.

    Args:
        per_task: one number per task, at least one.
        seed: of the resampling.

    Raises:
        ValueError: no tasks.
    """
    values = np.asarray(per_task, dtype=np.float64)
    if not values.size:
        raise ValueError("a bootstrap interval needs at least one task")
    draws = np.random.default_rng(seed).integers(values.size, size=(RESAMPLES, values.size))
    return quantile_interval(values[draws].mean(axis=1))


def quantile_interval(draws: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """What 95 % of the draws lie in, as many below it as above."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of a mean; the value itself where there is only one.

    For runs, of which there are few: a bootstrap of two or three values is far too narrow.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    n, mean = len(values), exact_mean(values)
    if n == 1:
        return mean, mean
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    t = _t(n - 1)
    return mean - t * spread, mean + t * spread


def _t(freedom: int) -> float:
    """The 0.975 quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def wilson_interval(successes: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's score interval of a share, 95 % by default (Wilson 1927).

    Args:
        successes: how many, 0 to n.
        n: independent draws; need be no whole number where it is an effective sample size.
        z: the normal quantile.

    Raises:
        ValueError: n < 1, or successes outside of 0 to n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n, n >= 1")
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * ((share * (1 - share) + z * z / (4 * n)) / n) ** 0.5 / (1 + z * z / n)
    low = 0.0 if successes == 0 else max(0.0, centre - half)  # sums may end beside the bound
    return low, 1.0 if successes == n else min(1.0, centre + half)


def success_interval(
    tasks: Sequence[Hashable],
    solved: Sequence[float],
    clusters: Mapping[Any, Sequence[Hashable]] | None = None,
) -> tuple[float, float]:
    """95 % interval of a success share, the mean over tasks: Wilson's at an effective size.

    One episode of each of n independent tasks: Wilson's interval of n draws. Else episodes share
    tasks, or tasks share prompts, and n draws tell less than n independent ones, see
    `effective_size`; and Student's quantile for the smallest number of clusters, less one, takes
    the place of the normal one.

    Args:
        tasks: the task of each episode.
        solved: 1 where it solved its task, else 0.
        clusters: task -> what it shares with others, one key for each way of sharing (the same
            number for all tasks), e.g. (its helper's prompt, its main's prompt). None, or a task
            that is missing: the task stands alone.

    Raises:
        ValueError: as `by_task`, or a number of `solved` that is not from 0 to 1.
    """
    size, fewest = effective_size(tasks, solved, clusters)
    means = task_means(tasks, solved)
    share = math.fsum(means) / len(means)
    z = Z if fewest in (1, len(solved)) else _t(fewest - 1)
    return wilson_interval(min(share * size, size), size, z)


def effective_size(
    tasks: Sequence[Hashable],
    solved: Sequence[float],
    clusters: Mapping[Any, Sequence[Hashable]] | None = None,
) -> tuple[float, int]:
    """How many independent draws tell as much of the success share as these n episodes.

    n / d, where the design effect d is V (n - 1) / (p (1 - p)): the clustered variance of the
    share over that of n independent draws. V is the cluster-robust variance; with two ways of
    sharing V_first + V_second - V_both (Cameron, Gelbach and Miller 2011), at least each of them
    alone, and so on for more ways. Each is corrected by G / (G - 1) for its G clusters.

    V comes from few residuals where the share is near 0 or 1, and is 0 at them. So d is at least
    its mean with the worst that the design allows, n / (the smallest number of clusters of a way),
    in which d of the data weighs as much as there are episodes of the rarer outcome, and the worst
    weighs one. At 0 and 1 the size is therefore the smallest number of clusters.

    Returns:
        The size, from 1 to n, and the smallest number of clusters of a way. Arguments and errors as
        `success_interval`.
    """
    groups = by_task(tasks, solved)
    if not all(0 <= value <= 1 for value in solved):
        raise ValueError(f"successes from {min(solved)} to {max(solved)}: expected 0 to 1")
    clusters_of, n = clusters or {}, len(solved)
    ways = max((len(clusters_of.get(task, ())) for task in groups), default=0) or 1
    keys = [_keys(task, clusters_of, ways) for task in groups]
    means = [math.fsum(of) / len(of) for of in groups.values()]
    share = math.fsum(means) / len(means)
    fewest = min(len({key[way] for key in keys}) for way in range(ways))
    worst, rarer = n / fewest, min(share, 1 - share) * n
    if fewest == 1 or share in (0.0, 1.0):
        return float(fewest), fewest
    variance = _clustered_variance([(mean - share) / len(means) for mean in means], keys)
    effect = max(1.0, variance * (n - 1) / (share * (1 - share)))
    # Of two clusters a way, which are corrected by 2, d may be more than n.
    return max(1.0, n / max(effect, (rarer * effect + worst) / (rarer + 1))), fewest


def _keys(
    task: Hashable, clusters: Mapping[Any, Sequence[Hashable]], ways: int
) -> tuple[Hashable, ...]:
    keys = tuple(clusters.get(task, ())) or (("task", task),) * ways
    if len(keys) != ways:
        raise ValueError(f"task {task!r}: {len(keys)} clusters, another task has {ways}")
    return keys


def _clustered_variance(parts: Sequence[float], keys: Sequence[tuple[Hashable, ...]]) -> float:
    """Variance of the sum of the parts, which correlate where a key of theirs is the same."""
    ways = range(len(keys[0]))
    total, alone = 0.0, []
    for several in range(1, len(ways) + 1):
        for chosen in combinations(ways, several):
            sums: dict[tuple[Hashable, ...], float] = {}
            for part, key in zip(parts, keys, strict=True):
                place = tuple(key[way] for way in chosen)
                sums[place] = sums.get(place, 0.0) + part
            variance = math.fsum(x * x for x in sums.values()) * len(sums) / (len(sums) - 1)
            total += variance if several % 2 else -variance
            alone += [variance] if several == 1 else []
    return max(total, *alone)


def interquartile_mean(values: Sequence[float]) -> float:
    """Mean of the middle half (Agarwal et al. 2021): a quarter, rounded down, is cut at each end.

    Raises:
        ValueError: no values.
    """
    if not len(values):
        raise ValueError("an interquartile mean needs at least one value")
    ordered = sorted(values)
    cut = len(ordered) // 4
    return math.fsum(ordered[cut : len(ordered) - cut]) / (len(ordered) - 2 * cut)


def by_task(tasks: Sequence[Hashable], values: Sequence[float]) -> dict[Hashable, list[float]]:
    """Task -> its values, in the order of first appearance.

    Raises:
        ValueError: another number of tasks than of values, none at all, or a value that is NaN or
            infinite.
    """
    if len(tasks) != len(values):
        raise ValueError(f"{len(tasks)} task ids for {len(values)} values; expected one each")
    if not len(tasks):
        raise ValueError("no episodes; expected at least one")
    groups: dict[Hashable, list[float]] = {}
    for task, value in zip(tasks, values, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"task {task!r}: the value {value} is no finite number")
        groups.setdefault(task, []).append(float(value))
    return groups


def task_means(tasks: Sequence[Hashable], values: Sequence[float]) -> list[float]:
    """One mean per task; errors as `by_task`."""
    return [math.fsum(v) / len(v) for v in by_task(tasks, values).values()]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that one of k samples solves a task, unbiased: 1 - C(n - c, k) / C(n, k).

    Chen et al. 2021, from n samples of which c solved it. 1 - (1 - c/n)**k would be too low.

    Raises:
        ValueError: not 0 <= c <= n, or k outside of 1 to n.
    """
    if not 0 <= c <= n:
        raise ValueError(f"{c} solved of {n} samples: expected 0 to {n}")
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} from {n} samples per task: expected k from 1 to {n}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(tasks: Sequence[Hashable], solved: Sequence[float], k: int) -> float:
    """`pass_at_k`, mean over tasks; errors as `by_task` and `pass_at_k`."""
    groups = by_task(tasks, solved).values()
    return math.fsum(pass_at_k(len(g), round(math.fsum(g)), k) for g in groups) / len(groups)
