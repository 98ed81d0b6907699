"""How an algorithm is related to others: declared on its class, proven by a test, shown in a table.

Owns the record. The proofs are in `tests/trainers/algorithms/test_relations.py`, one for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What two algorithms, or an algorithm and the exact gradient, have in common."""

    ALIAS = "alias"
    """The same advantages, up to a factor that `when` names."""
    VARIANCE = "other variance"
    """The same expected gradient."""
    FIXED_POINTS = "other fixed points"
    """Another expected gradient that vanishes elsewhere; `named` says what it follows instead."""
    SCHEDULE = "other rollout or schedule"
    """Other episodes, or other agents in training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One thing that holds of an algorithm.

    Attributes:
        kind: see `Kind`.
        of: the other algorithm with its settings, or "the policy gradient": the gradient of each
            agent's expected return (the team's with `credit="team"`).
        when: the settings and games for which it holds.
        named: the objective that is followed instead, or the bias; needed for `FIXED_POINTS`.

    Raises:
        ValueError: other fixed points and nothing named.
    """

    kind: Kind
    of: str
    when: str
    named: str = ""

    def __post_init__(self) -> None:
        if self.kind is Kind.FIXED_POINTS and not self.named:
            raise ValueError(f"{self}: expected the objective or the bias in `named`")
