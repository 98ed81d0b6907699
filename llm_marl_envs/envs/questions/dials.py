"""Questions about a row of dials that can be named in two ways: by colours or by shapes.

Each part shows one dial, which has a colour and a shape. Two answers are right: all colours in
order and all shapes in order; a mixture is wrong. No colour tells a shape, so reports in different
descriptions cannot be put together. In some questions everybody knows that the colours, or the
shapes, have worn off: one description and one right answer are left, so no description fits all.

Why one part does not decide: the other dials are drawn independently, and the manual, which all
shared knowledge quotes, is wrong in every place.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.envs.questions.kind import Kind, Words
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import listed, table

PER_LEVEL = 4
"""Words of each description at level 1, and as many more at each level."""
WORN = (None, 0, None, None, None, 1, None, None)
"""Which description has worn off, in turns: an eighth of the questions each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialKind(Kind):
    """A kind of this module; the texts are templates.

    Attributes:
        name: as in `KINDS`.
        conventions: the names of the two descriptions.
        words: the words of each; no word is in both.
        text: what is asked; `{parts}`.
        lure: the shared knowledge; `{lure}`.
        worn: what is shared where one description is missing; `{worn}`.
        part: one dial; `{number}`, `{seen}`.
    """

    name: str
    conventions: Words
    words: tuple[Words, Words]
    text: str
    lure: str
    worn: str
    part: str
    ordered = True
    noted = False  # an expert's own word shows which description it follows

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; any number of parts from 2, level 1 to 3."""
        size = PER_LEVEL * level
        tables = [table(words, level, PER_LEVEL) for words in self.words]
        if parts < 2 or not all(len(words) == size > 0 for words in tables):
            raise ValueError(
                f"{self.name}: got level {level}, parts {parts}; expected level 1 to 3, parts >= 2"
            )
        worn = WORN[turn // size % len(WORN)]
        seen = [i for i in range(len(tables)) if i != worn]
        rows = {i: [rng.choice(tables[i]) for _ in range(parts)] for i in seen}
        # The first dial's words take turns, so that none of them is frequent.
        first = seen[0]
        rows[first][0] = tables[first][turn % size]
        lure = [rng.choice([w for w in tables[first] if w != right]) for right in rows[first]]
        shared = [self.lure.format(lure=listed(lure))]
        if worn is not None:
            shared.append(self.worn.format(worn=self.conventions[worn]))
        # The number tells dials apart that look alike.
        divided = [
            (str(number), *(rows[i][number - 1] if i in rows else "" for i in range(len(tables))))
            for number in range(1, parts + 1)
        ]
        return Question(
            kind=self.name,
            level=level,
            text=self.text.format(parts=parts),
            answer=" ".join(rows[first]),
            also=tuple(" ".join(rows[i]) for i in seen[1:]),
            evidence=tuple(
                self.part.format(number=number, seen=listed([word for word in words if word]))
                for number, *words in divided
            ),
            shared=tuple(shared),
            lure=" ".join(lure),
            parts=tuple(divided),
        )

    def possible(self, question: Question) -> int:
        """All rows of words of a description that has not worn off."""
        size = PER_LEVEL * question.level
        return len(question.right) * size ** len(question.parts)

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """The dial's word in one description; () where that has worn off."""
        word = part[1 + self.conventions.index(convention)]
        return (word,) if word else ()

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """Own and reported words in the order of the dials; the lure where a word is missing.

        Reports are in the order of their dials. Of several words the first of the own description
        is taken, else the first: nobody can translate.
        """
        reports = iter(heard)
        known = self.words[self.conventions.index(convention)]
        answer: list[str] = []
        for part in question.parts:
            own = part in parts
            words = self.say(question, part, convention) if own else next(reports, ())
            if not words:
                return question.lure
            answer.append(next((word for word in words if word in known), words[0]))
        return " ".join(answer)

    def lowest(self, question: Question) -> int:
        """By the words of the dials and of the manual; all else looks the same at every level."""
        used = {w for _, *words in question.parts for w in words if w} | {*question.lure.split()}
        return next(
            level
            for level in range(1, question.level + 1)
            if used <= {w for words in self.words for w in table(words, level, PER_LEVEL)}
        )

    def solo(self, level: int, parts: int) -> float:
        """The own word; for each other dial one of the words that the manual does not say there.

        The manual is wrong in every place, so it leaves one word less to guess among.
        """
        return 1 / (PER_LEVEL * level - 1) ** (parts - 1)
