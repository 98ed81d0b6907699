"""The part of a report on an audit of credit: what it says, each estimator, each message.

Owns what of an audit is shown and how; what its file holds is `measure/numbers/credit.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from llm_marl_envs.measure.numbers.credit import (
    AMOUNTS,
    CreditAudit,
    Judged,
    policies_of,
    price_table,
)
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.report.charts import TABLE_ROWS, Chart, colour, draw_dots, legend, picture
from llm_marl_envs.report.tables import Cell, Table, estimated, table

DRAWN = 6
"""Estimators in the picture, those with the most signal for 1000 tokens; more hide each other."""


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


def credit(audit: CreditAudit) -> Credit:
    """The sentence, the tables and the picture of an audit."""
    prices = tuple(table(*price_table(audit.estimators, unit)) for unit in AMOUNTS)
    refused = tuple(f"{name} could not judge: {why}" for name, why in audit.refused.items())
    figures = _figures(audit.estimators)
    return Credit(_says(audit.estimators), figures, prices, refused, _chart(audit))


def seen(estimate: Estimate | None) -> bool:
    """Whether the interval is above 0."""
    return estimate is not None and estimate.ci95 is not None and estimate.ci95[0] > 0


def _says(estimators: Sequence[Judged]) -> str:
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


def _figures(estimators: Sequence[Judged]) -> Table:
    policies = policies_of(estimators)
    rows: list[list[Cell]] = []
    for estimator in estimators:
        cells: list[Cell] = [estimator.name, estimated(estimator.bias), number(estimator.offset)]
        cosines = map(estimator.cosine.get, policies)
        estimates = [estimator.variance, estimator.rank, *cosines, estimator.signal]
        rows.append([*cells, *map(estimated, estimates)])
    named = [f"cosine {policy}" for policy in policies]
    return table(["estimator", "bias", "offset", "variance", "rank", *named, "signal"], rows)


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
