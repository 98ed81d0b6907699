"""How often runs succeed: exact intervals, exact tests, their power, and many tests at once.

For shares of runs, which are independent and few. Shares of tasks are in
`llm_marl_envs.measure.numbers.estimates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ALPHA = 0.05
"""Two-sided, of every test and interval here."""


def clopper_pearson(successes: int, n: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson 1934): covers 95 % or more.

    Raises:
        ValueError: n < 1, or successes outside of 0 to n.
    """
    from scipy.stats import binomtest

    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n, n >= 1")
    found = binomtest(successes, n).proportion_ci(1 - ALPHA, method="exact")
    return float(found.low), float(found.high)


def fisher_p(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Fisher's exact test, two-sided, of two shares, each (successes, n)."""
    from scipy.stats import fisher_exact

    table: Any = [[successes, n - successes] for successes, n in (one, other)]
    found: Any = fisher_exact(table)
    return float(found.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, corrected for their number (Holm 1979), in the same order.

    Below 0.05 are those that Holm's procedure rejects at that level: the chance that it rejects any
    true hypothesis is at most 0.05, however the tests depend on each other.
    """
    corrected, worst = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = worst
    return corrected


def fisher_power(rate: float, other: float, n: int) -> float:
    """The chance that Fisher's test tells two rates apart at 0.05, with n runs a side; exact.

    Raises:
        ValueError: a rate outside of 0 to 1, or n < 1.
    """
    from scipy.stats import binom

    if n < 1 or not (0 <= rate <= 1 and 0 <= other <= 1):
        raise ValueError(f"rates {rate}, {other} and n={n}: expected 0 to 1, and at least 1 run")
    counts = range(n + 1)
    chances = np.outer(binom.pmf(counts, n, rate), binom.pmf(counts, n, other))
    apart = [[a < b and fisher_p((a, n), (b, n)) <= ALPHA for b in counts] for a in counts]
    return float(chances[np.array(apart) | np.array(apart).T].sum())  # equal counts are not apart
