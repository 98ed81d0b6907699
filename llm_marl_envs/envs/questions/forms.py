"""The forms of generated questions: by which rule each is drawn, reported, solved and guessed.

Each form is a class with the reason why one part does not decide; `kinds.py` gives it words.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from llm_marl_envs.core.answers import number_of
from llm_marl_envs.envs.questions.kind import Facts, Kind, Parts, Words, pairs_in, placed
from llm_marl_envs.envs.questions.question import Question
from llm_marl_envs.envs.questions.solo import of_counts, of_ranks
from llm_marl_envs.envs.questions.vocabulary import Slots, Stages, Table, listed

WORN = (None, 0, None, None, None, 1, None, None)
"""Which description of dials has worn off, in turns: an eighth of the questions each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials(Kind):
    """A row of dials that can be named in two ways, as by colours or by shapes.

    Each part shows one dial, which has a colour and a shape. Two answers are right: all colours in
    order and all shapes in order; a mixture is wrong. No colour tells a shape, so reports in
    different descriptions cannot be put together. In some questions everybody knows that the
    colours, or the shapes, have worn off: one description and one right answer are left, so no
    description fits all.

    Why one part does not decide: the other dials are drawn independently, and the manual, which all
    shared knowledge quotes, is wrong in every place.

    Attributes:
        words: the words of each description; no word is in both.
        worn: what is shared where one description is missing; `{worn}`.
    """

    words: tuple[Table, Table]
    worn: str
    noted: ClassVar[bool] = False  # an expert's own word shows which description it follows

    def tables(self, level: int) -> tuple[Words, Words]:
        """The words of each description at a level."""
        return self.words[0].at(level), self.words[1].at(level)

    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """As `Kind.facts`; a part is (number, colour, shape), "" for what has worn off."""
        tables = self.tables(level)
        size = len(tables[0])
        worn = WORN[turn // size % len(WORN)]
        seen = [i for i in range(len(tables)) if i != worn]
        rows = {i: [rng.choice(tables[i]) for _ in range(parts)] for i in seen}
        # The first dial's words take turns, so that none of them is frequent.
        main = seen[0]
        rows[main][0] = tables[main][turn % size]
        lure = [rng.choice([w for w in tables[main] if w != right]) for right in rows[main]]
        dials = zip(*(rows.get(i, [""] * parts) for i in range(len(tables))), strict=True)
        answer, *also = (" ".join(rows[i]) for i in seen)
        return Facts(
            answer=answer,
            also=tuple(also),
            lure=" ".join(lure),
            # The number tells dials apart that look alike.
            parts=[(str(number), *words) for number, words in enumerate(dials, start=1)],
            shared=() if worn is None else (self.worn.format(worn=self.conventions[worn]),),
        )

    def state(self, part: Words, number: int) -> str:
        """What the dial shows."""
        return self.part.format(*map(listed, self.groups(part)), number=number)

    def could_be_of(self, question: Question, level: int) -> bool:
        """By the words of the dials and of the manual; all else looks the same at every level."""
        used = {w for _, *words in question.parts for w in words if w} | {*question.lure.split()}
        return used <= {w for words in self.tables(level) for w in words}

    def groups(self, part: Words) -> tuple[Words, ...]:
        """The dial's word in each description; () where that has worn off."""
        return tuple((word,) if word else () for word in part[1:])

    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """Own and reported words in the order of the dials.

        Reports are in the order of their dials. Of several words the first of the own description
        is taken, else the first: nobody can translate.
        """
        reports = iter(heard)
        vocabulary = self.words[self.conventions.index(convention)].words
        answer: list[str] = []
        for part in question.parts:
            own = part in parts
            words = self.say(question, part, convention) if own else next(reports, ())
            if not words:
                return ""
            answer.append(next((word for word in words if word in vocabulary), words[0]))
        return " ".join(answer)

    def possible(self, question: Question) -> int:
        """All rows of words of a description that has not worn off."""
        return len(question.right) * len(self.tables(question.level)[0]) ** len(question.parts)

    def solo(self, level: int, parts: int) -> float:
        """The own word; for each other dial one of the words that the manual does not say there."""
        return 1 / (len(self.tables(level)[0]) - 1) ** (parts - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Kind):
    """One word of each of several pairs: which thing was lost, who won.

    For each place of the answer the question lists some pairs, drawn from many; one of them is
    settled. Every part settles some pairs, all parts settle all. A pair can be reported by the word
    that is true or by the other one; a report is one word either way. Read in the wrong convention,
    every reported word comes out wrong.

    Why one part does not decide: nothing is said of the other parts' pairs, not even which they
    are, so one part gives no answer.

    Attributes:
        slots: for each place in the answer, the pairs to draw from; no word is in two pairs.
    """

    slots: Slots

    def most_parts(self, level: int) -> int:
        """As many pairs as there are slots."""
        return len(self.slots) // level

    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """As `Kind.facts`; a part is `level` pairs, the true word before the other one."""
        shown = [
            rng.sample(slot, min(1 + 2 * level, len(slot))) for slot in self.slots[: level * parts]
        ]
        pairs = [rng.choice(slot) for slot in shown]
        # The answer's place among all combinations takes turns, so no combination is frequent.
        settled = [pair[:: -1 if turn >> place & 1 else 1] for place, pair in enumerate(pairs)]
        return Facts(
            answer=" ".join(true for true, _ in settled),
            choices=tuple(" ".join(words) for words in itertools.product(*pairs)),
            lines=tuple(", ".join(f"{a} or {b}" for a, b in slot) for slot in shown),
            parts=[
                tuple(itertools.chain(*settled[i * level : (i + 1) * level])) for i in range(parts)
            ],
        )

    def read(self, words: Words, convention: str) -> Words:
        """The true words behind those of a report; words of no pair are left out."""
        opposite = {a: b for slot in self.slots for pair in slot for a, b in (pair, pair[::-1])}
        paired = [word for word in words if word in opposite]
        return tuple(opposite[w] if convention == self.conventions[1] else w for w in paired)

    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """The own words, and the reported ones or their opposites."""
        place_of = {word: i for choice in question.choices for i, word in enumerate(choice.split())}
        true = [word for words in heard for word in self.read(words, convention)]
        true += [word for part in parts for word in part[::2]]
        answer = {place_of[word]: word for word in true if word in place_of}
        complete = len(answer) == len(question.answer.split())
        return " ".join(answer[place] for place in sorted(answer)) if complete else ""

    def solo(self, level: int, parts: int) -> float:
        """The own pairs, once the others' pairs are known; their words are equally likely."""
        return 0.5 ** (level * (parts - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Kind):
    """How many in all: numbers to add, each reported as what is there or as what is missing.

    There are n groups of h places. Taking "missing" for "there" turns a total t into n h - t, which
    is among the choices too. Totals are those in the middle, each equally often; the choices are
    the total asked for, three others, drawn, and what each of the four is misread as.

    Attributes:
        asked: totals on each side of the middle that are asked for.
        shown: of them, how many are among the choices, with what they are misread as.
    """

    asked: ClassVar[int] = 7
    shown: ClassVar[int] = 4

    def places(self, level: int) -> int:
        """Places in each group."""
        return 4 + 5 * level

    def totals(self, level: int, parts: int) -> tuple[tuple[int, int], ...]:
        """The totals that are asked for: (total, what it is misread as), the smaller one first."""
        everything = self.places(level) * parts
        below = [total for total in range(everything) if 2 * total < everything]
        return tuple((total, everything - total) for total in below[-self.asked :])

    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """As `Kind.facts`; a part is (there, missing). Shows `{places}`."""
        places, pairs = self.places(level), self.totals(level, parts)
        asked = [total for pair in pairs for total in pair]
        total = asked[turn % len(asked)]
        counts: list[int] = []
        while sum(counts) != total or not counts:
            counts = [rng.randint(0, places) for _ in range(parts)]
        others = rng.sample([pair for pair in pairs if total not in pair], self.shown - 1)
        # Reading in the wrong convention does not give the lure either.
        wrong = [str(other) for pair in others for other in pair]
        lure = rng.choice(wrong)
        misread = str(places * parts - total)
        return Facts(
            answer=str(total),
            choices=placed(rng, str(total), [misread, *wrong], turn, len(asked)),
            lure=lure,
            parts=[(str(count), str(places - count)) for count in counts],
            values={"places": places},
        )

    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """The sum, or the nearest choice; "" where a group is missing."""
        places = int(question.parts[0][0]) + int(question.parts[0][1])
        numbers = [number_of(words[0]) for words in heard if words]
        counts = [int(number) for number in numbers if number is not None and 0 <= number <= places]
        if len(counts) + len(parts) < len(question.parts):
            return ""
        true_counts = [places - n if convention == self.conventions[1] else n for n in counts]
        total = sum(true_counts) + sum(int(part[0]) for part in parts)
        return min(question.choices, key=lambda choice: abs(int(choice) - total))

    def solo(self, level: int, parts: int) -> float:
        """By Bayes' rule over all counts and lures."""
        totals = self.totals(level, parts)
        return of_counts(self.places(level), parts, totals, self.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists(Kind):
    """The one thing that stands in every list: suspects, points, meeting days.

    With level s - 1 there are 2 s candidates and a lure. Each part divides the candidates into s
    members and s others; only the answer is a member in every part. A part can be reported by its
    members or by its others: both are s names, so a report does not say which it is.

    Why one part does not decide: its s members are equally likely to be the answer, and the lure,
    which all shared knowledge names, is no member of any part.

    Attributes:
        words: what the candidates are called.
    """

    words: Table

    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """As `Kind.facts`; a part is its members, then its others. Shows `{lead}`."""
        size = level + 1
        words = self.words.at(level)
        answer = words[turn % len(words)]
        *decoys, lure = rng.sample([word for word in words if word != answer], 2 * size)
        divided: list[Words] = []
        for number in range(parts):
            # Parts 0 and 1 share no decoy, so only the answer is a member of both.
            begin = number * (size - 1)
            chosen = {decoys[(begin + i) % len(decoys)] for i in range(size - 1)}
            divided.append((*sorted({answer, *chosen}), *sorted({*decoys} - chosen)))
        rng.shuffle(divided)
        return Facts(
            answer=answer,
            choices=placed(rng, answer, [*decoys, lure], turn, len(words)),
            lure=lure,
            parts=divided,
            values={"lead": parts - 1},
        )

    def state(self, part: Words, number: int) -> str:
        """Members and others."""
        return self.part.format(*map(listed, self.groups(part)), number=number)

    def groups(self, part: Words) -> tuple[Words, ...]:
        """The members, and the others."""
        half = len(part) // 2
        return part[:half], part[half:]

    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """The candidate that is a member most often; ties go to own members, then to the first."""
        sign = -1 if convention == self.conventions[1] else 1
        own = Counter(word for part in parts for word in part[: len(part) // 2])
        reported = Counter(word for words in heard for word in set(words))
        candidates = [word for word in question.choices if word != question.lure]
        return max(candidates, key=lambda word: (own[word] + sign * reported[word], word in own))

    def solo(self, level: int, parts: int) -> float:
        """One of the members of a part."""
        return 1 / (level + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks(Kind):
    """Who comes first: a chain of people in pairs, reported from first to last or the other way.

    Read in the wrong direction, the pairs lead to the last. The shared knowledge names one from the
    middle of the chain, which is one person longer than there are pairs.

    Attributes:
        words: what the people are called.
    """

    words: Table
    ordered: ClassVar[bool] = True

    def pairs_per_part(self, level: int, parts: int) -> int:
        """At least three in all: of two, the one in the middle would give the first away."""
        return max(level, -(-3 // parts))

    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """As `Kind.facts`; a part is pairs (older, younger)."""
        each = self.pairs_per_part(level, parts)
        words = self.words.at(level)
        answer = words[turn % len(words)]
        chain = [answer, *rng.sample([w for w in words if w != answer], each * parts)]
        pairs = list(itertools.pairwise(chain))
        rng.shuffle(pairs)
        lure = rng.choice(chain[1:-1])
        return Facts(
            answer=answer,
            choices=placed(rng, answer, chain[1:], turn, len(words)),
            lure=lure,
            parts=[
                tuple(itertools.chain(*sorted(pairs[i * each : (i + 1) * each])))
                for i in range(parts)
            ],
        )

    def could_be_of(self, question: Question, level: int) -> bool:
        """By the names: two parts hold as many pairs at level 2 as at level 1."""
        each = len(question.parts[0]) // 2
        names = {*self.words.at(level)}
        return self.pairs_per_part(level, len(question.parts)) == each and names >= {
            *question.choices
        }

    def groups(self, part: Words) -> tuple[Words, ...]:
        """The pairs, each in one direction."""
        return part, tuple(word for pair in pairs_in(part) for word in pair[::-1])

    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """Whoever is never the younger of a pair and most often the older."""
        reports = [self.say(question, words, convention) for words in heard]
        pairs = [pair for words in (*parts, *reports) for pair in pairs_in(words)]
        older = Counter(old for old, _ in pairs)
        younger = Counter(young for _, young in pairs)
        return max(question.choices, key=lambda w: (-younger[w], older[w]))

    def solo(self, level: int, parts: int) -> float:
        """By enumeration of the places that the pairs of a part and the lure can have."""
        return of_ranks(self.pairs_per_part(level, parts), parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail(Kind):
    """Things inside things, one table per part, to be followed in order: where is the coin?

    There is one convention only: a part is reported as pairs (inside, outside). A part that names
    the room does not say which container the coin is in; the others name no room.

    Attributes:
        rooms: where the outermost containers stand.
        stages: what may hold a thing, from the inside out.
        start: what is looked for.
    """

    rooms: Words
    stages: Stages
    start: str
    ordered: ClassVar[bool] = True

    def most_parts(self, level: int) -> int:
        """One stage between two parts."""
        return len(self.stages) + 1

    def facts(self, rng: random.Random, level: int, parts: int, turn: int) -> Facts:
        """As `Kind.facts`; a part is pairs (inside, outside), the first one only the start's."""
        width = level + 2  # containers on each stage, and rooms that they stand in
        answer = self.rooms[turn % len(self.rooms)]
        wrong = rng.sample([room for room in self.rooms if room != answer], width - 1)
        stages = [rng.sample(words, width) for _, words in self.stages[: parts - 1]]
        divided: list[Words] = [(self.start, stages[0][0])]
        for inner, outer in itertools.pairwise([*stages, [answer, *wrong]]):
            divided.append(tuple(itertools.chain(*sorted(zip(inner, outer, strict=True)))))
        lure = rng.choice(wrong)
        choices = placed(rng, answer, wrong, turn, len(self.rooms))
        rng.shuffle(divided)
        return Facts(answer=answer, choices=choices, lure=lure, parts=divided)

    def state(self, part: Words, number: int) -> str:
        """What is in what, each with its sort of container."""
        sorts = {word: f"[{word}] {sort}" for sort, words in self.stages for word in words}
        if part[0] == self.start:
            return self.part.format(self.start, sorts[part[1]])
        return "\n".join(
            f"{sorts[inner]} in {sorts.get(outer, f'[{outer}]')}" for inner, outer in pairs_in(part)
        )

    def groups(self, part: Words) -> tuple[Words, ...]:
        """All pairs of the part."""
        return (part,)

    def conclude(self, question: Question, parts: Parts, heard: Parts, convention: str) -> str:
        """The room that the pairs lead to; "" where a pair is missing."""
        inside = {a: b for words in (*parts, *heard) for a, b in pairs_in(words)}
        place = self.start
        for _ in question.parts:
            place = inside.get(place, "")
        return place if place in question.choices else ""

    def solo(self, level: int, parts: int) -> float:
        """One of the rooms that are not the lure."""
        return 1 / (level + 1)
