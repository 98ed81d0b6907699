"""What is known of a case by its chances: what facts say about what is wrong. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod

from llm_marl_envs.envs.consult.record import Record


@dataclass(frozen=True)
class Case:
    """A case with known chances; given the class, facts have nothing to do with each other.

    Attributes:
        record: what the person knows.
        classes: what can be wrong.
        prior: the chance of each, before anything is told.
        likelihood: class -> fact -> chance of each value.
        right: what is wrong.
    """

    record: Record
    classes: tuple[str, ...]
    prior: tuple[float, ...]
    likelihood: tuple[tuple[tuple[float, ...], ...], ...]
    right: str

    def posterior(self, known: Mapping[int, str]) -> dict[str, float]:
        """Class -> its chance, given facts (place -> value)."""
        facts = self.record.facts
        places = [(place, facts[place].values.index(value)) for place, value in known.items()]
        joint = [
            chance * prod(row[place][value] for place, value in places)
            for chance, row in zip(self.prior, self.likelihood, strict=True)
        ]
        total = sum(joint)
        return {name: share / total for name, share in zip(self.classes, joint, strict=True)}

    def guess(self, known: Mapping[int, str]) -> str:
        """The class to name, given facts; the first of several."""
        chances = self.posterior(known)
        return max(chances, key=lambda name: chances[name])

    def chance(self, known: Mapping[int, str]) -> float:
        """The chance of what is wrong, given facts."""
        return self.posterior(known)[self.right]

    def information(self, known: Mapping[int, str], place: int) -> float:
        """What a question is expected to tell about the class, in bits; 0 for a known fact."""
        if place in known:
            return 0.0
        chances = [*self.posterior(known).values()]
        bits = _entropy(chances)
        for value in range(len(self.record.facts[place].values)):
            joint = [c * row[place][value] for c, row in zip(chances, self.likelihood, strict=True)]
            total = sum(joint)
            bits -= total * _entropy([share / total for share in joint])
        return max(bits, 0.0)


def _entropy(chances: Sequence[float]) -> float:
    return -sum(share * log2(share) for share in chances if share > 0)
