"""What a kind of generated question is, and all that kinds share: wording, choices, reports.

A kind draws questions whose evidence comes in parts, one per seat, and knows in which *conventions*
a part can be reported: two shorthands of one part that a listener cannot translate. Read in the
wrong convention, reports lead to a wrong answer. The table of kinds is `kinds.py`; by which rules
questions are drawn and solved is `forms.py`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import choices_line, listed

Words = tuple[str, ...]
Parts = Sequence[Words]
MAX_LEVEL = 3
MAX_PARTS = 9
"""As many as environments have seats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was drawn for a question, before it is put into words.

    Attributes:
        answer, also, choices, lure, parts: as in `Question`.
        lines: what stands below the question; the choices unless given.
        shared: what everybody is told beside the lure.
        values: what the texts of the kind show beside.
    """

    answer: str
    parts: Parts
    also: Words = ()
    choices: Words = ()
    lure: str = ""
    lines: Words = ()
    shared: Words = ()
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(ABC):
    """One kind of question: texts and words are data, the rules are those of its form.

    Every method is a pure function of its arguments. Texts are templates.

    Attributes:
        name: as in `KINDS`.
        conventions: ways to report a part; experts of one convention understand each other.
        text: what is asked; `{parts}`.
        lure: how everybody learns of the lure, "" for kinds without one; `{lure}`, `{words}` (its
            words in brackets), `{parts}` and the values of the form.
        part: two groups of words of a part, `{0}` and `{1}`, and the part's `{number}`.
        ordered: whether the order of the words in a report carries meaning.
        noted: whether an expert needs a private note of its convention, which its report hides.
    """

    name: str
    conventions: Words
    text: str
    lure: str = ""
    part: str
    ordered: ClassVar[bool] = False
    noted: ClassVar[bool] = True

    # -- drawing ----------------------------------------------------------------------------------
    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """A question with `parts` parts; `turn` counts questions, and answers take turns by it.

        Raises:
            ValueError: the kind cannot be divided into so many parts at this level.
        """
        most = self.most_parts(level)
        if not 1 <= level <= MAX_LEVEL or not 2 <= parts <= most:
            raise ValueError(
                f"{self.name}: got level {level}, parts {parts}; expected level 1 to {MAX_LEVEL} "
                f"and 2 to {most} parts"
            )
        facts = self.facts(rng, level, parts, turn)
        values = {"parts": parts, "lure": facts.lure, "words": listed(facts.lure.split())}
        values |= facts.values
        lines = facts.lines or ((choices_line(facts.choices),) if facts.choices else ())
        lured = (self.lure.format(**values),) if facts.lure else ()
        return Question(
            kind=self.name,
            level=level,
            text="\n".join([self.text.format(**values), *lines]),
            answer=facts.answer,
            also=facts.also,
            choices=facts.choices,
            evidence=tuple(self.state(part, n) for n, part in enumerate(facts.parts, start=1)),
            shared=(*lured, *facts.shared),
            lure=facts.lure,
            parts=tuple(facts.parts),
        )

    def most_parts(self, level: int) -> int:
        """Into how many parts the evidence can be divided; any level."""
        return MAX_PARTS

    @abstractmethod
    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """What `draw` puts into words; level and parts are possible ones."""

    def state(self, part: Words, number: int) -> str:
        """A part as evidence: its words two by two, one line each."""
        return "\n".join(self.part.format(*pair, number=number) for pair in pairs_in(part))

    def lowest(self, question: Question) -> int:
        """The lowest level at which such a question could be drawn, words and form considered."""
        return next(
            level for level in range(1, question.level + 1) if self.could_be_of(question, level)
        )

    def could_be_of(self, question: Question, level: int) -> bool:
        """Whether `draw` could give it at a level; only its own where each has its own form."""
        return level == question.level

    # -- reporting --------------------------------------------------------------------------------
    def groups(self, part: Words) -> tuple[Words, ...]:
        """The words of a part in each convention: of words two by two the first, or the others."""
        return part[::2], part[1::2]

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """A part in the shorthand of one convention; () where the question leaves none."""
        return self.groups(part)[self.conventions.index(convention)]

    def conventions_of(self, question: Question) -> Words:
        """The conventions in which all parts can be reported; where one has worn off, the other."""
        return tuple(
            convention
            for convention in self.conventions
            if all(self.say(question, part, convention) for part in question.parts)
        )

    def followed(self, question: Question, part: Words, words: Words) -> str | None:
        """Which convention a report of a part follows, None for none or more than one."""
        order = tuple if self.ordered else sorted
        conventions = [
            convention
            for convention in self.conventions_of(question)
            if order(self.say(question, part, convention)) == order(words)
        ]
        return conventions[0] if len(conventions) == 1 else None

    def read(self, words: Words, convention: str) -> Words:
        """What an expert notes of a report of one word; () where it notes nothing."""
        return ()

    def hear(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """The answer of one who knows `parts` and reads the reports `heard` in its convention.

        The lure, the wrong answer that everybody's knowledge points to, where that is all there is.
        """
        if not any(heard) and len(parts) < len(question.parts):
            return question.lure
        return self.conclude(question, parts, heard, convention) or question.lure

    @abstractmethod
    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """As `hear`; "" where too little is known."""

    # -- guessing ---------------------------------------------------------------------------------
    def possible(self, question: Question) -> int:
        """How many different answers can be thought of, the right ones included."""
        return len(question.choices)

    @abstractmethod
    def solo(self, level: int, parts: int) -> float:
        """How often the best guess from one part and what is shared is right, exactly.

        Over all questions that `draw` gives at the level.
        """


def pairs_in(words: Sequence[str]) -> list[tuple[str, str]]:
    """Words two by two; a last one alone is left out."""
    return list(zip(words[::2], words[1::2], strict=False))


def placed(
    rng: random.Random, answer: str, wrong: Sequence[str], turn: int, words: int
) -> tuple[str, ...]:
    """The choices: wrong ones in random order, the answer where it is balanced over the places.

    Answers take turns through `words` words; the places move on by one each time and by one more
    after each round of words, so every word comes to every place.
    """
    choices = [*wrong]
    rng.shuffle(choices)
    choices.insert((turn + turn // words) % (len(choices) + 1), answer)
    return tuple(choices)
