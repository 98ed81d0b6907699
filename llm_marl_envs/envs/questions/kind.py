"""What a kind of generated question is; `kinds.py` has those there are.

A kind draws questions whose evidence comes in parts, one per seat, and knows in which *conventions*
a part can be reported: two shorthands of one part that a listener cannot translate. Read in the
wrong convention, reports lead to a wrong answer.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from llm_marl_envs.envs.questions.question import Question

Words = tuple[str, ...]


class Kind(ABC):
    """One kind of question; every method is a pure function of its arguments.

    Attributes:
        name: as in `KINDS`.
        conventions: ways to report a part; experts of one convention understand each other.
        ordered: whether the order of the words in a report carries meaning.
        noted: whether an expert needs a private note of its convention, which its report hides.
    """

    name: str
    conventions: Words
    ordered: ClassVar[bool] = False
    noted: ClassVar[bool] = True

    @abstractmethod
    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """A question with `parts` parts; `turn` counts questions, and answers take turns by it.

        Raises:
            ValueError: the kind cannot be divided into so many parts at this level.
        """

    def possible(self, question: Question) -> int:
        """How many different answers can be thought of, the right ones included."""
        return len(question.choices)

    @abstractmethod
    def say(self, question: Question, part: Words, convention: str) -> Words:
        """A part in the shorthand of one convention; () where the question leaves none."""

    def read(self, words: Words, convention: str) -> Words:
        """What an expert notes of a report of one word; () where it notes nothing."""
        return ()

    @abstractmethod
    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """The answer of one who knows `parts` and reads the reports `heard` in its convention.

        The wrong answer that everybody's knowledge points to where that is all there is.
        """

    def lowest(self, question: Question) -> int:
        """The lowest level at which such a question could be drawn, words and form considered.

        Its own where every level has a form of its own.
        """
        return question.level

    @abstractmethod
    def solo(self, level: int, parts: int) -> float:
        """How often the best guess from one part and what is shared is right, exactly.

        Over all questions that `draw` gives at the level.
        """


def pairs_in(words: Sequence[str]) -> list[tuple[str, str]]:
    """Words two by two; a last one alone is left out."""
    return list(zip(words[::2], words[1::2], strict=False))
