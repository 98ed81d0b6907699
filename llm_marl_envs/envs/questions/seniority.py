"""Who is the oldest: a chain of people in pairs, reported from old to young or from young to old.

Read in the wrong direction, the pairs lead to the youngest. The shared knowledge names one from
the middle of the chain.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from llm_marl_envs.envs.questions.kind import Kind, Words, pairs_in
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.vocabulary import NAMES, place_of, table, with_choices

PER_LEVEL = 10
"""Names at level 1, and as many more at each level."""
MIN_PAIRS = 3  # with fewer the one person in the middle gives the oldest away


def pairs_per_part(level: int, parts: int) -> int:
    """How many pairs each part holds."""
    return max(level, -(-MIN_PAIRS // parts))


class Order(Kind):
    """See the module's docstring."""

    name = "order"
    ordered = True
    conventions = ("down", "up")

    def draw(self, rng: random.Random, level: int, parts: int, turn: int) -> Question:
        """As `Kind.draw`; the chain is one person longer than there are pairs."""
        each = pairs_per_part(level, parts)
        words = table(NAMES, level, PER_LEVEL)
        length = each * parts + 1
        if parts < 2 or length > len(words):
            raise ValueError(
                f"{self.name}: got level {level}, parts {parts}, which is a chain of {length}; "
                f"expected parts >= 2 and a chain of at most {len(words)}"
            )
        answer = words[turn % len(words)]
        chain = [answer, *rng.sample([w for w in words if w != answer], length - 1)]
        pairs = list(itertools.pairwise(chain))
        rng.shuffle(pairs)
        divided = [
            tuple(itertools.chain(*sorted(pairs[i * each : (i + 1) * each]))) for i in range(parts)
        ]
        lure = rng.choice(chain[1:-1])
        choices = chain[1:]
        rng.shuffle(choices)
        choices.insert(place_of(turn, len(words), length), answer)
        return Question(
            kind=self.name,
            level=level,
            text=with_choices("Who is the oldest?", choices),
            answer=answer,
            choices=tuple(choices),
            evidence=tuple(
                "\n".join(f"[{old}] is older than [{young}]" for old, young in pairs_in(part))
                for part in divided
            ),
            shared=(f"Most people take [{lure}] for the oldest.",),
            lure=lure,
            parts=tuple(divided),
        )

    def say(self, question: Question, part: Words, convention: str) -> Words:
        """The pairs, each in one direction."""
        return tuple(word for pair in pairs_in(part) for word in self._turned(pair, convention))

    def hear(
        self, question: Question, parts: Sequence[Words], heard: Sequence[Words], convention: str
    ) -> str:
        """Whoever is never the younger of a pair and most often the older."""
        if not any(heard) and len(parts) < len(question.parts):
            return question.lure
        pairs = [pair for part in parts for pair in pairs_in(part)]
        pairs += [self._turned(pair, convention) for words in heard for pair in pairs_in(words)]
        older = Counter(old for old, _ in pairs)
        younger = Counter(young for _, young in pairs)
        return max(question.choices, key=lambda w: (-younger[w], older[w]))

    def _turned(self, pair: tuple[str, str], convention: str) -> tuple[str, str]:
        return (pair[1], pair[0]) if convention == self.conventions[1] else pair

    def lowest(self, question: Question) -> int:
        """By the names: two parts hold as many pairs at level 2 as at level 1."""
        parts, names = len(question.parts), {*question.choices}
        return next(
            level
            for level in range(1, question.level + 1)
            if pairs_per_part(level, parts) == pairs_per_part(question.level, parts)
            and names <= {*table(NAMES, level, PER_LEVEL)}
        )

    def solo(self, level: int, parts: int) -> float:
        """By enumeration of the places that the pairs of a part and the lure can have."""
        return _solo(pairs_per_part(level, parts), parts)


@lru_cache(maxsize=64)
def _solo(each: int, parts: int) -> float:
    """People are numbered along the chain, 0 is the oldest.

    Two cases look alike if their runs of linked people have the same lengths and the lure has the
    same place: names carry no information. Within a look, guesses that differ by names only are
    one guess, right in one of so many.
    """
    length = each * parts + 1
    looks: dict[object, dict[object, float]] = {}
    cases = 0
    for places in itertools.combinations(range(length - 1), each):
        for lure in range(1, length - 1):
            cases += 1
            runs = _runs(places)
            seen = [(len(run), run.index(lure) if lure in run else -1) for run in runs]
            linked = {person for run in runs for person in run}
            look = (tuple(sorted(seen)), lure in linked)
            guess: object = "unlinked"
            alike = length - len(linked) - (lure not in linked)
            if 0 in linked:  # then it heads the run that holds it
                first = next(i for i, run in enumerate(runs) if run[0] == 0)
                guess, alike = seen[first], seen.count(seen[first])
            guesses = looks.setdefault(look, {})
            guesses[guess] = guesses.get(guess, 0.0) + 1 / alike
    return sum(max(guesses.values()) for guesses in looks.values()) / cases


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Chains of people linked by pairs (place, place + 1)."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place:
            runs[-1].append(place + 1)
        else:
            runs.append([place, place + 1])
    return runs
