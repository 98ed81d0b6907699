"""Rules by which a seat gives, chooses and punishes: functions of what everybody gave before.

A script heeds what was given, not what was said, and not who was punished. What it has in mind can
be seen by all, so that best responses to it can be found. What scripts say is `goods_experts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.envs.societies.goods import Fines, Given, Groups, Rules, group_of
from llm_marl_envs.envs.societies.goods_numbers import needed

SHARER, GRABBER, GRIM, FOLLOWER, PUNISHER = PLANS = (
    "sharer",
    "grabber",
    "grim",
    "follower",
    "punisher",
)
Mind = tuple[int, ...]
"""Seat -> what is kept of it in mind; () at first."""


@dataclass(frozen=True, slots=True)
class Script:
    """One of `PLANS`.

    Attributes:
        plan: its name.
        units: of a punisher, for each who gave less than everything; None: as many as `needed`.
    """

    plan: str
    units: int | None = None

    def wishes(self, rules: Rules, mind: Mind, seat: int) -> frozenset[int]:
        """With whom it would play: with all; if grim, with those who always gave everything."""
        others = frozenset(range(rules.seats)) - {seat}
        if self.plan == GRIM and mind:
            return frozenset(other for other in others if not mind[other])
        return others

    def gives(self, rules: Rules, mind: Mind, seat: int, group: Sequence[int]) -> int:
        """The amount that a seat names."""
        others = [other for other in group if other != seat]
        if self.plan == GRABBER or (self.plan == GRIM and mind and any(mind[o] for o in others)):
            return 0
        if self.plan == FOLLOWER and mind and others:
            return sum(mind[other] for other in others) // len(others)
        return rules.endowment

    def fines(self, rules: Rules, given: Given, groups: Groups, seat: int) -> Fines:
        """Whom it punishes, those who gave least first, and after itself in seat order."""
        if self.plan != PUNISHER:
            return []
        units = needed(rules) if self.units is None else self.units
        bad = [
            (given[other] or 0, (other - seat) % rules.seats, other)
            for other in range(rules.seats)
            if other != seat
            and len(group_of(groups, other)) > 1
            and (given[other] or 0) < rules.endowment
        ]
        return [(other, units) for _, _, other in sorted(bad)]

    def heard(self, rules: Rules, mind: Mind, given: Given, groups: Groups) -> Mind:
        """What it has in mind after a round: what each gave last, or if grim, who ever gave less.

        Who was alone could give nothing, and stands as before.
        """
        if self.plan not in (GRIM, FOLLOWER):
            return ()
        first = 0 if self.plan == GRIM else rules.endowment
        before = mind or (first,) * rules.seats
        played = {seat for group in groups if len(group) > 1 for seat in group}
        if self.plan == GRIM:
            gave = [int((own or 0) < rules.endowment) for own in given]
            return tuple(
                max(old, new) if seat in played else old
                for seat, (old, new) in enumerate(zip(before, gave, strict=True))
            )
        return tuple(
            (own or 0) if seat in played else old
            for seat, (old, own) in enumerate(zip(before, given, strict=True))
        )
