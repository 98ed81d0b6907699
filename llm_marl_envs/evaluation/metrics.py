"""Statistics of an evaluation. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000


def bootstrap_interval(
    per_task: Sequence[float], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of a mean, resampling tasks.

    Samples of one task are not independent, so pass one mean per task.

    Args:
        per_task: one number per task, at least one.
        level: coverage, between 0 and 1.
        seed: of the resampling.

    Raises:
        ValueError: no tasks.
    """
    values = np.asarray(per_task, dtype=np.float64)
    if not values.size:
        raise ValueError("a bootstrap interval needs at least one task")
    draws = np.random.default_rng(seed).integers(values.size, size=(RESAMPLES, values.size))
    means = values[draws].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def wilson_interval(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a share, 95 % by default (Wilson 1927).

    Raises:
        ValueError: n < 1, or successes outside of 0 to n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n, n >= 1")
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * ((share * (1 - share) + z * z / (4 * n)) / n) ** 0.5 / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)
