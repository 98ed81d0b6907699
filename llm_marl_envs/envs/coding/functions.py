"""Which compositions are tasks: all of them, their splits and their tests.

What one composition means is `composition.py`; what a seat can reach alone is `bounds.py`.

Every task is tested on the same inputs, `TESTS`, and a function *is* its answers on them:
compositions with the same answers count as one task, in one split, under the words that come
first. So no two tasks share all their answers, and a program passes the tests of one task at most.
Not tasks are compositions whose private operation does not decide the function (another
operation, or none, under the same text for main gives the same answers) and those for which a
constant passes more than `MAX_SAME_ANSWER` tests.

With three or four authors every helper must count for more: compositions are no tasks where
another word in place of one helper's, or none, passes more than `MAX_SHARED` tests. So whoever does
without a helper and guesses its word wrong loses half of the tests at least. With four authors
every second operation is used, to keep this quick.

| split | what is new in it |
|---|---|
| `val`, `test` | pairs: each prompt occurs in `train`, with other partners |
| `test_prompts` | prompts: neither occurs in `train`; each of their words does |
| `ood` | operations, an ending, two predicates at once: never in `train`, for one seat or both |

`val` and `test` are blocks: all pairs of half of the operations with some of main's prompts. So
whoever knows a split still has many tasks to tell apart after reading one prompt of it.

With more authors a block is half of every seat's prompts, each beside all others of the block:
`val` has the even ones and `test` the odd ones. So whoever lacks one prompt still has many tasks to
tell apart. Only the first helper has enough prompts to keep some: `test_prompts` is new for it
alone, and `ood` for it or main, never by two predicates.

Where nothing is for `ood`, compositions of one prompt that is kept for `test_prompts` and one that
is not are no tasks; `ood` takes its other prompts from all of the tables.

Nothing is computed at import. The first call of `compositions` or `split_of` answers every
composition on every test once, in a fraction of a second (with four authors in two seconds).
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from random import Random

import numpy as np

from llm_marl_envs.envs.coding.composition import (
    AUTHORS,
    KINDS,
    NOTHING,
    OPS,
    Composition,
    evaluate,
    finish,
    keep,
)
from llm_marl_envs.envs.coding.vocabulary import (
    INNER_OPS,
    PREDICATE_PAIRS,
    PREDICATES,
    REDUCTIONS,
    STARTS,
    Primitive,
)

SPLITS = ("train", "val", "test", "test_prompts", "ood")

Answer = int | tuple[int, ...]
"""An answer of `evaluate` that can be a key: a list as a tuple."""

TESTS = (
    (-3, -7, -3, -1),
    (11, 2, 11, 3, 4),
    (5, -7, 15, 5, 14, 5),
    (10, -2, 10, 5, 2, 14, -3),
    (8, 12, -5, 6, -4, -9, 0),
    (4, -4, -8, -4, -6, 15, -9, 7),
    (11, 1, -3, 2, -3, -8, 0, 15),
    (-5, 5, 12, 8, -6, 12, 9, 7, 1),
)
"""The inputs of every task's tests: of 150 random draws the one that tells most compositions
apart."""

MAX_SAME_ANSWER = 3
"""Tests of one task that may share an answer, so that no constant passes more than 3 of 8."""

MAX_SHARED = 4
"""Tests on which two words of one helper may agree under the same other words; with two authors all
but one."""


@dataclass(frozen=True)
class _Universe:
    tasks: dict[str, tuple[Composition, ...]]
    """Split -> its tasks."""
    splits: dict[tuple[Answer, ...], str]
    """Answers on `TESTS` -> split."""
    answers: dict[Composition, tuple[Answer, ...]]
    """Every composition that the tables can say, tasks or not -> its answers on `TESTS`."""


def compositions(split: str, authors: int = 2) -> tuple[Composition, ...]:
    """All tasks of one split, in a fixed order. Raises ValueError for a split not in `SPLITS`."""
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {SPLITS}")
    return _universe(authors).tasks[split]


def composition_at(seed: int, split: str, index: int, authors: int = 2) -> Composition:
    """Item `index` of a split: a function of its arguments alone, endless.

    The split is dealt out in an order that `seed` decides, then again in another order, so that the
    first `len(compositions(split))` items are all different. Raises ValueError below index 0.
    """
    if index < 0:
        raise ValueError(f"index is {index}, expected 0 or more")
    tasks = compositions(split, authors)
    return tasks[_order(seed, split, index // len(tasks), len(tasks))[index % len(tasks)]]


@lru_cache(maxsize=16)
def _order(seed: int, split: str, deal: int, n: int) -> tuple[int, ...]:
    return tuple(Random(f"coding/{seed}/{split}/{deal}").sample(range(n), n))


def answers_of(composition: Composition) -> tuple[Answer, ...]:
    """The right answers on `TESTS`."""
    answers = _universe(len(composition.roles)).answers.get(composition)
    return answers or _answers(composition, [keep(composition.predicates, xs) for xs in TESTS])


def split_of(composition: Composition) -> str | None:
    """The split of the function that a composition computes, None where that is no task."""
    return _universe(len(composition.roles)).splits.get(answers_of(composition))


def asserts(composition: Composition) -> tuple[str, ...]:
    """A line `assert solve([...]) == ...` for each of `TESTS`; no other task passes them all."""
    return tuple(f"assert solve({list(xs)}) == {evaluate(composition, xs)}" for xs in TESTS)


def _all_compositions(authors: int) -> Iterator[Composition]:
    """Every composition the tables can say, parts of helpers that do nothing included."""
    divided, four = authors > AUTHORS[0], authors == AUTHORS[1]
    inner = (*INNER_OPS, NOTHING["item"].words) if four else ("",)
    for kind in KINDS:
        ops = (*list(OPS[kind])[:: 2 if four else 1], NOTHING[kind].words)
        for parts in product(_wheres(divided), ops, _endings(kind), inner):
            where, op, ending, first = parts
            yield Composition(kind, where, op, ending, divided, first)


def _wheres(divided: bool) -> tuple[tuple[str, ...], ...]:
    """Predicates of a composition; none at all stands for a helper of theirs who does nothing."""
    return (*((name,) for name in PREDICATES), *([()] if divided else PREDICATE_PAIRS))


def _endings(kind: str) -> list[str]:
    return [str(start) for start in STARTS] if kind == "fold" else list(REDUCTIONS)


def _answers(composition: Composition, kept: Sequence[list[int]]) -> tuple[Answer, ...]:
    values = (finish(composition, xs) for xs in kept)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


@cache
def _universe(authors: int) -> _Universe:
    kept = {where: [keep(where, xs) for xs in TESTS] for where in _wheres(authors > AUTHORS[0])}
    answers = {task: _answers(task, kept[task.predicates]) for task in _all_compositions(authors)}
    tasks: dict[str, list[Composition]] = {split: [] for split in SPLITS}
    splits: dict[tuple[Answer, ...], str] = {}
    for task, split in _distinct_tasks(answers, authors):
        splits[answers[task]] = split
        tasks[split].append(task)
    return _Universe({split: tuple(members) for split, members in tasks.items()}, splits, answers)


def _distinct_tasks(
    answers: dict[Composition, tuple[Answer, ...]], authors: int
) -> Iterator[tuple[Composition, str]]:
    """One composition per function and its split, without those that are no tasks."""
    replaceable = _replaceable(answers, authors)
    seen: set[tuple[Answer, ...]] = set()
    for task, row in answers.items():
        idle = NOTHING[task.kind].words == task.op or NOTHING["item"].words == task.inner
        constant = max(Counter(row).values()) > MAX_SAME_ANSWER
        if idle or not task.predicates or constant or row in seen or task in replaceable:
            continue
        if split := _split(task):
            seen.add(row)
            yield task, split


def _replaceable(answers: dict[Composition, tuple[Answer, ...]], authors: int) -> set[Composition]:
    """Compositions in which one helper's word decides too little."""
    groups: dict[Hashable, list[Composition]] = defaultdict(list)  # that differ in one word alone
    for task in answers:
        words = (task.op, task.predicates, task.inner)
        for place in range(authors - 1):
            groups[place, task.kind, task.ending, words[:place], words[place + 1 :]].append(task)
    most = MAX_SHARED if authors > AUTHORS[0] else len(TESTS) - 1
    replaceable: set[Composition] = set()
    for group in groups.values():
        numbers: dict[Answer, int] = {}
        rows = np.array(
            [[numbers.setdefault(a, len(numbers)) for a in answers[task]] for task in group]
        )
        shared = (rows[:, None] == rows[None]).sum(axis=2) - len(TESTS) * np.eye(len(group))
        replaceable |= {
            task for task, count in zip(group, shared.max(axis=1), strict=True) if count > most
        }
    return replaceable


def _split(task: Composition) -> str | None:
    """Where a composition belongs, by its words."""
    ops, endings = OPS[task.kind], _endings(task.kind)
    op = ops.get(task.op, NOTHING[task.kind])
    held_out = task.ending in REDUCTIONS and REDUCTIONS[task.ending].kept_for == "ood"
    if op.kept_for == "ood" or held_out or (len(task.predicates) > 1 and not task.divided):
        return "ood"
    if task.divided:
        return _split_of_many(task, op)
    (predicate,) = (list(PREDICATES).index(word) for word in task.predicates)
    ending = endings.index(task.ending)
    unread = (op.kept_for == "test_prompts", (predicate + ending) % 3 == 0)
    if any(unread):
        return "test_prompts" if all(unread) else None
    block = (predicate * len(endings) + ending) % 5
    even = op in list(ops.values())[::2]
    return "test" if even and block < 2 else "val" if not even and block == 2 else "train"


def _split_of_many(task: Composition, op: Primitive) -> str:
    """The same with more than two authors, where nothing is for `ood`."""
    if op.kept_for == "test_prompts":
        return "test_prompts"
    learnt = [words for words, primitive in OPS[task.kind].items() if not primitive.kept_for]
    pairs = [(learnt, task.op), (_endings(task.kind), task.ending), (PREDICATES, *task.predicates)]
    if task.inner:
        pairs.append((INNER_OPS, task.inner))
    halves = {list(table).index(word) % 2 for table, word in pairs}
    return "train" if len(halves) > 1 else "test" if halves == {1} else "val"
