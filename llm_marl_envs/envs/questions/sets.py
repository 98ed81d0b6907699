"""Questions about the one thing that stands in every list: suspects, points, meeting days.

With level s - 1 there are 2 s candidates and a lure. Each part divides the candidates into s
members and s others; only the answer is a member in every part. A part can be reported by its
members or by its others: both are s names, so a report does not say which it is.

Why one part does not decide: its s members are equally likely to be the answer, and the lure,
which all shared knowledge names, is no member of any part.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.envs.questions.kind import Kind, Words
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import (
    MONTHS,
    NAMES,
    listed,
    place_of,
    table,
    with_choices,
)

TABLES = {"names": (NAMES, 10), "months": (MONTHS, 12)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKind(Kind):
    """A kind of this module; the texts are templates.

    Attributes:
        name: as in `KINDS`.
        conventions: the names for reporting members and for reporting others.
        table: a name in `TABLES`.
        text: what is asked.
        lure: the shared knowledge; `{lure}`, `{lead}`.
        part: one part; `{number}`, `{members}`, `{others}`.
    """

    name: str
    conventions: Words
    table: str
    text: str
    lure: str
    part: str

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; any number of parts from 2."""
        size = level + 1
        words = table(TABLES[self.table][0], level, TABLES[self.table][1])
        if parts < 2 or 2 * size + 1 > len(words):
            raise ValueError(
                f"{self.name}: got level {level}, parts {parts}; expected level 1 to 3, parts >= 2"
            )
        answer = words[turn % len(words)]
        *decoys, lure = rng.sample([word for word in words if word != answer], 2 * size)
        divided: list[tuple[str, ...]] = []
        for number in range(parts):
            # Parts 0 and 1 share no decoy, so only the answer is a member of both.
            first = number * (size - 1)
            chosen = {decoys[(first + i) % len(decoys)] for i in range(size - 1)}
            members = sorted({answer, *chosen})
            divided.append((*members, *sorted({*decoys} - chosen)))
        rng.shuffle(divided)
        choices = [*decoys, lure]
        rng.shuffle(choices)
        choices.insert(place_of(turn, len(words), len(choices) + 1), answer)
        evidence = tuple(
            self.part.format(number=number, members=listed(part[:size]), others=listed(part[size:]))
            for number, part in enumerate(divided, start=1)
        )
        return Question(
            kind=self.name,
            level=level,
            text=with_choices(self.text, choices),
            answer=answer,
            choices=tuple(choices),
            evidence=evidence,
            shared=(self.lure.format(lure=lure, lead=parts - 1),),
            lure=lure,
            parts=tuple(divided),
        )

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """The members, or the others."""
        half = len(part) // 2
        return part[half:] if convention == self.conventions[1] else part[:half]

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """The candidate that is a member most often; ties go to own members, then to the first."""
        heard = [words for words in heard if words]
        if not heard and len(parts) < len(question.parts):
            return question.lure
        sign = -1 if convention == self.conventions[1] else 1
        score: Counter[str] = Counter()
        own = {word for part in parts for word in part[: len(part) // 2]}
        for part in parts:
            score.update(part[: len(part) // 2])
        for words in heard:
            for word in set(words):
                score[word] += sign
        candidates = [word for word in question.choices if word != question.lure]
        return max(candidates, key=lambda word: (score[word], word in own))

    def solo(self, level: int, parts: int) -> float:
        """One of the members of a part."""
        return 1 / (level + 1)
