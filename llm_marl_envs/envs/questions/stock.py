"""How many in all: numbers to add, each reported as what is there or as what is missing.

There are n groups of h places. Taking "missing" for "there" turns a total t into n h - t, which is
among the choices too. Totals are those in the middle, each equally often; the choices are the total
asked for, three others, drawn, and what each of the four is misread as.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from llm_marl_envs.core.answers import number_of
from llm_marl_envs.envs.questions.kind import Kind, Words
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import place_of, with_choices

ASKED = 7
"""Totals on each side of the middle that are asked for."""
LISTED = 4
"""Of them, how many are among the choices, with what they are misread as."""


def places_of(level: int) -> int:
    """Places in each group."""
    return 4 + 5 * level


def totals(level: int, parts: int) -> list[tuple[int, int]]:
    """The totals that are asked for, in pairs (total, what it is misread as), first < second."""
    everything = places_of(level) * parts
    below = [total for total in range(everything) if 2 * total < everything]
    return [(total, everything - total) for total in below[-ASKED:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StockKind(Kind):
    """A kind of this module; the texts are templates.

    Attributes:
        name: as in `KINDS`.
        conventions: the names for reporting what is there and what is missing.
        text: what is asked.
        lure: the shared knowledge; `{parts}`, `{places}`, `{lure}`.
        part: one group; `{number}`, `{there}`, `{missing}`.
    """

    name: str
    conventions: Words
    text: str
    lure: str
    part: str
    ordered = True

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; 2 to 9 parts."""
        if not 2 <= parts <= 9:
            raise ValueError(f"{self.name}: got parts {parts}, expected 2 to 9")
        places, pairs = places_of(level), totals(level, parts)
        asked = [total for pair in pairs for total in pair]
        total = asked[turn % len(asked)]
        counts: list[int] = []
        while sum(counts) != total or not counts:
            counts = [rng.randint(0, places) for _ in range(parts)]
        misread = places * parts - total
        others = rng.sample([pair for pair in pairs if total not in pair], LISTED - 1)
        # Reading in the wrong convention does not give the lure either.
        wrong = [other for pair in others for other in pair]
        lure = rng.choice(wrong)
        choices = [misread, *wrong]
        rng.shuffle(choices)
        choices.insert(place_of(turn, len(asked), 2 * LISTED), total)
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

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """What is there, or what is missing."""
        return part[1:] if convention == self.conventions[1] else part[:1]

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
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

    def solo(self, level: int, parts: int) -> float:
        """By Bayes' rule over all counts and lures."""
        return _solo(level, parts)


@lru_cache(maxsize=64)
def _solo(level: int, parts: int) -> float:
    """Over own counts, choices and lures: the most likely of the choices that are left.

    All totals are asked for, all counts of a total, all other choices and all lures are drawn
    equally often.
    """
    places, pairs = places_of(level), totals(level, parts)
    rest = ways(places, parts - 1)
    whole = ways(places, parts)
    chosen = list(combinations(pairs, LISTED))
    found = 0.0
    for choices in chosen:
        for lured in choices:  # then neither the lure nor what it is misread as is right
            left = [total for pair in choices if pair != lured for total in pair]
            for own in range(places + 1):
                best = max(rest[total - own] / whole[total] for total in left)
                found += best / len(left) / len(choices)
    return found / len(chosen)


def ways(places: int, groups: int) -> Counter[int]:
    """Total of some groups -> in how many ways they come to it."""
    found = Counter({0: 1})
    for _ in range(groups):
        grown: Counter[int] = Counter()
        for total, count in found.items():
            for more in range(places + 1):
                grown[total + more] += count
        found = grown
    return found
