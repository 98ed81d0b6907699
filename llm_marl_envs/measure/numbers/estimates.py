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

Z = 1.959964
"""The 0.975 quantile of the normal distribution."""
FEWEST = 6
"""Clusters below which nothing is said of chance: the signs of five flip in 32 ways, so that the
least two-sided p-value is 0.06."""
FEWEST_RUNS = 3
"""Runs below which a mean over runs has no interval."""
FEWEST_ENTRIES = 4
"""Entries of a log below which their mean has no interval."""
ALIKE = "all alike"
"""Why there is no interval where nothing varied and no scale is known. That is no certainty."""

Clusters = Sequence[Sequence[Hashable]]
"""What each task shares with others: one key for each way of sharing, the same number for all
tasks, e.g. (its helper's prompt, its main's prompt). Nothing: the task stands alone."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % interval.

    Attributes:
        mean: of `n` numbers.
        ci95: its interval, None where there is none.
        n: tasks or runs that it was taken over, None where a file does not say.
        why: why there is no interval, in a few words; empty where there is one, or nobody says.
    """

    mean: float
    ci95: tuple[float, float] | None = field(default=None, metadata={"needed": True})
    n: int | None = field(default=None, metadata={"key": "n_tasks"})
    why: str = ""


def over_tasks(
    per_task: Sequence[float] | np.ndarray,
    clusters: Clusters | None = None,
    *,
    reach: float | None = None,
) -> Estimate:
    """The mean of one number per task, with Wilson's interval on its scale at an effective size.

    The scale is 0 to 1 where all numbers are from 0 to 1: a task that was not drawn may have any
    of these. Else it is from the least to the largest that was seen. See `effective_size`;
    Student's quantile for the smallest number of clusters, less one, takes the place of the normal
    one. Clusters of several sizes count for fewer, as `even_clusters` has it. There is no interval
    of fewer than `FEWEST`.

    Args:
        per_task: the mean over each task's episodes, which are no independent draws.
        clusters: of each task, in the same order; tasks are independent where None.
        reach: of differences: how large they can be, to either side of 0; at least the largest
            that was seen. None: the numbers are no differences.

    Raises:
        ValueError: no numbers, or clusters of another length.
    """
    values = np.asarray(per_task, dtype=np.float64)
    if not values.size:
        raise ValueError("a mean needs at least one number")
    ways = ways_of(clusters, len(values))
    mean, few = exact_mean(values.tolist()), _too_few_tasks(ways)
    low, high = _scale(values, reach)
    if few or not 0 < high - low < math.inf:
        return Estimate(mean, None, len(values), few or (ALIKE if low == high else "not finite"))
    size = effective_size((values - low) / (high - low), ways)
    ends = _share_interval((mean - low) / (high - low), size, student(even_clusters(ways) - 1))
    return Estimate(mean, (low + ends[0] * (high - low), low + ends[1] * (high - low)), len(values))


def too_few(count: int, what: str) -> str:
    """Why there is no interval of so few tasks, clusters or runs."""
    return f"too few {what}: {count}"


def _too_few_tasks(ways: np.ndarray) -> str:
    """Why there is no interval over such tasks; empty where there may be one."""
    fewest, even = fewest_of(ways), even_clusters(ways)
    if fewest < FEWEST:
        return too_few(fewest, "tasks" if fewest == ways.shape[1] else "clusters")
    sizes = f"clusters of so unequal sizes count for {round(even, 1)}"
    return f"{fewest} {sizes}" if round(even) < FEWEST else ""


def _scale(values: np.ndarray, reach: float | None) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if reach is not None:
        return -max(reach, -low, high), max(reach, -low, high)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def over_runs(values: Sequence[float]) -> Estimate:
    """The mean of one number per run, with Student's interval; fewer than three runs have none.

    Raises:
        ValueError: no numbers.
    """
    interval = t_interval(values)
    if len(values) < FEWEST_RUNS:
        why = too_few(len(values), "runs") if len(values) > 1 else ""  # one run is no mean
        return Estimate(exact_mean(values), None, len(values), why)
    return Estimate(exact_mean(values), interval, len(values))


def share(
    tasks: Sequence[Hashable],
    solved: Sequence[float],
    clusters: Mapping[Any, Sequence[Hashable]] | None = None,
) -> Estimate:
    """The share of solved tasks, mean over tasks, as `over_tasks` has it.

    Args:
        tasks: the task of each episode.
        solved: 1 where it solved its task, else 0.
        clusters: of tasks; one that is missing stands alone.

    Raises:
        ValueError: as `by_task`, or a number of `solved` that is not from 0 to 1.
    """
    groups = by_task(tasks, solved)
    if not all(0 <= value <= 1 for value in solved):
        raise ValueError(f"successes from {min(solved)} to {max(solved)}: expected 0 to 1")
    means = [math.fsum(of) / len(of) for of in groups.values()]
    return over_tasks(means, [(clusters or {}).get(task, ()) for task in groups])


def as_filed(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The `dict_factory` of `asdict` for files: an estimate's `n` is called `n_tasks` in them."""
    filed = {"n_tasks" if name == "n" else name: value for name, value in fields}
    if filed.get("why") == "":
        del filed["why"]
    return filed


# -- the arithmetic -------------------------------------------------------------------------------
def exact_mean(values: Sequence[float]) -> float:
    """The mean of at least one number, its sum rounded once.

    `sum` rounds otherwise from Python 3.12 on, and tables should be the same everywhere.
    """
    try:
        return fmean(values)
    except (OverflowError, ValueError):  # too large a sum, or infinities of both signs
        return sum(values) / len(values)


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
    t = student(n - 1)
    return mean - t * spread, mean + t * spread


def series_interval(
    values: Sequence[float], correlation: float | None = None
) -> tuple[float, float] | None:
    """95 % interval of the mean of numbers that follow each other in a log; None of too few.

    Student's at an effective size: of n numbers whose correlation with the ones before is r,
    n (1 - r) / (1 + r) tell as much if they were independent, at least two. A straight line counts
    as no noise.

    Args:
        values: in the order of the log.
        correlation: r, `correlation_of` these values where None.
    """
    if (n := len(values)) < FEWEST_ENTRIES:
        return None
    r = correlation_of(values) if correlation is None else correlation
    off, mean = _off_line(values), exact_mean(values)
    size = max(2.0, n * (1 - r) / (1 + r))
    half = student(size - 1) * math.sqrt(float(off @ off) / (n - 2) / (size - 1))
    return mean - half, mean + half


def correlation_of(*stretches: Sequence[float]) -> float:
    """How much the numbers of stretches of a log are like the ones before, from 0 to 0.99.

    After a straight line is taken out of each, and corrected for what that takes away (Kendall
    1954). Each has `FEWEST_ENTRIES` numbers or more.
    """
    off = [_off_line(values) for values in stretches]
    n, spread = min(map(len, off)), math.fsum(float(one @ one) for one in off)
    if spread <= 0 or n <= 5:
        return 0.0
    r = math.fsum(float(one[1:] @ one[:-1]) for one in off) / spread
    return min(max((n * r + 2) / (n - 5), 0.0), 0.99)


def _off_line(values: Sequence[float]) -> np.ndarray:
    """What numbers are off the straight line that fits them best."""
    numbers = np.asarray(values, dtype=np.float64)
    times = np.arange(len(numbers)) - (len(numbers) - 1) / 2
    off = numbers - numbers.mean()
    return off - times * float(off @ times) / float(times @ times)


def student(freedom: float) -> float:
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


def _share_interval(share: float, size: float, z: float) -> tuple[float, float]:
    """Wilson's interval, which reaches farther towards the end that up to three draws are off.

    There Wilson's leaves out the truth too often, and its bound is that of a Poisson number at 95 %
    (Brown, Cai and DasGupta 2001, p. 112).
    """
    from scipy.special import gammaincinv

    share = min(max(share, 0.0), 1.0)
    low, high = wilson_interval(min(share * size, size), size, z)
    rarer = min(share, 1 - share) * size
    bound = float(gammaincinv(rarer, 0.05)) / size if 0 < rarer <= 3 else 0.5
    return (min(low, bound), high) if share < 0.5 else (low, max(high, 1 - bound))


# -- what hangs together --------------------------------------------------------------------------
def ways_of(clusters: Clusters | None, n: int) -> np.ndarray:
    """(ways of sharing, n): the number of each task's cluster.

    Raises:
        ValueError: clusters of another number of tasks, or tasks with another number of ways.
    """
    keys = [tuple(of) for of in (((),) * n if clusters is None else clusters)]
    if len(keys) != n:
        raise ValueError(f"clusters of {len(keys)} tasks, expected {n}")
    count = max(map(len, keys)) or 1
    keys = [of or (("task", place),) * count for place, of in enumerate(keys)]
    if odd := [of for of in keys if len(of) != count]:
        raise ValueError(f"a task has {len(odd[0])} clusters, another one has {count}")
    return np.array([_numbered([of[way] for of in keys]) for way in range(count)])


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def fewest_of(ways: np.ndarray) -> int:
    """The number of clusters of the way that has the fewest."""
    return int(ways.max(axis=1).min()) + 1


def even_clusters(ways: np.ndarray) -> float:
    """How many clusters of one size say as much as those of a way; the least of all ways.

    Of clusters of n_g of n tasks: n^2 / sum n_g^2. With one of half of all tasks it is less than 4,
    however many others there are.
    """
    return min(len(way) ** 2 / int((np.bincount(way) ** 2).sum()) for way in ways)


def _correction(way: np.ndarray) -> float:
    """By what squared sums of residuals are too small; G / (G - 1) of G clusters of one size.

    Exact where the tasks of a cluster are alike: residuals are then from a mean that a cluster
    draws towards itself by its size.
    """
    shares = np.bincount(way) / len(way)
    squares = float(shares @ shares)
    return 1 / (1 - 2 * float(shares @ shares**2) / squares + squares)


def cluster_sums(parts: np.ndarray, way: np.ndarray) -> np.ndarray:
    """The sum of the parts of each cluster."""
    return np.bincount(way, weights=parts)


def variance_of_sum(parts: np.ndarray, ways: np.ndarray, *, corrected: bool = True) -> float:
    """Variance of the sum of the parts, which correlate where a cluster of theirs is the same.

    With two ways of sharing V_first + V_second - V_both (Cameron, Gelbach and Miller 2011), at
    least each of them alone, and so on for more ways. Each is corrected as of parts whose sum is 0,
    see `_correction`.
    """
    total, alone = 0.0, []
    for several in range(1, len(ways) + 1):
        for chosen in combinations(ways, several):
            way = np.unique(chosen, axis=1, return_inverse=True)[1].ravel()
            sums = cluster_sums(parts, way)
            variance = float(sums @ sums) * (_correction(way) if corrected else 1.0)
            total += variance if several % 2 else -variance
            alone += [variance] if several == 1 else []
    return max(total, *alone)


def effective_size(shares: Sequence[float] | np.ndarray, ways: np.ndarray) -> float:
    """How many independent draws of 0 or 1 tell as much of the mean as the numbers of n tasks.

    n / d, where the design effect d is V (n - 1) / (p (1 - p)): the clustered variance of the mean
    p over that of n independent draws. d is less than 1 where the numbers vary less than 0 and 1
    do, as means over samples.

    V comes from few residuals where p is near 0 or 1, and is 0 at them. So d is its mean with the
    worst that the design allows, n / (the smallest number of clusters of a way, `even_clusters`),
    in which d of the data weighs as much as there are tasks of the rarer outcome, and the worst
    weighs one. At 0 and 1 the size is therefore the smallest number of clusters.

    Args:
        shares: one number from 0 to 1 per task.
        ways: their clusters, two or more of each way, as `ways_of` has them.

    Returns:
        At least 1.
    """
    values, n = np.asarray(shares, dtype=np.float64), len(shares)
    mean, worst = float(values.mean()), n / even_clusters(ways)
    spread = mean * (1 - mean)
    if spread <= 0:
        return n / worst
    effect = variance_of_sum((values - mean) / n, ways) * (n - 1) / spread
    rarer = min(mean, 1 - mean) * n
    # Of few clusters, whose squares are corrected by 2 and more, d may be more than n.
    return max(1.0, n * (rarer + 1) / (rarer * effect + worst))


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
