"""How many in all: numbers to add, each reported as what is there or as what is missing.

There are n groups of h places. Taking "missing" for "there" turns a total t into n h - t, which is
among the choices too. Totals are those in the middle, each equally often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from llm_marl_envs.questions.answers import number_of
from llm_marl_envs.questions.question import Question
from llm_marl_envs.questions.words import with_choices


def places_of(level: int) -> int:
    """Places in each group."""
    return 5 * level


def totals(level: int, parts: int) -> list[int]:
    """The totals that are asked for: up to 8, symmetric about half of all places."""
    everything = places_of(level) * parts
    return [t for t in range(everything + 1) if abs(2 * t - everything) <= 7]


@dataclass(frozen=True, slots=True, kw_only=True)
class StockKind:
    """A kind of this module; the texts are templates.

    Attributes:
        name: as in `KINDS`.
        conventions: the names for reporting what is there and what is missing.
        text: what is asked.
        lure: the shared knowledge; `{parts}`, `{places}`, `{lure}`.
        part: one group; `{number}`, `{there}`, `{missing}`.
    """

    name: str
    conventions: tuple[str, ...]
    text: str
    lure: str
    part: str

    @property
    def ordered(self) -> bool:
        """As `Kind.ordered`: one number."""
        return True

    @property
    def noted(self) -> bool:
        """As `Kind.noted`: true and other words look alike."""
        return True

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; 2 to 9 parts."""
        if not 2 <= parts <= 9:
            raise ValueError(f"{self.name}: got parts {parts}, expected 2 to 9")
        places, choices = places_of(level), totals(level, parts)
        total = choices[turn % len(choices)]
        counts: list[int] = []
        while sum(counts) != total or not counts:
            counts = [rng.randint(0, places) for _ in range(parts)]
        lure = rng.choice(_lures(level, parts, total))
        return Question(
            kind=self.name,
            level=level,
            text=with_choices(self.text, choices),
            answer=str(total),
            choices=tuple(map(str, choices)),
            evidence=tuple(
                self.part.format(number=number, there=count, missing=places - count)
                for number, count in enumerate(counts, start=1)
            ),
            shared=(self.lure.format(parts=parts, places=places, lure=lure),),
            lure=str(lure),
            parts=tuple((str(count), str(places - count)) for count in counts),
        )

    def possible(self, question: Question) -> int:
        """As many as there are choices."""
        return len(question.choices)

    def say(self, question: Question, part: tuple[str, ...], convention: str) -> tuple[str, ...]:
        """What is there, or what is missing."""
        return part[1:] if convention == self.conventions[1] else part[:1]

    def read(self, words: tuple[str, ...], convention: str) -> tuple[str, ...]:
        """Experts take no notes of these reports."""
        return ()

    def hear(
        self,
        question: Question,
        parts: Sequence[tuple[str, ...]],
        heard: Sequence[tuple[str, ...]],
        convention: str,
    ) -> str:
        """The sum, or the nearest choice; the lure where a group is missing."""
        places = int(question.parts[0][0]) + int(question.parts[0][1])
        numbers = [number_of(words[0]) for words in heard if words]
        known = [int(number) for number in numbers if number is not None and 0 <= number <= places]
        if len(known) + len(parts) < len(question.parts):
            return question.lure
        there = [places - n if convention == self.conventions[1] else n for n in known]
        total = sum(there) + sum(int(part[0]) for part in parts)
        return min(question.choices, key=lambda choice: abs(int(choice) - total))

    def lowest(self, question: Question) -> int:
        """Its own: every level has a form of its own."""
        return question.level

    def solo(self, level: int, parts: int) -> float:
        """By Bayes' rule over all counts and lures."""
        return _solo(level, parts)


def _lures(level: int, parts: int, total: int) -> list[int]:
    """Wrong totals that reading in the wrong convention does not give either."""
    wrong = {total, places_of(level) * parts - total}
    return [t for t in totals(level, parts) if t not in wrong]


@lru_cache(maxsize=64)
def _solo(level: int, parts: int) -> float:
    places, asked = places_of(level), totals(level, parts)
    seen: dict[tuple[int, int], dict[int, float]] = {}
    rest = Counter({0: 1})  # total of the other groups -> in how many ways
    for _ in range(parts - 1):
        grown: Counter[int] = Counter()
        for t, n in rest.items():
            for count in range(places + 1):
                grown[t + count] += n
        rest = grown
    for total in asked:
        whole = sum(rest[total - own] for own in range(places + 1))
        lures = _lures(level, parts, total)
        for own in range(places + 1):
            for lure in lures:
                chance = rest[total - own] / whole / len(lures) / len(asked)
                seen.setdefault((own, lure), {})[total] = chance
    return sum(max(chances.values()) for chances in seen.values())
