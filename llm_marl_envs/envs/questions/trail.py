"""In which room is the coin: things inside things, one table per part, to be followed in order.

There is one convention only, `map`: a part is reported as pairs (inside, outside). A part that
names the room does not say which container the coin is in; the others name no room.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from llm_marl_envs.envs.questions.kind import Kind, Words, pairs_in
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import ROOMS, STAGES, place_of, with_choices

START = "coin"


def width_of(level: int) -> int:
    """Containers on each stage, and rooms that they stand in."""
    return level + 2


class Trail(Kind):
    """See the module's docstring."""

    name = "trail"
    ordered = True
    conventions = ("map",)

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; 2 to 6 parts."""
        width = width_of(level)
        if not 2 <= parts <= len(STAGES) + 1 or width > len(STAGES[0][1]):
            raise ValueError(
                f"{self.name}: got level {level}, parts {parts}; expected level 1 to 3 and "
                f"2 to {len(STAGES) + 1} parts"
            )
        answer = ROOMS[turn % len(ROOMS)]
        rooms = [answer, *rng.sample([room for room in ROOMS if room != answer], width - 1)]
        stages = [rng.sample(words, width) for _, words in STAGES[: parts - 1]]
        divided: list[tuple[str, ...]] = [(START, stages[0][0])]
        texts = [f"The coin is in the [{stages[0][0]}] box."]
        for number, inner in enumerate(stages):
            last = number == len(stages) - 1
            outer = rooms if last else stages[number + 1]
            kind = STAGES[number][0]
            into = "" if last else f" {STAGES[number + 1][0]}"
            pairs = sorted(zip(inner, outer, strict=True))
            divided.append(tuple(word for pair in pairs for word in pair))
            texts.append("\n".join(f"[{a}] {kind} in [{b}]{into}" for a, b in pairs))
        lure = rng.choice(rooms[1:])
        choices = rooms[1:]
        rng.shuffle(choices)
        choices.insert(place_of(turn, len(ROOMS), width), answer)
        order = list(range(parts))
        rng.shuffle(order)
        return Question(
            kind=self.name,
            level=level,
            text=with_choices("In which room is the coin?", choices),
            answer=answer,
            choices=tuple(choices),
            evidence=tuple(texts[i] for i in order),
            shared=(f"The coin is usually in the [{lure}].",),
            lure=lure,
            parts=tuple(divided[i] for i in order),
        )

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """All pairs of the part."""
        return part

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """The room that the pairs lead to; the lure where a pair is missing."""
        inside = {a: b for words in (*parts, *heard) for a, b in pairs_in(words)}
        place = START
        for _ in range(len(question.parts)):
            place = inside.get(place, "")
        return place if place in question.choices else question.lure

    def solo(self, level: int, parts: int) -> float:
        """One of the rooms that are not the lure."""
        return 1 / (width_of(level) - 1)
