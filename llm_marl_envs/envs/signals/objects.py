"""Objects that are combinations of attribute values, and tasks: which objects, which is meant.

    small red circle     size, colour, shape

Owns the words, the splits and rows from outside. An object is a tuple of words, the shape last.

Splits are disjoint by combination: whatever is shown in a task of one split, the target and all
other objects, is shown in no other. So no object of a task of `test` stands out as one that was
never met. The objects of `ood` have words of their own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import comb

from llm_marl_envs.core.tasks import IndexedSource, Row, Task, split_of_row

Object = tuple[str, ...]
"""Words, in the order in which they are said."""

VALUES = 4
"""Words for each attribute."""
ATTRIBUTES = ("pattern", "size", "colour", "shape")
"""As they stand in a description; fewer attributes are the last ones."""
TABLES: dict[str, tuple[str, ...]] = {
    "pattern": ("plain", "striped", "dotted", "checked"),
    "size": ("small", "big", "flat", "tall"),
    "colour": ("red", "blue", "green", "white"),
    "shape": ("circle", "square", "star", "cross"),
}
NEW_TABLES: dict[str, tuple[str, ...]] = {
    "pattern": ("woven", "grooved", "spotted", "glazed"),
    "size": ("tiny", "huge", "thin", "wide"),
    "colour": ("pink", "brown", "grey", "black"),
    "shape": ("heart", "moon", "cube", "ring"),
}
"""The words of `ood`."""
SHARES = {"train": (0, 2), "val": (2, 3), "test": (3, 4)}
"""From which to which quarter of the combinations, in an order that is drawn once."""
MOST_TASKS = {"train": 4096, "val": 512, "test": 1024, "ood": 1024}
MAX_CANDIDATES = 16
WORD = re.compile(r"[a-z]{1,20}")


def tables(split: str, attributes: int) -> tuple[tuple[str, ...], ...]:
    """The words of each attribute, in the order of a description."""
    of = NEW_TABLES if split == "ood" else TABLES
    return tuple(of[name] for name in ATTRIBUTES[-attributes:])


@lru_cache(maxsize=32)
def combinations(split: str, attributes: int) -> tuple[Object, ...]:
    """The objects that tasks of a split show."""
    every = list(product(*tables(split, attributes)))
    random.Random(f"signalling/{attributes}").shuffle(every)
    if split == "ood":
        return tuple(every)
    first, last = (len(every) * quarter // 4 for quarter in SHARES[split])
    return tuple(every[first:last])


def described(thing: Sequence[str]) -> str:
    """An object in words."""
    return " ".join(thing)


class ObjectSource(IndexedSource):
    """Choices of objects, each with every target, `MOST_TASKS` at most, in a drawn order.

    So who has met all tasks and sees the objects knows nothing of the target.

    Args:
        split: one of `tasks.SPLITS`.
        attributes: words of an object.
        candidates: objects of a task; no more than the split has combinations.
    """

    def __init__(self, split: str, attributes: int, candidates: int) -> None:
        super().__init__(split)
        self.attributes, self.candidates = attributes, candidates
        self.objects = combinations(split, attributes)
        total = comb(len(self.objects), candidates)
        rng = random.Random(f"signalling/{split}/{attributes}/{candidates}")
        drawn: dict[int, None] = {}  # `total` may be more than `sample` takes
        while len(drawn) < min(total, MOST_TASKS[split] // candidates):
            drawn[rng.randrange(total)] = None
        self._drawn = list(product(drawn, range(candidates)))
        rng.shuffle(self._drawn)

    def __len__(self) -> int:
        return len(self._drawn)

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        which, target = self._drawn[index]
        shown = tuple(self.objects[at] for at in subset(which, self.candidates))
        return Task(task_id, self.split, {"candidates": shown, "target": shown[target]})


def subset(number: int, size: int) -> tuple[int, ...]:
    """The `number`-th set of `size` whole numbers (the combinatorial number system)."""
    members = []
    for left in range(size, 0, -1):
        at = left - 1
        while comb(at + 1, left) <= number:
            at += 1
        members.append(at)
        number -= comb(at, left)
    return tuple(members)


@lru_cache(maxsize=16)
def object_tasks(split: str, attributes: int, candidates: int) -> ObjectSource:
    """One source per process, which copies of an environment share."""
    return ObjectSource(split, attributes, candidates)


def object_task_of_row(row: Row) -> Task:
    """A task of `candidates`, texts of as many lower-case words each, and `target`, one of them.

    Raises:
        ValueError: no such row.
    """
    entry, target = row.get("candidates"), row.get("target")
    listed = isinstance(entry, (list, tuple)) and all(isinstance(text, str) for text in entry)
    things = [tuple(text.split()) for text in entry] if listed and entry is not None else []
    good = (
        2 <= len(things) <= MAX_CANDIDATES
        and len(set(things)) == len(things)
        and len({len(thing) for thing in things}) == 1
        and all(WORD.fullmatch(word) for thing in things for word in thing)
    )
    if not good or not things[0]:
        raise ValueError(
            f"candidates {entry!r:.200}: expected 2 to {MAX_CANDIDATES} different texts of lower-"
            "case words, as many words in each, such as 'red circle'"
        )
    if not isinstance(target, str) or tuple(target.split()) not in things:
        raise ValueError(f"target {target!r:.80}: expected one of the candidates {entry!r:.200}")
    shown = "/".join(map(described, sorted(things)))
    split = split_of_row(row, f"signalling/{shown}")
    name = str(row.get("id") or f"{shown}?{target}")
    return Task(name, split, {"candidates": tuple(things), "target": tuple(target.split())})


def ordered(task: Task, agent: str) -> tuple[Object, ...]:
    """The candidates in a seat's own order: a function of them and the seat, not of the target."""
    things = sorted(task.data["candidates"])
    shown = "/".join(map(described, things))
    random.Random(f"signalling/order/{shown}/{agent}").shuffle(things)
    return tuple(things)
