"""The best way to ask, exactly: expectimax over what can be asked.

Owns two forms, each from what is known on. In a `CasePlan` an answer is drawn by a hidden class,
and a state is which facts were asked for and what they are. In a `FamilyPlan` an answer follows
from a hidden function, and a state is the set of functions that are left.

Values are of *joint* chances: of being right and of being in a state together. So no state is
divided by its chance, and the value of a question is a sum over its answers:

    V(state, left) = max(stop, max over facts: sum over answers V(next, left - 1) - price P(state))

with stop = the joint chance of the likeliest class.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.consult.chances import Case

MAX_FACTS = 12
"""Facts of a case up to which bounds are known: 4096 subsets that may have been asked."""
MAX_STATES = 2**18
"""Such subsets with values, of at most so many facts as questions may be asked."""
TINY = 1e-12
"""What a question must bring beyond its price."""
Array = NDArray[np.float64]
Places = NDArray[np.int32]
Function = Hashable


@dataclass(frozen=True, slots=True)
class Level:
    """The states in which so many facts were asked for.

    Attributes:
        codes: (S,) what is known: of each fact 0 or the place of its value + 1, as digits; rising.
        last: (S,) the last fact that was asked for.
        parents: (S,) place, in the level before, of the state without that fact.
        columns: (S,) place of its value among the values of all facts.
    """

    codes: NDArray[np.int64]
    last: Places
    parents: Places
    columns: Places


class CasePlan:
    """The best questions about a case.

    Args:
        case: the case.
        known: place -> value.
        questions: how many may be asked, >= 0.
        price: of each.

    Raises:
        ValueError: too many facts or states.
    """

    def __init__(self, case: Case, known: Mapping[int, str], questions: int, price: float) -> None:
        facts = case.record.facts
        self.places = [place for place in range(len(facts)) if place not in known]
        sizes = tuple(len(facts[place].values) for place in self.places)
        depth = min(questions, len(sizes))
        refuse_large(len(facts), sizes, depth)
        at = [(place, facts[place].values.index(value)) for place, value in known.items()]
        rows = zip(case.prior, case.likelihood, strict=True)
        first = [chance * prod(row[place][value] for place, value in at) for chance, row in rows]
        self.first = np.array(first)  # (C,) joint chance of each class
        self.columns = [np.array([row[place] for row in case.likelihood]) for place in self.places]
        self.asked = np.full(len(sizes), -np.inf)  # value of asking for each fact first
        self._root = float(self.first.max())
        if depth:
            self._solve(sizes, depth, price)

    def _solve(self, sizes: tuple[int, ...], depth: int, price: float) -> None:
        levels, columns = tree(sizes, depth), np.concatenate(self.columns, axis=1)
        joints = [self.first[:, None]]  # (C, S) of each level
        for level in levels[1:]:
            joints.append(joints[-1][:, level.parents] * columns[:, level.columns])
        value = joints[-1].max(axis=0)
        for number in range(depth - 1, -1, -1):
            after, joint = following(sizes, depth, number), joints[number]
            asked = np.append(value, [0.0, -np.inf])[after].sum(axis=2)  # (S, facts)
            asked -= price * joint.sum(axis=0)[:, None]
            value = np.maximum(joint.max(axis=0), asked.max(axis=1))
            self.asked = asked[0]  # of the first level in the end
        self._root = float(value[0])

    def value(self) -> float:
        """Expected return of the best asker."""
        return self._root / float(self.first.sum())

    def at_once(self) -> float:
        """Expected return of the best answer without a question."""
        return float(self.first.max() / self.first.sum())

    def knowing_all(self) -> float:
        """Chance of being right for who knows every fact."""
        joint = self.first[:, None]  # (C, records)
        for values in self.columns:
            joint = (joint[:, :, None] * values[:, None]).reshape(len(joint), -1)
        return float(joint.max(axis=0).sum() / self.first.sum())

    def question(self) -> int | None:
        """The place of the best fact to ask for; None where answering is as good."""
        worth, best = float(self.first.max() + TINY * self.first.sum()), None
        for place, value in zip(self.places, self.asked.tolist(), strict=True):
            if value > worth:
                worth, best = value + TINY * float(self.first.sum()), place
        return best


def refuse_large(n_facts: int, sizes: Sequence[int], depth: int) -> None:
    """Raise a ValueError where a plan would be too large.

    Args:
        n_facts: of the case.
        sizes: values of each fact that is not known.
        depth: questions.
    """
    counts = [1] + [0] * depth  # by how many facts were asked for
    for size in sizes:
        counts = [n + size * fewer for n, fewer in zip(counts, [0, *counts], strict=False)]
    if n_facts > MAX_FACTS or sum(counts) > MAX_STATES:
        raise ValueError(
            f"bounds are known for at most {MAX_FACTS} facts and {MAX_STATES} states, not for "
            f"{n_facts} facts and {sum(counts)} states; use fewer turns"
        )


@lru_cache(maxsize=128)
def tree(sizes: tuple[int, ...], depth: int) -> tuple[Level, ...]:
    """The states of each level; `sizes` has the number of values of each fact."""
    none = np.zeros(1, np.int32)
    levels = [Level(np.zeros(1, np.int64), none - 1, none, none)]
    starts, strides = np.cumsum([0, *sizes[:-1]]), np.cumprod([1, *(n + 1 for n in sizes[:-1])])
    for _ in range(depth):
        before, parts = levels[-1], []
        for axis, size in enumerate(sizes):
            (parents,) = np.nonzero(before.last < axis)
            for value in range(size):
                codes = before.codes[parents] + (value + 1) * strides[axis]
                same = np.ones_like(parents)
                parts.append((codes, axis * same, parents, (starts[axis] + value) * same))
        codes, *rest = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(codes)
        levels.append(Level(codes[order], *(column[order].astype(np.int32) for column in rest)))
    return tuple(levels)


@lru_cache(maxsize=256)
def following(sizes: tuple[int, ...], depth: int, number: int) -> Places:
    """Where questions lead from the states of a level: (S, facts, most values of a fact).

    Places in the level after, S' for values that a fact has not, S' + 1 where it is known.
    """
    level, after = tree(sizes, depth)[number : number + 2]
    places = np.full((len(level.codes), len(sizes), max(sizes)), len(after.codes), np.int32)
    stride = 1
    for axis, size in enumerate(sizes):
        known = level.codes // stride % (size + 1) > 0
        for value in range(size):
            codes = level.codes + (value + 1) * stride
            places[:, axis, value] = np.searchsorted(after.codes, codes)
        places[known, axis] = len(after.codes) + 1
        stride *= size + 1
    return places


class FamilyPlan:
    """The best questions about a hidden function, each of some as likely, from any state.

    Args:
        answers: function -> answer to each question; equal ones for no two functions.
        known: place -> answer.
        questions: how many may be asked, >= 0.
        price: of each.
    """

    def __init__(
        self,
        answers: Mapping[Any, Sequence[str]],
        known: Mapping[int, str],
        questions: int,
        price: float,
    ) -> None:
        self.answers, self.questions, self.price = answers, questions, price
        self.first = frozenset(
            function
            for function, its in answers.items()
            if all(its[place] == value for place, value in known.items())
        )
        self._values: dict[tuple[frozenset[Function], int], float] = {}

    def value(self) -> float:
        """Expected return of the best asker."""
        return self._value(self.first, self.questions) / len(self.first)

    def at_once(self) -> float:
        """Expected return of the best answer without a question."""
        return 1 / len(self.first)

    def knowing_all(self) -> float:
        """Chance of being right for who knows every answer."""
        return 1.0

    def question(self) -> int | None:
        """The place of the best question; None where answering is as good."""
        if not self.questions or len(self.first) < 2:
            return None
        worth, best = 1.0 + TINY, None
        for place, blocks in self._questions(self.first):
            value = self._asked(self.first, blocks, self.questions)
            if value > worth + TINY:
                worth, best = value, place
        return best

    def _value(self, functions: frozenset[Function], left: int) -> float:
        """Of the functions of a state, how many the best asker gets right, less what it pays."""
        if len(functions) == 1 or not left:
            return 1.0
        key = (functions, left)
        if key not in self._values:
            divided = self._questions(functions)
            asked = [self._asked(functions, blocks, left) for _, blocks in divided]
            self._values[key] = max([1.0, *asked])
        return self._values[key]

    def _asked(
        self, functions: frozenset[Function], blocks: list[frozenset[Function]], left: int
    ) -> float:
        return sum(self._value(block, left - 1) for block in blocks) - self.price * len(functions)

    def _questions(
        self, functions: frozenset[Function]
    ) -> list[tuple[int, list[frozenset[Function]]]]:
        """Questions that divide a state, and into what; of two that divide it alike the first."""
        divisions: dict[frozenset[frozenset[Function]], int] = {}
        for place in range(len(next(iter(self.answers.values())))):
            blocks: dict[str, list[Function]] = {}
            for function in functions:
                blocks.setdefault(self.answers[function][place], []).append(function)
            if len(blocks) > 1:
                divisions.setdefault(frozenset(map(frozenset, blocks.values())), place)
        return [(place, [*blocks]) for blocks, place in divisions.items()]
