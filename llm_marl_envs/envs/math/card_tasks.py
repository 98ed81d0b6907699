"""Tasks of cards: levels, splits, the order of tasks.

Splits are disjoint by the cards: no deal of one is a deal of another with numbers exchanged. Every
question comes with every deal of the split. `ood` has larger numbers and longer formulas, so that
neither seat has read its prompts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

from llm_marl_envs.core.tasks import IndexedSource, Task, split_of_row
from llm_marl_envs.envs.math.cards import Alone, Asked, Deal, alone, by_text, deals, questions

LEVELS = (1, 2)
NUMBERS, LARGER = (1, 6), (7, 12)
"""Lowest and highest number on a card; those of `ood`."""


@dataclass(frozen=True, slots=True)
class Cards:
    """What is dealt and asked in one task.

    Attributes:
        deal: the numbers.
        asked: the question.
        numbers: the lowest and the highest number that a card may show.
        level: of the question.
    """

    deal: Deal
    asked: Asked
    numbers: tuple[int, int]
    level: int


@lru_cache(maxsize=32)
def dealt(split: str) -> tuple[Deal, ...]:
    """The deals of a split."""
    if split == "ood":
        return deals(*LARGER)
    return tuple(deal for deal in deals(*NUMBERS) if split_of_deal(deal) == split)


@lru_cache(maxsize=4096)
def split_of_deal(deal: Deal) -> str:
    """The split, ood aside, of a deal and of all that exchange its numbers."""
    return split_of_row({}, f"cards/{sorted(deal)}")


class CardSource(IndexedSource):
    """All questions with all deals of a split, in an order that is drawn once.

    Args:
        split: one of `tasks.SPLITS`.
        level: 1 or 2; `ood` asks the questions of the level above.
    """

    def __init__(self, split: str, level: int) -> None:
        super().__init__(split)
        self.level = level + (split == "ood")
        self.deals, self.questions = dealt(split), questions(self.level)
        self._order = list(range(len(self.deals) * len(self.questions)))
        random.Random(f"cards/{split}/{level}").shuffle(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        deal, asked = divmod(self._order[index], len(self.questions))
        data = {
            "deal": self.deals[deal],
            "asked": self.questions[asked].text,
            "numbers": LARGER if self.split == "ood" else NUMBERS,
            "level": self.level,
        }
        return Task(task_id, self.split, data)


@lru_cache(maxsize=8)
def card_tasks(split: str, level: int) -> CardSource:
    """One source per process, which copies of an environment share."""
    return CardSource(split, level)


@lru_cache(maxsize=8)
def alone_in(split: str, level: int) -> Alone:
    """What one seat can do alone in a split; `level` is that of its questions."""
    return alone(dealt(split), questions(level))


def of_cards(task: Task) -> bool:
    """Whether a task was generated here; else it is a row."""
    return "deal" in task.data


def cards_of(task: Task) -> Cards:
    """What is dealt and asked."""
    data = task.data
    asked = by_text(data["level"])[data["asked"]]
    return Cards(tuple(data["deal"]), asked, tuple(data["numbers"]), data["level"])
