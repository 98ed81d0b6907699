"""What a society did round by round, as facts in `info` tell it. Pure functions.

Any environment may put these into the `info` of a seat, in the turns that count:

    over_use           whether it took more than its part; an episode without it is of no society
    got, given, gave   what it took, or gave: one of the three
    named              what it asked for
    share              what it gave, as a part of what it had
    stock              what there was for all before
    had                what it had itself before
    spent, fined       what it spent to punish others, what others' punishment took from it
    group              the seats with which it did that
    survival           at the end, the share of all rounds that what is shared lasted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from llm_marl_envs.files.json_files import finite

VERBS = {"got": "took", "given": "gave", "gave": "gave"}
"""Facts that say what a seat took or gave, and what it did then."""
NUMBERS = (*VERBS, "named", "share", "stock", "had", "spent", "fined", "survival")
OVER_USE, GROUP = "over_use", "group"

Facts = Mapping[str, Any]
"""Name -> number, truth or names of seats; those alone that are what they should be."""


@dataclass(frozen=True, slots=True)
class Society:
    """What seats did.

    Attributes:
        seats: in order.
        rounds: for each, what is known of each seat.
    """

    seats: tuple[str, ...]
    rounds: tuple[Mapping[str, Facts], ...]

    def each(self, name: str, seat: str) -> list[Any]:
        """A fact of a seat in each round; None where it is not known."""
        return [done[seat].get(name) for done in self.rounds]

    def tells(self, name: str) -> bool:
        """Whether a fact is known of somebody in some round."""
        return any(name in facts for done in self.rounds for facts in done.values())

    @property
    def amount(self) -> str:
        """The fact that says what seats took or gave."""
        return next((name for name in VERBS if self.tells(name)), "")

    @property
    def verb(self) -> str:
        """What seats did with amounts."""
        return VERBS.get(self.amount, "")

    @property
    def collapsed(self) -> bool:
        """Whether what is shared did not last."""
        last = self.rounds[-1].values() if self.rounds else ()
        return any(facts.get("survival", 1.0) < 1 for facts in last)

    def stock(self, number: int) -> float | None:
        """What there was for all before a round, from 0."""
        return next((f["stock"] for f in self.rounds[number].values() if "stock" in f), None)


def society_of(told: Mapping[str, Sequence[Mapping[str, Any]]]) -> Society | None:
    """The society that seats' `info` tells of, turn by turn; None where it tells of none.

    Whatever a record holds is taken: a number below 0 counts as 0, and what is no number, or of
    another type, is not known.
    """
    merged = {seat: _merged(infos) for seat, infos in told.items()}
    rows = zip_longest(*merged.values(), fillvalue={})
    rounds = tuple(dict(zip(merged, row, strict=True)) for row in rows)
    society = Society(tuple(merged), tuple(done for done in rounds if any(done.values())))
    return society if society.tells(OVER_USE) else None


def round_of_each(infos: Sequence[Mapping[str, Any]]) -> list[int]:
    """The round of each turn of a seat, from 0.

    A turn with a fact that its round has already begins the next one. A turn without facts is of
    talk, and belongs to the next turn that has some.
    """
    numbers: list[int] = []
    number, seen = 0, set[str]()
    for place, info in enumerate(infos):
        names = set(known(info))
        if names & seen:
            number, seen = number + 1, set()
        seen |= names
        if names:
            numbers += [number] * (place + 1 - len(numbers))
    return numbers + [number + bool(seen)] * (len(infos) - len(numbers))


def known(info: Mapping[str, Any]) -> Facts:
    """The facts of a turn."""
    facts: dict[str, Any] = {
        name: max(0.0, float(info[name])) for name in NUMBERS if finite(info.get(name))
    }
    if isinstance(info.get(OVER_USE), bool):
        facts[OVER_USE] = info[OVER_USE]
    group = info.get(GROUP)
    if isinstance(group, (list, tuple)) and all(isinstance(seat, str) for seat in group):
        facts[GROUP] = tuple(group)
    return facts


def _merged(infos: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is known of a seat in each round."""
    numbers = round_of_each(infos)
    rounds: list[dict[str, Any]] = [{} for _ in range(max(numbers, default=-1) + 1)]
    for info, number in zip(infos, numbers, strict=True):
        rounds[number].update(known(info))
    return rounds
