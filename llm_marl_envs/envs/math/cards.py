"""Four cards with numbers, and questions about them with exact answers. Pure functions.

Who knows the cards does not know the question, and who knows the question does not know the cards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product

COLOURS = ("red", "blue", "green", "white")
Deal = tuple[int, ...]
"""The numbers of the cards, in the order of `COLOURS`."""


@dataclass(frozen=True, slots=True)
class Form:
    """A formula about some cards.

    Attributes:
        text: the formula, `{0}` for the first card.
        same: pairs of places that may be exchanged; only one order is asked for.
    """

    text: str
    same: tuple[tuple[int, int], ...]

    @property
    def places(self) -> int:
        """How many cards it is about."""
        return self.text.count("{")


FORMS: dict[int, tuple[Form, ...]] = {
    1: (
        Form("{0} + {1}", ((0, 1),)),
        Form("{0} - {1}", ()),
        Form("{0} x {1}", ((0, 1),)),
        Form("{0} / {1}", ()),
    ),
    2: (
        Form("{0} x {1} + {2}", ((0, 1),)),
        Form("{0} x {1} - {2}", ((0, 1),)),
        Form("({0} + {1}) / {2}", ((0, 1),)),
        Form("{0} - {1} / {2}", ()),
    ),
    3: (
        Form("{0} x {1} - {2} x {3}", ((0, 1), (2, 3))),
        Form("({0} + {1}) x ({2} - {3})", ((0, 1),)),
        Form("({0} - {1}) / ({2} + {3})", ((2, 3),)),
        Form("{0} / {1} - {2} / {3}", ()),
    ),
}
"""Level -> its formulas."""
VALUES: dict[str, Callable[..., Fraction]] = {
    "{0} + {1}": lambda a, b: a + b,
    "{0} - {1}": lambda a, b: a - b,
    "{0} x {1}": lambda a, b: a * b,
    "{0} / {1}": lambda a, b: a / b,
    "{0} x {1} + {2}": lambda a, b, c: a * b + c,
    "{0} x {1} - {2}": lambda a, b, c: a * b - c,
    "({0} + {1}) / {2}": lambda a, b, c: (a + b) / c,
    "{0} - {1} / {2}": lambda a, b, c: a - b / c,
    "{0} x {1} - {2} x {3}": lambda a, b, c, d: a * b - c * d,
    "({0} + {1}) x ({2} - {3})": lambda a, b, c, d: (a + b) * (c - d),
    "({0} - {1}) / ({2} + {3})": lambda a, b, c, d: (a - b) / (c + d),
    "{0} / {1} - {2} / {3}": lambda a, b, c, d: a / b - c / d,
}
"""Formula -> the number that it gives. A form that held its function could not be pickled."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: a formula about certain cards.

    Attributes:
        form: the formula.
        cards: which card stands at each place, counted from 0.
    """

    form: Form
    cards: tuple[int, ...]

    @property
    def text(self) -> str:
        """The formula with the cards' colours."""
        return self.form.text.format(*(COLOURS[card] for card in self.cards))

    def expression(self, deal: Sequence[int]) -> str:
        """The formula with these cards' numbers, as `calculate` reads it."""
        numbers = self.form.text.format(*(deal[card] for card in self.cards))
        return numbers.replace("x", "*")

    def answer(self, deal: Sequence[int]) -> Fraction:
        """What it is with these cards, exactly."""
        return _value(self.form, tuple(deal[card] for card in self.cards))


@lru_cache(maxsize=65536)
def _value(form: Form, numbers: Deal) -> Fraction:
    return VALUES[form.text](*map(Fraction, numbers))


@lru_cache(maxsize=8)
def questions(level: int) -> tuple[Asked, ...]:
    """All questions of a level; none is another with two terms exchanged."""
    return tuple(
        Asked(form, cards)
        for form in FORMS[level]
        for cards in permutations(range(len(COLOURS)), form.places)
        if all(cards[a] < cards[b] for a, b in form.same)
    )


@lru_cache(maxsize=8)
def by_text(level: int) -> dict[str, Asked]:
    """The questions of a level by their texts."""
    return {asked.text: asked for asked in questions(level)}


@lru_cache(maxsize=8)
def deals(lowest: int, highest: int) -> tuple[Deal, ...]:
    """All deals of numbers from `lowest` to `highest`."""
    return tuple(product(range(lowest, highest + 1), repeat=len(COLOURS)))


@lru_cache(maxsize=1024)
def best_guess(asked: Asked, lowest: int, highest: int) -> Fraction:
    """The answer that most deals give, the smallest of them where several do."""
    counts = Counter(asked.answer(deal) for deal in deals(lowest, highest))
    most = max(counts.values())
    return min(answer for answer, count in counts.items() if count == most)


@dataclass(frozen=True, slots=True)
class Alone:
    """How often an answer can be right without the other seat's part, exactly.

    Attributes:
        random: an answer drawn from all that occur.
        cards: the best answer of one who knows the cards alone.
        question: the best answer of one who knows the question alone.
    """

    random: float
    cards: float
    question: float


def alone(dealt: Iterable[Deal], asked: Sequence[Asked]) -> Alone:
    """`Alone` over all pairs of a deal and a question, each as likely."""
    table = [[question.answer(deal) for question in asked] for deal in dealt]
    answers = {answer for row in table for answer in row}
    return Alone(
        random=1 / len(answers),
        cards=_most(table) / (len(table) * len(asked)),
        question=_most(zip(*table, strict=True)) / (len(table) * len(asked)),
    )


def _most(groups: Iterable[Sequence[Fraction]]) -> int:
    """In how many cases the most frequent answer of each group is right."""
    return sum(Counter(group).most_common(1)[0][1] for group in groups)
