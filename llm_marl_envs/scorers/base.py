"""What a scorer is: texts in, named parts of a score out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What several authors wrote from one source.

    Attributes:
        source: the text that all were to work from.
        texts: one per author.
        references: texts to compare with: one per author, one for all together, or none.
        together: whether the texts are parts of one text (an abstract), or each is complete by
            itself (two summaries).
    """

    source: str
    texts: tuple[str, ...]
    references: tuple[str, ...] = ()
    together: bool = False


class Scorer(Protocol):
    """Says what texts are worth."""

    def score(self, batch: Sequence[Submission]) -> Sequence[Mapping[str, float]]:
        """Name -> part of the score, for each submission.

        The parts sum to a number in [0, 1], and every submission has the same names. A score must
        not depend on what else is in the batch.
        """
        ...
