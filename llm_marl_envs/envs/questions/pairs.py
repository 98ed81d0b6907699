"""Questions answered by one word of each of several pairs: which thing was lost, who won.

For each place of the answer the question lists some pairs, drawn from many; one of them is settled.
Every part settles some pairs, all parts settle all. A pair can be reported by the word that is true
or by the other one; a report is one word either way. Read in the wrong convention, every reported
word comes out wrong.

Why one part does not decide: nothing is said of the other parts' pairs, not even which they are, so
one part gives no answer.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from llm_marl_envs.envs.questions.kind import Kind, Words
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import Slots


def listed_pairs(level: int) -> int:
    """How many pairs a question lists for each place of the answer, where there are so many."""
    return 1 + 2 * level


@dataclass(frozen=True, slots=True, kw_only=True)
class PairKind(Kind):
    """A kind of this module; the texts are templates.

    Attributes:
        name: as in `KINDS`.
        conventions: the names for reporting the true words and for reporting the others.
        slots: for each place in the answer, the pairs to draw from; no word is in two pairs.
        text: what is asked.
        fact: one settled pair; `{true}`, `{other}`.
    """

    name: str
    conventions: Words
    slots: Slots
    text: str
    fact: str

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; at most as many pairs as there are slots."""
        count = level * parts
        if parts < 2 or count > len(self.slots):
            raise ValueError(
                f"{self.name}: got level {level}, parts {parts}, which needs {count} pairs; "
                f"expected parts >= 2 and at most {len(self.slots)} pairs"
            )
        lists = [
            rng.sample(slot, min(listed_pairs(level), len(slot))) for slot in self.slots[:count]
        ]
        pairs = [rng.choice(one) for one in lists]
        # The answer's place among all combinations takes turns, so no combination is frequent.
        true = [pair[turn >> place & 1] for place, pair in enumerate(pairs)]
        other = [pair[1 - (turn >> place & 1)] for place, pair in enumerate(pairs)]
        divided = [range(i * level, (i + 1) * level) for i in range(parts)]
        facts = [self.fact.format(true=true[i], other=other[i]) for i in range(count)]
        lines = [", ".join(f"{a} or {b}" for a, b in one) for one in lists]
        return Question(
            kind=self.name,
            level=level,
            text="\n".join([self.text, *lines]),
            answer=" ".join(true),
            choices=tuple(" ".join(words) for words in itertools.product(*pairs)),
            evidence=tuple("\n".join(facts[i] for i in part) for part in divided),
            parts=tuple(tuple(w for i in part for w in (true[i], other[i])) for part in divided),
        )

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """The true words of a part, or the others."""
        return part[1::2] if convention == self.conventions[1] else part[::2]

    def read(self, words: Words, convention: str) -> Words:
        """The true words behind those of a report; words of no pair are left out."""
        opposite = _opposites(self.slots)
        known = [word for word in words if word in opposite]
        return tuple(opposite[w] if convention == self.conventions[1] else w for w in known)

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """The own words, and the reported ones or their opposites; "" where a pair is missing."""
        place_of = {word: i for choice in question.choices for i, word in enumerate(choice.split())}
        answer: dict[int, str] = {}
        for words in heard:
            answer.update({place_of[w]: w for w in self.read(words, convention) if w in place_of})
        for part in parts:
            answer.update({place_of[word]: word for word in part[::2]})
        if len(answer) < len(question.answer.split()):
            return question.lure
        return " ".join(answer[place] for place in sorted(answer))

    def solo(self, level: int, parts: int) -> float:
        """The own pairs, once the others' pairs are known; their words are equally likely."""
        return 0.5 ** (level * (parts - 1))


@lru_cache(maxsize=8)
def _opposites(slots: Slots) -> dict[str, str]:
    pairs = [pair for slot in slots for pair in slot]
    return dict(pairs) | {b: a for a, b in pairs}
