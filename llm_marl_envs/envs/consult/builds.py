"""Builds: a small function that the person knows in words, and the asker must write.

Owns the family of functions, its splits, what can be asked about them, tests and programs. The
price of n parcels is a fee and a rate for each parcel after the free ones; above eight parcels a
rule of its own holds. `FAMILIES` has all values. The family is small so that the best way to ask
can be computed: the compositions of `envs/coding` are too many, and a long list asks all at once.

A function *is* its prices from 0 to 12; no two of a family share them all (a test holds that). A
split has functions of its own, each told with one detail at a time. So who has read one detail
holds all functions of the split with it for equally likely.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log2, prod
from typing import Any

from llm_marl_envs.core.tasks import IndexedSource, Task, split_of_row
from llm_marl_envs.envs.consult.record import Fact, Record

ENTRY_POINT = "f"
MANY = 8
"""Parcels up to which the usual price holds."""
INPUTS = range(13)
DETAILS = ("fee", "rate", "free", "bulk")
BULK = {
    "usual": "the usual price",
    "capped": f"the price of {MANY}",
    "doubled": "twice the usual price",
    "refused": "-1",
}
"""Value of `bulk` -> what more than eight parcels cost."""
WORDS = {
    "fee": ("fees", "base", "fixed"),
    "rate": ("rates", "each", "per"),
    "free": ("included",),
    "bulk": ("over", "above", "beyond", "large"),
}
"""How a question may name a detail otherwise."""

Function = tuple[int, int, int, str]
"""Fee, rate, free parcels, and a key of `BULK`."""
FAMILIES: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "": ((0, 3, 6, 9), (2, 3, 4, 5), (0, 1, 2, 3), tuple(BULK)),
    "ood": ((2, 5, 8, 11), (6, 7, 8, 9), (4, 5, 6, 7), tuple(BULK)),
}
"""Split ("" for all but `ood`) -> values of each detail."""
FUNCTIONS = prod(map(len, FAMILIES[""]))
"""How many functions a family has."""


def price(function: Function, n: int) -> int:
    """What n parcels cost; -1 where they are refused."""
    fee, rate, free, bulk = function
    usual = fee + rate * max(0, n - free)
    if n <= MANY or bulk == "usual":
        return usual
    return {"capped": fee + rate * max(0, MANY - free), "doubled": 2 * usual, "refused": -1}[bulk]


def values_in(split: str) -> tuple[tuple[Any, ...], ...]:
    """The values of each detail in a split."""
    return FAMILIES["ood" if split == "ood" else ""]


@lru_cache(maxsize=8)
def family(split: str) -> tuple[Function, ...]:
    """The functions of a split, in a fixed order."""
    every = product(*values_in(split))
    return tuple(f for f in every if split == "ood" or split_of_function(f) == split)


def split_of_function(function: Function) -> str:
    """The split, `ood` aside, of a function."""
    return split_of_row({}, f"consult/build/{function}")


@lru_cache(maxsize=1024)
def answers(function: Function) -> tuple[str, ...]:
    """What the person answers to each question: the details, then the prices."""
    return (*map(str, function), *(str(price(function, n)) for n in INPUTS))


@lru_cache(maxsize=8)
def facts(split: str) -> tuple[Fact, ...]:
    """What can be asked about the functions of a split."""
    names = (*DETAILS, *(f"{ENTRY_POINT}({n})" for n in INPUTS))
    columns = zip(*map(answers, product(*values_in(split))), strict=True)
    return tuple(
        Fact(name, tuple(dict.fromkeys(column)), WORDS.get(name, ()))
        for name, column in zip(names, columns, strict=True)
    )


class BuildSource(IndexedSource):
    """Every function of a split with each detail told first, in an order that is drawn once."""

    def __init__(self, split: str) -> None:
        super().__init__(split)
        self._order = list(product(family(split), range(len(DETAILS))))
        random.Random(f"consult/build/{split}").shuffle(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        function, detail = self._order[index]
        data = {"kind": "build", "function": list(function), "complaint": [detail]}
        return Task(task_id, self.split, data)


build_tasks = lru_cache(maxsize=8)(BuildSource)
"""One source of a split per process, which copies of an environment share."""


@dataclass(frozen=True)
class Build:
    """A hidden function; before anything is told, each of its split is as likely.

    Attributes:
        record: what the person knows.
        function: the function.
        split: of the task.
    """

    record: Record
    function: Function
    split: str

    def possible(self, known: Mapping[int, str]) -> list[Function]:
        """The functions of the split that agree with facts (place -> value), in order."""
        return [
            function
            for function in family(self.split)
            if all(answers(function)[place] == value for place, value in known.items())
        ]

    def guess(self, known: Mapping[int, str]) -> str:
        """A program for the first function that agrees with facts, or with the complaint alone."""
        return program((self.possible(known) or self.possible(self.record.opening))[0])

    def chance(self, known: Mapping[int, str]) -> float:
        """The chance of the function, given facts."""
        return 1 / len(self.possible(known))

    def information(self, known: Mapping[int, str], place: int) -> float:
        """What a question is expected to tell about the function, in bits."""
        functions = self.possible(known)
        sizes = Counter(answers(function)[place] for function in functions).values()
        return sum(n / len(functions) * log2(len(functions) / n) for n in sizes)


def build_of(task: Task) -> Build:
    """The function behind a generated task."""
    fee, rate, free, bulk = task.data["function"]
    function = (fee, rate, free, bulk)
    record = Record(facts(task.split), answers(function), tuple(task.data["complaint"]))
    return Build(record, function, task.split)


def tests(function: Function) -> str:
    """An assertion for each price."""
    return "\n".join(f"assert {ENTRY_POINT}({n}) == {price(function, n)}" for n in INPUTS)


def program(function: Function) -> str:
    """A program that computes it."""
    fee, rate, free, bulk = function
    lines = [f"def {ENTRY_POINT}(n):"]
    if bulk == "capped":
        lines.append(f"    n = min(n, {MANY})")
    lines.append(f"    usual = {fee} + {rate} * max(0, n - {free})")
    above = {"doubled": "2 * usual", "refused": "-1"}.get(bulk)
    lines.append(f"    return usual if n <= {MANY} else {above}" if above else "    return usual")
    return "\n".join(lines)


# -- in words -------------------------------------------------------------------------------------
STATEMENT = """person_0 knows what parcels cost: f(n) for n parcels, n from {low} to {high}.
f(n) is usually fee + rate * max(0, n - free). For more than {many} parcels it depends on bulk.
fee: {fee}. rate: {rate}. free: {free}.
bulk: {bulk}."""


def family_text(task: Task) -> str:
    """What the asker is told of the family."""
    *numbers, bulk = values_in(task.split)
    words = {name: _either(values) for name, values in zip(DETAILS, numbers, strict=False)}
    words["bulk"] = _either([f"{value} ({BULK[value]})" for value in bulk])
    return STATEMENT.format(low=INPUTS[0], high=INPUTS[-1], many=MANY, **words)


def _either(values: Any) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}"
