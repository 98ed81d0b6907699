"""Rules by which a seat gives: a function of what it has and of what it is shown.

A script heeds deeds, not words, so that best responses to it can be found. It may bear one thing in
mind: whether it was wronged. What scripts say is `gift_experts.py`, what is good or bad
`reputation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from llm_marl_envs.envs.societies.gifts import TAKES, Deed, Rules
from llm_marl_envs.envs.societies.reputation import IMAGE_SCORING, STANDING, Norm, is_generous

SHARER, GRABBER, SCORER, STANDER, FOLLOWER, GRIM, PUNISHER = PLANS = (
    "sharer",
    "grabber",
    "image_scorer",
    "standing",
    "follower",
    "grim",
    "punisher",
)
JUDGES: Mapping[str, Norm] = {SCORER: IMAGE_SCORING, STANDER: STANDING, PUNISHER: STANDING}
"""Plans that give to the good alone, and by what norm."""


@dataclass(frozen=True, slots=True)
class Script:
    """One of `PLANS`, or any other name with a norm.

    Attributes:
        plan: its name.
        share: of what it has that it gives, and that it demands of others: above 0, at most 1.
        norm: by which it judges whom it gives to, in place of the plan's own.
    """

    plan: str
    share: Fraction = Fraction(1)
    norm: Norm | None = None

    def generous(self, deed: Deed) -> bool:
        """Whether a deed is what it demands."""
        return is_generous(deed.gave, deed.had, self.share)

    def deed(self, had: int, other: int, chain: Sequence[Deed], wronged: bool = False) -> Deed:
        """What it does.

        Args:
            had: units that it has.
            other: units of whom it gives to.
            chain: what it is shown of it, as `gifts.trace` has it.
            wronged: what it bears in mind.
        """
        least = Deed(-(-self.share.numerator * had // self.share.denominator), had)
        norm = self.norm or JUDGES.get(self.plan)
        if norm is not None:
            if norm.image([self.generous(deed) for deed in chain]):
                return least
            spent = min(had // 2, -(-other // TAKES)) if self.plan == PUNISHER else 0
            return Deed(0, had, spent)
        if self.plan == GRABBER or (self.plan == GRIM and self.heeds(chain, wronged)):
            return Deed(0, had)
        if self.plan == FOLLOWER and chain and chain[0].had:
            return Deed(had * chain[0].gave // chain[0].had, had)
        return least

    def heeds(self, deeds: Sequence[Deed], wronged: bool) -> bool:
        """What it bears in mind after it has seen these deeds."""
        return self.plan == GRIM and (wronged or not all(map(self.generous, deeds)))


def plans_of(rules: Rules) -> tuple[str, ...]:
    """The plans that differ under these rules."""
    return PLANS if rules.punish else PLANS[: PLANS.index(PUNISHER)]
