"""What judgements say of an estimator: figures, their intervals, and what a price buys.

Pure functions of numbers. Intervals are percentiles of a bootstrap over decision points, 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from llm_marl_envs.measure.numbers.credit import Judged, Priced
from llm_marl_envs.measure.numbers.estimates import FEWEST, Estimate, too_few

T = TypeVar("T")
Products = Mapping[str, tuple[Sequence[int], np.ndarray]]
"""Policy -> (which messages are its, inner products of their gradients of log-prob)."""
RESAMPLES = 400
PRICES = {"tokens": 1000.0, "calls": 1.0}
"""What signals and variances are given for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of the messages, (M,) each.

    Attributes:
        points: number of the decision point.
        worth: reference advantage.
        noise: standard error of that part of it which the point's messages do not share.
        products: of their gradients; empty where the team has no weights.
    """

    points: np.ndarray
    worth: np.ndarray
    noise: np.ndarray
    products: Products = field(default_factory=dict)


def figures(
    facts: Facts, judged: Mapping[str, np.ndarray], costs: Mapping[str, Mapping[str, float]]
) -> tuple[Judged, ...]:
    """The figures of every estimator.

    Args:
        facts: of the M messages.
        judged: estimator -> (M, judgements).
        costs: estimator -> tokens and calls of a judgement.
    """
    dearest = {unit: max(cost[unit] for cost in costs.values()) for unit in PRICES}
    return tuple(
        _figures(name, facts, values, costs[name], dearest) for name, values in judged.items()
    )


def _figures(
    name: str,
    facts: Facts,
    judged: np.ndarray,
    costs: Mapping[str, float],
    dearest: Mapping[str, float],
) -> Judged:
    once = np.ones(len(facts.worth))
    away = judged.mean(axis=1) - facts.worth
    offset = away - _centred(facts.points, away)
    spread = judged.var(axis=1, ddof=1)
    squares, errors = (away - offset) ** 2, _sampling_error(facts, spread, judged.shape[1])

    def bias(times: np.ndarray) -> float:
        return max(0.0, _mean(squares, times) - _mean(errors, times)) ** 0.5

    def variance(times: np.ndarray) -> float:
        return _mean(spread, times)

    signal = _estimate(facts, signal_of(facts, judged))
    priced = {}
    for unit, amount in PRICES.items():
        several = min(judged.shape[1], max(1, int(dearest[unit] / costs[unit])))
        blocks = judged.shape[1] // several
        means = judged[:, : blocks * several].reshape(len(judged), blocks, several).mean(axis=2)
        priced[unit] = Priced(
            cost=costs[unit],
            variance=variance(once) * costs[unit] / amount,
            signal=None if signal is None else signal.mean * amount / costs[unit],
            averaged=several,
            rank=rank_of(facts, means)(once),
            cosine=_known({p: cosine_of(facts, means, p)(once) for p in facts.products}),
        )
    return Judged(
        name=name,
        bias=_with_interval(facts, bias, bias(once)),
        bias_error=_mean(errors, once) ** 0.5,
        offset=_mean(offset**2, once) ** 0.5,
        variance=_with_interval(facts, variance, variance(once)),
        rank=_estimate(facts, rank_of(facts, judged)),
        signal=signal,
        cosine=_known({p: _estimate(facts, cosine_of(facts, judged, p)) for p in facts.products}),
        tokens=priced["tokens"],
        calls=priced["calls"],
    )


def _known(values: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in values.items() if value is not None}


Statistic = Callable[[np.ndarray], float | None]
"""How often each message counts, (M,) -> a number."""


def _estimate(facts: Facts, statistic: Statistic) -> Estimate | None:
    value = statistic(np.ones(len(facts.worth)))
    return None if value is None else _with_interval(facts, statistic, value)


def _with_interval(facts: Facts, statistic: Statistic, value: float) -> Estimate:
    """Points are drawn anew, each with its messages; fewer than six have no interval."""
    numbers, places = np.unique(facts.points, return_inverse=True)
    if len(numbers) < FEWEST:
        return Estimate(value, None, len(numbers), too_few(len(numbers), "points"))
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), RESAMPLES)
    redrawn = [statistic(times[places].astype(float)) for times in drawn]
    values = [figure for figure in redrawn if figure is not None]
    low, high = np.percentile(values, (2.5, 97.5)) if values else (value, value)
    return Estimate(value, (float(low), float(high)), len(numbers))


def _mean(values: np.ndarray, times: np.ndarray) -> float:
    return float(np.average(values, weights=times))


def _centred(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Less the mean at each point."""
    return values - np.array([values[points == point].mean(axis=0) for point in points])


def _sampling_error(facts: Facts, spread: np.ndarray, judgements: int) -> np.ndarray:
    """The square of what sampling, of judgements and references, leaves of a message's bias."""
    share = np.array([1 - 1 / (facts.points == point).sum() for point in facts.points])
    return share * (spread / judgements + facts.noise**2)


def signal_of(facts: Facts, judged: np.ndarray) -> Statistic:
    """rho^2 / (1 - rho^2) with the sign of rho; None where nothing differs, or no noise is.

    rho is cov(judgement, reference) / (deviation of references * root mean square of judgements),
    covariance and deviation within points: what is said of all messages of a point alike tells
    nothing, and its size is noise.
    """
    right = _centred(facts.points, facts.worth)[:, None]
    sizes, truths = (judged**2).mean(axis=1), (right**2).mean(axis=1)
    both = (judged * right).mean(axis=1)

    def signal(times: np.ndarray) -> float | None:
        size, covariance = _mean(sizes, times) * _mean(truths, times), _mean(both, times)
        if size <= covariance**2:
            return None
        return float(np.sign(covariance)) * covariance**2 / (size - covariance**2)

    return signal


def rank_of(facts: Facts, judged: np.ndarray) -> Statistic:
    """How often two messages of a point are put in order; None where no reference tells two apart.

    Told apart are those whose references differ by more than two standard errors.
    """
    worth, noise, pairs, shares = facts.worth, facts.noise, [], []
    for place, other in np.argwhere(facts.points[:, None] == facts.points[None]):
        apart = worth[place] - worth[other] > 2 * np.hypot(noise[place], noise[other])
        if apart and worth[place] > worth[other]:
            better = judged[place][:, None] - judged[other][None]
            shares.append(float((better > 0).mean() + (better == 0).mean() / 2))
            pairs.append(place)
    values = np.array(shares)

    def rank(times: np.ndarray) -> float | None:
        return _mean(values, times[pairs]) if pairs and times[pairs].any() else None

    return rank


def cosine_of(facts: Facts, judged: np.ndarray, policy: str) -> Statistic:
    """Mean over judgements of the cosine between the estimate's gradient and the reference's.

    One without length counts 0; None where the reference's has none.
    """
    places, products = facts.products[policy]
    worth, judgements = facts.worth[list(places)], judged[list(places)].T

    def cosine(times: np.ndarray) -> float | None:
        right, some = worth * times[list(places)], judgements * times[list(places)]
        length = right @ products @ right
        lengths = np.einsum("ri,ij,rj->r", some, products, some) * length
        along, positive = some @ products @ right, lengths > 0
        lengths = np.sqrt(np.where(positive, lengths, 1.0))
        return float(np.where(positive, along / lengths, 0.0).mean()) if length > 0 else None

    return cosine
