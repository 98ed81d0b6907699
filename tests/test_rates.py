"""Shares of runs that succeed, against values worked by hand and against scipy."""

from __future__ import annotations

import pytest
from scipy.stats import trim_mean

from benchmarks.rates import clopper_pearson, fisher_p, fisher_power, holm
from llm_marl_envs.measure.numbers.estimates import interquartile_mean


def test_an_interval_of_a_share_is_exact():
    # None of n: 1 - (0.025)^(1 / n).
    assert clopper_pearson(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert clopper_pearson(10, 10) == pytest.approx((0.025**0.1, 1.0))
    low, high = clopper_pearson(3, 10)
    # The tails at its ends are 0.025 each: P(X >= 3 | low) and P(X <= 3 | high).
    ways = (1, 10, 45, 120)
    below = [sum(w * p**k * (1 - p) ** (10 - k) for k, w in enumerate(ways)) for p in (low, high)]
    assert 1 - below[0] + 120 * low**3 * (1 - low) ** 7 == pytest.approx(0.025)
    assert below[1] == pytest.approx(0.025)
    for wrong in ((-1, 5), (6, 5), (0, 0)):
        with pytest.raises(ValueError, match="expected 0 <= successes"):
            clopper_pearson(*wrong)


def test_two_shares_by_hand():
    # 3 of 3 against 0 of 3: two tables of 20 are as far apart.
    assert fisher_p((3, 3), (0, 3)) == pytest.approx(2 / 20)
    assert fisher_p((2, 4), (2, 4)) == pytest.approx(1.0)


def test_holm_multiplies_by_what_is_left():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_power():
    assert fisher_power(1.0, 0.0, 4) == pytest.approx(1.0)
    assert fisher_power(1.0, 0.0, 3) == 0.0  # 2 / 20 at best
    assert fisher_power(0.95, 0.70, 20) == pytest.approx(0.45, abs=0.01)
    assert fisher_power(0.95, 0.70, 50) == pytest.approx(0.90, abs=0.01)
    # A rate is told from itself in less than 5 % of pairs.
    assert 0 < fisher_power(0.5, 0.5, 20) < 0.05
    with pytest.raises(ValueError, match="at least 1 run"):
        fisher_power(1.2, 0.5, 3)


def test_the_interquartile_mean_hides_stalls():
    values = [1.0] * 15 + [0.45] * 5
    assert interquartile_mean(values) == trim_mean(values, 0.25) == 1.0
    assert sum(values) / 20 == pytest.approx(0.8625)
