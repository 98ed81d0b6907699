"""Is one side better than the other, and what does the answer hold for?

With one result a side the tasks are what varies, and the answer is about *these two checkpoints*:
another training run may differ. Tasks that share a prompt count together. With several training
runs a side the runs are permuted, and the answer is about the way they were trained. Owns both
tests and the sentences that report them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from llm_marl_envs.core.records import terms_of_wrappers
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.measure.numbers.estimates import (
    ALIKE,
    FEWEST,
    FEWEST_RUNS,
    Estimate,
    cluster_sums,
    exact_mean,
    fewest_of,
    interquartile_mean,
    over_tasks,
    student,
    too_few,
    variance_of_sum,
    ways_of,
    wilson_interval,
)
from llm_marl_envs.measure.numbers.format import number, p_value, percent, with_interval
from llm_marl_envs.measure.numbers.results import EVALUATION, POINT_FILE, read_results

MAX_EXACT = 20_000
"""Up to so many permutations all are counted; beyond, as many are drawn."""
LEAST_DRAWN = 1 / (MAX_EXACT + 1)
AT_ONCE = 2_000_000
"""So many numbers are permuted at once, however many tasks there are: SciPy holds copies of all."""
METRICS = ("return", "success")
RESETS = {
    "other": "A and B played the tasks from other reset seeds, so what chance dealt differs, too: "
    "for pairs evaluate both with the same --seed and --samples",
    "unknown": "One side does not say which reset seeds it played (an older release wrote it), so "
    "chance may have dealt otherwise: evaluate it again, into another folder",
}
# Sums of floats in another order differ in the last bits; such differences are alike.
TIE = 1e-12

Scores = Mapping[str, float]
"""task id -> one run's mean score on it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found; differences are B minus A.

    Attributes:
        of: "checkpoints" (one a side, paired over tasks) or "runs" (several a side).
        metric: "return" or "success".
        n_tasks: tasks that every run played.
        runs: number of runs of A and of B.
        means: mean score of A and of B.
        iqm: interquartile mean over all runs and tasks, of A and of B.
        difference: mean of B - mean of A.
        ci95: its 95 % interval: over tasks, as `over_tasks` has it, or Welch's over the means of
            the runs. None of fewer than six clusters of tasks, or three runs a side.
        why: why there is no interval; empty where there is one.
        clusters: how many clusters the tasks of two checkpoints make, of each way of sharing.
        iqm_difference: the same of the interquartile means; only for runs.
        p: two-sided p-value; None of fewer than six clusters. Of runs the larger one of Welch's and
            of a permutation test, which a side of few runs that vary more misleads.
        smallest_p: the least that so few clusters or runs could give.
        exact: whether all permutations were counted.
        failed: episodes of A and of B whose environment raised; they earned their floor.
        alike: whether the difference of two checkpoints is the same on every task.
        temperatures: those that A and B sampled at, where they are not the same; else nothing.
        resets: "" where every run played each task from the same reset seeds; "other" where not,
            and "unknown" where a file of an older release does not say.
    """

    of: str
    metric: str
    n_tasks: int
    runs: tuple[int, int]
    means: tuple[float, float]
    iqm: tuple[float, float]
    difference: float
    ci95: tuple[float, float] | None
    why: str
    clusters: tuple[int, ...]
    iqm_difference: float | None
    p: float | None
    smallest_p: float
    exact: bool
    failed: tuple[int, int] = (0, 0)
    alike: bool = False
    temperatures: tuple[str, ...] = ()
    resets: str = ""


def compare(
    a: Sequence[Scores],
    b: Sequence[Scores],
    *,
    metric: str = "return",
    seed: int = 0,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
) -> Comparison:
    """Compare two sides of one or more runs, each a map task -> score.

    Args:
        a: one run or several of side A.
        b: of side B.
        metric: what the scores are; success is from 0 to 1.
        seed: of the permutations that are drawn.
        clusters: task -> what it shares with others, one key for each way of sharing; a task that
            is missing stands alone. Only for one run a side: all runs play the same tasks.

    Raises:
        ValueError: a side is empty, one run against several, the runs played other tasks, or a
            score is no finite number.
    """
    tasks = _shared_tasks([*a, *b]) if a and b else []
    if not tasks or (len(a) == 1) != (len(b) == 1):
        raise ValueError(
            f"{len(a)} runs against {len(b)}: expected one each (these two checkpoints), or at "
            "least two each (runs are permuted)"
        )
    left, right = (np.array([[run[t] for t in tasks] for run in side]) for side in (a, b))
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError("a score is NaN or infinite; nothing can be said of its side")
    paired, differences = len(a) == 1, right[0] - left[0]
    keys = [(clusters or {}).get(task, ()) for task in tasks]
    ways = ways_of(keys, len(tasks))
    if paired:
        found = over_tasks(differences, keys, reach=1.0 if metric == "success" else 0.0)
        p, smallest, exact = _sign_flips(differences, ways, seed)
    else:
        found, welch = _welch(left, right)
        p, smallest, exact = _run_permutations(left, right, seed)
        p = max(p, welch)
    iqm = interquartile_mean(left.ravel().tolist()), interquartile_mean(right.ravel().tolist())
    return Comparison(
        of="checkpoints" if paired else "runs",
        metric=metric,
        n_tasks=len(tasks),
        runs=(len(a), len(b)),
        means=(float(left.mean()), float(right.mean())),
        iqm=iqm,
        difference=float(right.mean() - left.mean()),
        ci95=found.ci95,
        why=found.why,
        clusters=tuple(int(way.max()) + 1 for way in ways) if paired else (),
        iqm_difference=None if paired else iqm[1] - iqm[0],
        p=None if paired and fewest_of(ways) < FEWEST else p,
        smallest_p=smallest,
        exact=exact,
        alike=paired and float(np.ptp(differences)) <= TIE,
    )


def _shared_tasks(runs: Sequence[Scores]) -> list[str]:
    first = list(runs[0])
    if not first:
        raise ValueError("a run without tasks; expected at least one")
    for run in runs[1:]:
        if set(run) != set(first):
            odd = sorted(set(run) ^ set(first))
            raise ValueError(
                f"the runs played different tasks: {len(odd)} are not in all, e.g. {odd[:3]}; "
                "evaluate both with the same --split, --tasks and --set"
            )
    return first


def _sign_flips(differences: np.ndarray, ways: np.ndarray, seed: int) -> tuple[float, float, bool]:
    """Two-sided sign-flip test of a mean of zero: (p, smallest possible p, exact).

    If the sides are alike, each cluster's sum of differences is as likely with the other sign.
    Where tasks are clustered in several ways: the largest p of these, see `_crossed_flips`.
    """
    fewest = fewest_of(ways)
    if fewest == 1:  # either sign is as far from zero; SciPy wants two numbers or more
        return 1.0, 1.0, True
    if len(ways) > 1:
        return _crossed_flips(differences, ways, seed), max(2.0 / 2**fewest, LEAST_DRAWN), False

    def far(values: np.ndarray, axis: int) -> np.ndarray:
        return _tied(values.sum(axis=axis))

    exact = 2**fewest <= MAX_EXACT
    p = _permuted((cluster_sums(differences, ways[0]),), far, "samples", seed)
    return p, 2.0 / 2**fewest if exact else LEAST_DRAWN, exact


def _crossed_flips(differences: np.ndarray, ways: np.ndarray, seed: int) -> float:
    """The largest p of flips of each way alone, and of all ways at once.

    Flips of all ways at once count what tasks have of their own once for each way. So their sum is
    scaled to the variance that the ways have together.
    """
    rng = np.random.default_rng(seed)
    sums = [cluster_sums(differences, way) for way in ways]
    alone = sum(float(of @ of) for of in sums)
    together = variance_of_sum(differences, ways, corrected=False)
    scale = math.sqrt(together / alone) if alone else 0.0
    observed, hits = _tied(differences.sum()), np.zeros(len(ways) + 1)
    most = max(1, AT_ONCE // max(map(len, sums)))
    for first in range(0, MAX_EXACT, most):
        size = min(most, MAX_EXACT - first)
        flipped = [(2.0 * rng.integers(2, size=(size, len(of))) - 1) @ of for of in sums]
        hits += [
            (_tied(of) >= observed).sum() for of in (*flipped, scale * sum(flipped, np.zeros(size)))
        ]
    return float((hits.max() + 1) / (MAX_EXACT + 1))


def _permuted(data: tuple[np.ndarray, ...], far: Any, kind: Any, seed: int) -> float:
    """The p-value of a statistic whose large values speak against chance; all are counted if few.

    `far` is an absolute value: SciPy's own two-sided test would double the smaller tail.
    """
    from scipy.stats import permutation_test

    return float(
        permutation_test(
            data,
            far,
            permutation_type=kind,
            alternative="greater",
            n_resamples=MAX_EXACT,
            vectorized=True,
            batch=max(1, AT_ONCE // sum(map(len, data))),
            rng=np.random.default_rng(seed),
        ).pvalue
    )


def _tied(distances: np.ndarray) -> np.ndarray:
    """Their sizes, without the last bits in which sums of floats in another order differ."""
    return np.round(np.abs(distances), 12)


def _unseen(n: int) -> float:
    """The largest share of tasks, at 95 %, of a kind of which n tasks showed none (Wilson)."""
    return wilson_interval(0, n)[1]


def _run_permutations(left: np.ndarray, right: np.ndarray, seed: int) -> tuple[float, float, bool]:
    """Two-sided permutation test of run means: (p, smallest possible p, exact)."""

    def far(side: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        return _tied(other.mean(axis=axis) - side.mean(axis=axis))

    count = math.comb(len(left) + len(right), len(left))
    p = _permuted((left.mean(axis=1), right.mean(axis=1)), far, "independent", seed)
    # With as many runs a side, exchanging the sides gives the same distance.
    least = (2 if len(left) == len(right) else 1) / count
    exact = count <= MAX_EXACT
    return p, least if exact else LEAST_DRAWN, exact


def _welch(left: np.ndarray, right: np.ndarray) -> tuple[Estimate, float]:
    """The difference of the means over runs, with Welch's interval and p-value.

    The p-value is 0 where the runs of each side are all alike: then it says nothing.
    """
    from scipy.special import stdtr

    a, b = (side.mean(axis=1) for side in (left, right))
    difference, runs, fewest = float(b.mean() - a.mean()), len(a) + len(b), min(len(a), len(b))
    few = too_few(fewest, "runs") if fewest < FEWEST_RUNS else ""
    if max(np.ptp(a), np.ptp(b)) <= TIE:
        return Estimate(difference, None, runs, few or ALIKE), 0.0
    noise = [float(side.var(ddof=1)) / len(side) for side in (a, b)]
    freedom = sum(noise) ** 2 / (noise[0] ** 2 / (len(a) - 1) + noise[1] ** 2 / (len(b) - 1))
    error = math.sqrt(sum(noise))
    half = student(freedom) * error
    interval = None if few else (difference - half, difference + half)
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Estimate(difference, interval, runs, few), p


def results_at(path: str | Path) -> list[dict[str, Any]]:
    """The runs of one side that a path stands for, see `result_files`.

    The runs of a sweep's folder are one side as long as they differ in their seeds alone.

    Raises:
        ValueError: none there, one is damaged, or they are runs of several settings.
    """
    results, settings = [], {}
    for file, result in read_results(path):
        results.append(result)
        point = file.parent.parent / POINT_FILE
        if file.parent.name == EVALUATION and point.is_file():
            setting = read_json(point).get("settings")
            settings.setdefault(json.dumps(setting, sort_keys=True), point.parent)
    if len(settings) > 1:
        examples = ", ".join(f"{folder} ({setting})" for setting, folder in [*settings.items()][:4])
        raise ValueError(
            f"{path}: runs of {len(settings)} settings, e.g. {examples}: expected those of one a "
            "side; a pattern names them, e.g. 'runs/sweep/learning_rate=0.001*'"
        )
    return results


def sides_at(side: str) -> list[dict[str, Any]]:
    """The runs of a side as the command line names it: a path, or several separated by commas.

    Raises:
        ValueError: as `results_at`.
    """
    paths = [side] if Path(side).exists() else side.split(",")
    return [result for path in paths for result in results_at(path)]


def scores_of(result: Mapping[str, Any], metric: str) -> dict[str, float]:
    """Task id -> mean over its episodes.

    Raises:
        ValueError: an unknown metric, success where the environment does not report it, or two
            tasks of one id.
    """
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r:.200}: expected one of {METRICS}")
    field = "returns" if metric == "return" else "solved"
    means: dict[str, float] = {}
    for task in result["tasks"]:
        values = task[field]
        if values is None:
            raise ValueError(f"task {task['task_id']!r:.200} has no success; compare the return")
        if task["task_id"] in means:
            raise ValueError(
                f"task {task['task_id']!r:.200} is there twice; tasks cannot be paired"
            )
        means[task["task_id"]] = exact_mean(values)
    return means


def clusters_of(result: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Task id -> what it shares with others; nothing in files of older releases."""
    return {task["task_id"]: tuple(task.get("clusters") or ()) for task in result["tasks"]}


def compare_results(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]], metric: str = "return"
) -> Comparison:
    """Compare results as `read_result` gives them.

    Raises:
        ValueError: results of different environments, arguments or tasks, one team that stands for
            several runs, returns with prices beside returns without, and as `compare`.
    """
    for field in ("env_id", "env_kwargs", "tasks_sha256"):
        values = [result[field] for result in (*a, *b) if result.get(field) is not None]
        if odd := [value for value in values if value != values[0]]:
            raise ValueError(
                f"results of different environments: {field} is {values[0]!r:.200} and "
                f"{odd[0]!r:.200}"
            )
    _refuse_prices_inside([*a, *b])
    if len(a) > 1 or len(b) > 1:
        _refuse_repeats([*a, *b])
    failed = tuple(sum(result.get("failed", 0) for result in side) for side in (a, b))
    sides = ([scores_of(result, metric) for result in side] for side in (a, b))
    comparison = compare(*sides, metric=metric, clusters=_clusters(a[0], b[0]) if a and b else None)
    return replace(
        comparison, failed=failed, temperatures=_temperatures(a, b), resets=_resets([*a, *b])
    )


def _resets(results: Sequence[Mapping[str, Any]]) -> str:
    """As `Comparison.resets`.

    Older releases did not say. Their first sample had the reset seed of today, and further ones had
    the same.
    """
    played = [{t["task_id"]: t.get("resets") for t in result["tasks"]} for result in results]
    silent = [None in resets.values() for resets in played]
    if not any(silent):
        first, *others = ({t: sorted(seeds) for t, seeds in one.items()} for one in played)
        return "other" if any(other != first for other in others) else ""
    seeds = [result.get("seeds") for result in results]
    if any(one != seeds[0] for one in seeds):
        return "unknown" if None in seeds else "other"
    return "" if all(silent) or all(r.get("samples") == 1 for r in results) else "unknown"


def _refuse_prices_inside(results: Sequence[Mapping[str, Any]]) -> None:
    """Refuse returns with what wrappers paid, as older releases summed up, beside others."""
    inside = [
        bool((terms_of_wrappers(r.get("env_kwargs") or {}) or set()) & {*r.get("reward_terms", ())})
        for r in results
    ]
    if any(inside) and not all(inside):
        team = results[inside.index(True)].get("team")
        raise ValueError(
            f"the returns of {team!r:.80} hold what the channel or tools paid (an older release "
            "summed them up), the others do not: run llm-marl eval again into its folder, which "
            "only sums up what is there"
        )


def _clusters(*results: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Of each task, as the first result says that does: an episode that failed may not say it."""
    each = [clusters_of(result) for result in results]
    return {task: next((of[task] for of in each if of.get(task)), ()) for task in each[0]}


def _temperatures(*sides: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Of each side, if not all results say the same one."""
    temperatures = [
        sorted({str(result.get("temperature", "unknown")) for result in side}) for side in sides
    ]
    return (
        ()
        if len({*temperatures[0], *temperatures[1]}) == 1
        else tuple(map(" and ".join, temperatures))
    )


def _refuse_repeats(results: Sequence[Mapping[str, Any]]) -> None:
    """Evaluations of one team, however many, are one run.

    Counted as several, their sampling noise would stand for the differences between runs.
    """
    seen: list[Any] = []
    for result in results:
        identity = result.get("identity")
        if identity is not None and identity in seen:
            raise ValueError(
                f"{result.get('team')!r:.200} is there more than once ({identity}); runs are "
                "trainings "
                "of their own, so for more episodes of one team evaluate it once with more --seed "
                "or --samples"
            )
        seen.append(identity)


def report(result: Comparison) -> str:
    """What was found, in sentences."""
    found = Estimate(result.difference, result.ci95, why=result.why)
    lines = [
        f"mean {result.metric}: A {number(result.means[0])}, B {number(result.means[1])}; "
        f"B - A = {_change(found)}"
    ]
    if result.iqm_difference is not None:
        lines.append(
            f"interquartile mean: A {number(result.iqm[0])}, B {number(result.iqm[1])}; "
            f"B - A = {number(result.iqm_difference, sign=True)}"
        )
    if any(result.failed):
        lines.append(
            f"episodes that failed, because the environment raised: A {result.failed[0]}, B "
            f"{result.failed[1]}; each counts as the smallest return that the environment declares"
        )
    if result.resets:
        lines.append(RESETS[result.resets])
    if result.temperatures:
        a, b = result.temperatures
        lines.append(
            f"A sampled at temperature {a}, B at {b}: that may be the difference, or a part of it"
        )
    if result.alike and result.why in ("", ALIKE):  # of too few nothing is said
        lines.append(
            f"B - A is the same on each of the {result.n_tasks} tasks. That is no certainty: up to "
            f"{percent(_unseen(min(result.clusters)))} of all tasks like these may be otherwise "
            "(95 %)."
        )
    return "\n".join([*lines, *(_of_tasks if result.of == "checkpoints" else _of_runs)(result)])


def _of_tasks(result: Comparison) -> list[str]:
    """What the test of two checkpoints says, or why there is none."""
    over = f"{result.n_tasks} tasks"
    if (fewest := min(result.clusters)) < result.n_tasks:
        ways = " and ".join(map(str, result.clusters))
        over += f" in {ways} clusters, as tasks of one prompt count together"
    if result.p is None:
        return [
            f"No interval and no p-value: of {over} fewer than {FEWEST} are independent, and so "
            f"few say nothing of chance (the least p of {fewest} is {p_value(result.smallest_p)}).",
        ]
    return [
        f"sign-flip test over {over} ({_how(result)}): p = {p_value(result.p)}",
        "This holds for these two checkpoints: the tasks vary, the training does not. "
        "To compare ways of training, give several runs a side.",
    ]


def _of_runs(result: Comparison) -> list[str]:
    """What the test of several runs a side says."""
    assert result.p is not None  # runs are permuted, however few there are
    holds = "This holds for runs trained in these two ways, on these tasks"
    few = f"; fewer than {FEWEST_RUNS} runs a side have no interval"
    return [
        f"permutation test of {result.runs[0]} against {result.runs[1]} runs ({_how(result)}), or "
        f"Welch's where it is larger: p = {p_value(result.p)}; the least that so many runs can "
        f"give is {p_value(result.smallest_p)}",
        f"{holds}{few if min(result.runs) < FEWEST_RUNS else ''}.",
    ]


def _how(result: Comparison) -> str:
    return "exact" if result.exact else f"{MAX_EXACT} draws"


def _change(found: Estimate) -> str:
    shown = with_interval(found, sign=True)
    return shown.replace(" [", ", 95 % interval [", 1) if found.ci95 else shown
