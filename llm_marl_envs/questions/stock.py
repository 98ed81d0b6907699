"""How many cups hang on all racks: numbers to add, reported as full or as empty hooks.

With c hooks on each of n racks, reading "full" for "empty" turns a total t into n c - t, which is
among the choices too. Totals are the four or five in the middle, each equally often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from llm_marl_envs.questions.answers import number_of
from llm_marl_envs.questions.question import Question


def hooks_of(level: int) -> int:
    """Hooks on each rack."""
    return 10 * level


def totals(level: int, parts: int) -> list[int]:
    """The totals that are asked for, symmetric about half of all hooks."""
    hooks = hooks_of(level) * parts
    return [t for t in range(hooks + 1) if abs(2 * t - hooks) <= 4]


class Stock:
    """As `Kind`; see the module's docstring."""

    name = "stock"
    ordered = True
    conventions = ("full", "empty")

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; 2 to 9 parts."""
        if not 2 <= parts <= 9:
            raise ValueError(f"{self.name}: got parts {parts}, expected 2 to 9")
        hooks, choices = hooks_of(level), totals(level, parts)
        total = choices[turn % len(choices)]
        counts: list[int] = []
        while sum(counts) != total or not counts:
            counts = [rng.randint(0, hooks) for _ in range(parts)]
        lure = rng.choice(_lures(level, parts, total))
        return Question(
            kind=self.name,
            level=level,
            text="How many cups hang on all racks together?",
            answer=str(total),
            choices=tuple(map(str, choices)),
            evidence=tuple(
                f"Rack {number}, full hooks: [{count}]\nRack {number}, empty hooks: "
                f"[{hooks - count}]"
                for number, count in enumerate(counts, start=1)
            ),
            shared=(f"There are {parts} racks of {hooks} hooks. The old list says [{lure}].",),
            lure=str(lure),
            parts=tuple((str(count), str(hooks - count)) for count in counts),
        )

    def say(self, question: Question, part: tuple[str, ...], convention: str) -> tuple[str, ...]:
        """The full or the empty hooks of a rack."""
        return part[1:] if convention == self.conventions[1] else part[:1]

    def hear(
        self,
        question: Question,
        parts: Sequence[tuple[str, ...]],
        heard: Sequence[tuple[str, ...]],
        convention: str,
    ) -> str:
        """The sum, or the nearest choice; the lure where a rack is missing."""
        hooks = int(question.parts[0][0]) + int(question.parts[0][1])
        numbers = [number_of(words[0]) for words in heard if words]
        known = [int(number) for number in numbers if number is not None and 0 <= number <= hooks]
        if len(known) + len(parts) < len(question.parts):
            return question.lure
        full = [hooks - n if convention == self.conventions[1] else n for n in known]
        total = sum(full) + sum(int(part[0]) for part in parts)
        return min(question.choices, key=lambda choice: abs(int(choice) - total))

    def solo(self, level: int, parts: int) -> float:
        """By Bayes' rule over all counts and lures."""
        return _solo(level, parts)


def _lures(level: int, parts: int, total: int) -> list[int]:
    """Wrong totals that reading in the wrong convention does not give either."""
    wrong = {total, hooks_of(level) * parts - total}
    return [t for t in totals(level, parts) if t not in wrong]


@lru_cache(maxsize=64)
def _solo(level: int, parts: int) -> float:
    hooks, asked = hooks_of(level), totals(level, parts)
    seen: dict[tuple[int, int], dict[int, float]] = {}
    rest = Counter({0: 1})  # total of the other racks -> in how many ways
    for _ in range(parts - 1):
        grown: Counter[int] = Counter()
        for t, n in rest.items():
            for count in range(hooks + 1):
                grown[t + count] += n
        rest = grown
    for total in asked:
        whole = sum(rest[total - own] for own in range(hooks + 1))
        lures = _lures(level, parts, total)
        for own in range(hooks + 1):
            for lure in lures:
                chance = rest[total - own] / whole / len(lures) / len(asked)
                seen.setdefault((own, lure), {})[total] = chance
    return sum(max(chances.values()) for chances in seen.values())
