"""What an audit of credit finds: the figures of each estimator, each message, and their file.

Owns what `credit_audit.json` holds and the table of prices. `llm-marl credit-audit` writes the
file; what its numbers mean is docs/credit_audit.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llm_marl_envs.files.json_files import from_json, read_json
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import number

AUDIT_FILE = "credit_audit.json"
VERSION = 2
AMOUNTS = {"tokens": "1000 tokens", "calls": "1 call"}
"""What signals and variances are given for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What a price buys.

    Attributes:
        cost: of one judgement: tokens, or steps of the environment.
        variance: of the mean of as many judgements as 1000 tokens, or one step, buy.
        signal: that these bring together.
        averaged: how many judgements one of the dearest estimator pays for, at most all.
        rank: of the mean of so many.
        cosine: the same, policy -> cosine.
    """

    cost: float
    variance: float
    signal: float | None = None
    averaged: int
    rank: float | None = None
    cosine: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An estimator's figures.

    Attributes:
        name: of the estimator.
        bias: it was seen where its interval is above 0.
        bias_error: what sampling alone leaves of a bias, root mean square.
        offset: what it says of all messages of a point alike, root mean square.
        variance: of one judgement.
        rank: None where no reference tells two messages apart.
        signal: None where nothing differs, or no noise is; below 0 where judgements go against the
            references.
        cosine: policy -> cosine.
        tokens: what they buy.
        calls: what steps of the environment buy.
    """

    name: str
    bias: Estimate
    bias_error: float
    offset: float
    variance: Estimate
    rank: Estimate | None = None
    signal: Estimate | None = None
    cosine: Mapping[str, Estimate] = field(default_factory=dict)
    tokens: Priced
    calls: Priced


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

    estimators: tuple[Judged, ...]
    messages: tuple[Message, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


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


def policies_of(estimators: Sequence[Judged]) -> list[str]:
    """The policies that any of them has a cosine of, sorted."""
    return sorted({policy for estimator in estimators for policy in estimator.cosine})


def price_table(estimators: Sequence[Judged], unit: str) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of what tokens or calls buy; `unit` is one of `AMOUNTS`."""
    policies, amount = policies_of(estimators), AMOUNTS[unit]
    heading = ["estimator", f"{unit} each", f"variance of {amount}", f"signal of {amount}"]
    heading += ["averaged", "their rank", *(f"their cosine {p}" for p in policies)]
    rows = []
    for estimator in estimators:
        price: Priced = getattr(estimator, unit)
        costs = map(number, [price.cost, price.variance, price.signal])
        figures = map(number, [price.rank, *map(price.cosine.get, policies)])
        rows.append([estimator.name, *costs, str(price.averaged), *figures])
    return heading, rows
