"""Rules of reputation: is somebody good, by what it did last and to whom.

Pure functions of deeds. A deed is generous or not; a chain of deeds begins with the last one of the
seat that is judged, goes on with the one before of whom it was done to, and so on. Who has done
nothing that is known is good. What is a deed, and who sees how long a chain, is a game's own
business.

Papers: image scoring, Nowak and Sigmund (1998, doi 10.1038/31225); standing, Leimar and Hammerstein
(2001, doi 10.1098/rspb.2000.1573); all rules of this kind, Ohtsuki and Iwasa (2004,
doi 10.1016/j.jtbi.2004.06.005), of which these are those that do not look at the own image before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product


@dataclass(frozen=True, slots=True)
class Norm:
    """Who is good: a rule of memory 1, by the last deed and the image of whom it was done to.

    Attributes:
        gave_good: whether who was generous to a good one is good.
        gave_bad: likewise, to a bad one.
        kept_good: whether who kept from a good one is good.
        kept_bad: likewise, from a bad one.
    """

    gave_good: bool
    gave_bad: bool
    kept_good: bool
    kept_bad: bool

    def judged(self, generous: bool, other_good: bool) -> bool:
        """The image of a seat after a deed to one of this image."""
        if generous:
            return self.gave_good if other_good else self.gave_bad
        return self.kept_good if other_good else self.kept_bad

    def image(self, chain: Sequence[bool]) -> bool:
        """Whether a seat is good.

        Args:
            chain: whether its last deed was generous, then that of whom it was done to, before it,
                and so on as far as is known.
        """
        good = True
        for generous in reversed(chain):
            good = self.judged(generous, good)
        return good


IMAGE_SCORING = Norm(gave_good=True, gave_bad=True, kept_good=False, kept_bad=False)
"""Good is who was generous, to whomever."""
STANDING = Norm(gave_good=True, gave_bad=True, kept_good=False, kept_bad=True)
"""As image scoring, but keeping from a bad one is no fault."""
STERN = Norm(gave_good=True, gave_bad=False, kept_good=False, kept_bad=True)
"""As standing, but giving to a bad one is a fault (stern judging)."""
NORMS: Mapping[str, Norm] = {
    "image scoring": IMAGE_SCORING,
    "standing": STANDING,
    "stern judging": STERN,
}


def all_norms() -> list[Norm]:
    """The sixteen rules of memory 1."""
    return [Norm(*answers) for answers in product((False, True), repeat=4)]


def is_generous(gave: int, had: int, share: Fraction) -> bool:
    """Whether so much is at least this share of what one had; of nothing, nothing is."""
    return gave * share.denominator >= share.numerator * had
