"""The part of a report on an audit of credit: what it says, each estimator, each message.

Owns what of `credit_audit.json` is shown and how. `llm-marl credit-audit` writes the file, and what
its numbers mean is docs/credit_audit.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from llm_marl_envs.files.json_files import from_json, read_json
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.report.charts import TABLE_ROWS, Chart, colour, draw_dots, legend, picture
from llm_marl_envs.report.tables import Cell, Table, estimated, table

VERSION = 2
DRAWN = 6
"""Estimators in the picture, those with the most signal for 1000 tokens; more hide each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What a price buys, by the names that the file has."""

    cost: float
    variance: float
    averaged: int
    signal: float | None = None
    rank: float | None = None
    cosine: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """An estimator's figures, by the names that the file has."""

    name: str
    bias: Estimate
    bias_error: float
    offset: float
    variance: Estimate
    tokens: Priced
    calls: Priced
    rank: Estimate | None = None
    signal: Estimate | None = None
    cosine: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """A message: who said it, its reference with its interval, estimator -> its judgements."""

    point: int
    agent: str
    turn: int
    worth: float
    ci95: tuple[float, float]
    judged: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class CreditAudit:
    """What the file holds of an audit."""

    estimators: tuple[Estimator, ...]
    messages: tuple[Message, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Credit:
    """The part of a page: what the audit says, a sentence; its figures; its picture.

    Attributes:
        says: the sentence.
        figures: of one judgement.
        prices: of what tokens and calls buy.
        refused: estimators that could not judge, and why.
        chart: every message.
    """

    says: str
    figures: Table
    prices: tuple[Table, ...]
    refused: tuple[str, ...]
    chart: Chart


def read_credit_audit(path: str | Path) -> CreditAudit:
    """What `llm-marl credit-audit --output` wrote.

    Raises:
        ValueError: no such file, half-written, another version, a field that is no such thing as it
            should be, or no estimator or message.
    """
    data = read_json(path)
    if data.get("version") != VERSION:
        raise ValueError(f"{path}: version {data.get('version')!r}, this release reads {VERSION}")
    audit: CreditAudit = from_json(CreditAudit, data, path)
    names = {estimator.name for estimator in audit.estimators}
    if not names or not audit.messages:
        raise ValueError(f"{path}: no estimators, or no messages")
    for place, message in enumerate(audit.messages):
        if set(message.judged) != names or not all(message.judged.values()):
            raise ValueError(f"{path}, message {place}: expected judgements of {sorted(names)}")
    return audit


def credit(audit: CreditAudit) -> Credit:
    """The sentence, the tables and the picture of an audit."""
    prices = tuple(_prices(audit.estimators, unit) for unit in ("tokens", "calls"))
    refused = tuple(f"{name} could not judge: {why}" for name, why in audit.refused.items())
    figures = _figures(audit.estimators)
    return Credit(_says(audit.estimators), figures, prices, refused, _chart(audit))


def seen(estimate: Estimate | None) -> bool:
    """Whether the interval is above 0."""
    return estimate is not None and estimate.ci95 is not None and estimate.ci95[0] > 0


def _says(estimators: Sequence[Estimator]) -> str:
    signals = [
        (estimator.tokens.signal, estimator.name)
        for estimator in estimators
        if estimator.tokens.signal and seen(estimator.signal)
    ]
    if not signals:
        return "No estimator told these messages apart."
    (best, first), *others = sorted(signals, reverse=True)
    says = f"For 1000 sampled tokens {first} brings the most signal ({number(best)}"
    says += f", then {others[0][1]} {number(others[0][0])})" if others else ")"
    biased = [estimator.name for estimator in estimators if seen(estimator.bias)]
    return f"{says}; bias was seen in {' and '.join(biased) if biased else 'none'}."


def _policies(estimators: Sequence[Estimator]) -> list[str]:
    return sorted({policy for estimator in estimators for policy in estimator.cosine})


def _figures(estimators: Sequence[Estimator]) -> Table:
    policies = _policies(estimators)
    rows: list[list[Cell]] = []
    for estimator in estimators:
        cells: list[Cell] = [estimator.name, estimated(estimator.bias), number(estimator.offset)]
        cosines = map(estimator.cosine.get, policies)
        estimates = [estimator.variance, estimator.rank, *cosines, estimator.signal]
        rows.append([*cells, *map(estimated, estimates)])
    named = [f"cosine {policy}" for policy in policies]
    return table(["estimator", "bias", "offset", "variance", "rank", *named, "signal"], rows)


def _prices(estimators: Sequence[Estimator], unit: str) -> Table:
    policies = _policies(estimators)
    amount = {"tokens": "1000 tokens", "calls": "1 call"}[unit]
    head = ["estimator", f"{unit} each", f"variance of {amount}", f"signal of {amount}"]
    head += ["averaged", "their rank", *(f"their cosine {p}" for p in policies)]
    rows: list[list[Cell]] = []
    for estimator in estimators:
        price: Priced = getattr(estimator, unit)
        costs = map(number, [price.cost, price.variance, price.signal])
        figures = map(number, [price.rank, *map(price.cosine.get, policies)])
        rows.append([estimator.name, *costs, str(price.averaged), *figures])
    return table(head, rows)


def _chart(audit: CreditAudit) -> Chart:
    """Each message's reference against the mean of what each estimator says of it."""
    ordered = sorted(audit.estimators, key=lambda e: e.tokens.signal or 0.0, reverse=True)
    names = [e.name for e in audit.estimators if e in ordered[:DRAWN]]
    means = [[fmean(message.judged[name]) for name in names] for message in audit.messages]
    worth = [message.worth for message in audit.messages]

    def draw(axes: Any) -> None:
        for place, judged in enumerate(zip(*means, strict=True)):
            draw_dots(axes, worth, judged, colour(place))

    rows = [
        [f"{m.agent}, turn {m.turn}, point {m.point}", *map(number, [m.worth, *row])]
        for m, row in zip(audit.messages, means, strict=True)
    ]
    left, hidden = len(rows) - TABLE_ROWS, len(audit.estimators) - len(names)
    notes = [
        "Each dot is a message as one estimator judges it; dots of a good one rise to the right."
    ]
    notes += [f"{hidden} with less signal for 1000 tokens are not drawn."] if hidden else []
    notes += [f"The table leaves {left} messages out."] if left > 0 else []
    return Chart(
        title="Mean judgement of each message",
        label="mean judgement of each message, over its reference advantage",
        picture=picture("reference advantage", "reward", draw),
        keys=legend(names),
        note=" ".join(notes),
        numbers=table(["message", "reference", *names], rows[:TABLE_ROWS]),
    )
