"""Which compositions are tasks: all of them, their splits, their tests and their bounds.

What one composition means is `composition.py`, whose names are offered here too, so that an
environment imports this module alone. Prompting, running programs and paying rewards belong to the
environment.

A function's identity is its *fingerprint*, its answers on `PROBES`. Compositions with the same
fingerprint count as one task, in one split, under the words that come first. Not tasks are those
whose private operation does not decide the function (another operation, or none, under the same
text for main gives the same answers) and those with too few different answers to be tested.

Nothing is computed at import. The first call of `compositions`, `split_of`, `asserts` or `bounds`
answers every composition on every probe once, in a fraction of a second.

Legend: F functions (all compositions, tasks or not), I probes. An answer is held as a small int
that stands for its value; equal ints, equal answers.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from random import Random

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.coding.composition import (
    CONTRACTS,
    HELPER_PROMPT,
    KINDS,
    MAIN_PROMPT,
    NOTHING,
    ROLES,
    Composition,
    conventions,
    describe_full,
    describe_helper,
    describe_main,
    evaluate,
    expert,
    finish,
    keep,
)
from llm_marl_envs.coding.conventions import read_convention
from llm_marl_envs.coding.tables import (
    FOLD_OPS,
    HELD_OUT_PAIRS,
    HELD_OUT_REDUCTION,
    ITEM_OPS,
    PREDICATE_PAIRS,
    PREDICATES,
    REDUCTIONS,
    SEQUENCE_OPS,
    STARTS,
)

__all__ = [
    "ASSERTS",
    "CONTRACTS",
    "HELPER_PROMPT",
    "KINDS",
    "MAIN_PROMPT",
    "PROBES",
    "ROLES",
    "SPLITS",
    "Bounds",
    "Composition",
    "asserts",
    "bounds",
    "composition_at",
    "compositions",
    "conventions",
    "describe_full",
    "describe_helper",
    "describe_main",
    "evaluate",
    "expert",
    "fingerprint",
    "read_convention",
    "split_of",
]

SPLITS = ("train", "val", "test", "ood")

Answer = int | tuple[int, ...]
"""An answer of `evaluate` that can be a key: a list as a tuple."""

ASSERTS = 8
"""Tests of one task. Together they tell it from every other task."""

TOLD_APART = 0.1
"""Weight in the choice of tests of a task that is already told apart, per test that does so."""

MAX_SAME_ANSWER = 3
"""Tests of one task that may share an answer, so that no constant passes more than 3 of 8."""


def _probes() -> tuple[tuple[int, ...], ...]:
    rng = Random("llm_marl_envs.coding.functions.PROBES")
    drawn = (tuple(rng.randint(-9, 15) for _ in range(5 + i % 4)) for i in range(26))
    repeats = ((3, 8, 3, -6, 8), (12, 5, 12, 0), (-4, -4, 7, 7, 1), (6, 2, 9, 2, 6), (10, -3, 4))
    return ((), *repeats, *drawn)


PROBES = _probes()
"""The fixed lists that decide a function's identity and from which its tests are taken."""


@dataclass(frozen=True)
class Bounds:
    """Expected share of a task's tests, in [0, 1]."""

    random: float
    """Of a team whose texts are no programs."""
    solo: float
    """The most that one seat can expect alone: main, with the best program for its own prompt
    averaged over the operations that it may be about. The helper alone passes nothing."""
    team: float
    """Of two seats that each know their part and agree on the interface."""


@dataclass(frozen=True)
class _Universe:
    rows: dict[Composition, int]
    """Every composition, tasks or not -> its row."""
    numbers: dict[Answer, int]
    """Answer -> the small int that stands for it."""
    answers: NDArray[np.int32]
    """(F, I)"""
    task_rows: NDArray[np.int64]
    """The rows that are tasks, one per fingerprint."""
    tasks: dict[str, tuple[Composition, ...]]
    """Split -> its tasks."""
    splits: dict[str, str]
    """Fingerprint -> split."""


def compositions(split: str) -> tuple[Composition, ...]:
    """All tasks of one split, in a fixed order. Raises ValueError for a split not in `SPLITS`."""
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {SPLITS}")
    return _universe().tasks[split]


def composition_at(seed: int, split: str, index: int) -> Composition:
    """Item `index` of a split: a function of its arguments alone, endless.

    The split is dealt out in an order that `seed` decides, then again in another order, so that the
    first `len(compositions(split))` items are all different. Raises ValueError below index 0.
    """
    if index < 0:
        raise ValueError(f"index is {index}, expected 0 or more")
    tasks = compositions(split)
    return tasks[_order(seed, split, index // len(tasks), len(tasks))[index % len(tasks)]]


@lru_cache(maxsize=16)
def _order(seed: int, split: str, deal: int, n: int) -> tuple[int, ...]:
    return tuple(Random(f"coding/{seed}/{split}/{deal}").sample(range(n), n))


def fingerprint(composition: Composition) -> str:
    """What the composition computes, whatever its words: a digest of its answers on `PROBES`."""
    return _digest(_answers(composition, [keep(composition.predicates, xs) for xs in PROBES]))


def split_of(composition: Composition) -> str | None:
    """The split of the function that a composition computes, None where that is no task.

    `ood`: two predicates, the held-out reduction or a held-out pair of operation and ending.
    All other functions fall into train, val and test by a hash of the fingerprint, 80 : 5 : 15.
    """
    return _universe().splits.get(fingerprint(composition))


@lru_cache(maxsize=4096)
def asserts(composition: Composition) -> tuple[str, ...]:
    """`ASSERTS` lines `assert solve([...]) == ...` that no other task's function passes.

    Chosen greedily from `PROBES`: each next one is the probe that tells apart the most tasks, where
    a task that an earlier one tells apart counts a tenth; at most `MAX_SAME_ANSWER` of the lines
    have the same answer. Works for any composition, tasks or not.
    """
    return tuple(
        f"assert solve({list(PROBES[i])}) == {evaluate(composition, PROBES[i])}"
        for i in _chosen_probes(composition)
    )


@lru_cache(maxsize=4096)
def bounds(composition: Composition) -> Bounds:
    """What random, one-seat and whole teams can expect. Raises KeyError off the tables."""
    universe = _universe()
    family = [replace(composition, op=op) for op in _ops(composition.kind)]
    tasks = set(universe.task_rows.tolist())
    possible = [one for one in family if universe.rows[one] in tasks]
    guesses = universe.answers[[universe.rows[guess] for guess in family]]
    shares = np.zeros(len(family))
    constants: dict[int, float] = {}
    for task in possible:
        chosen = list(_chosen_probes(task))
        right = universe.answers[universe.rows[task], chosen]
        shares += (guesses[:, chosen] == right).mean(axis=1)
        for value, count in zip(*np.unique(right, return_counts=True), strict=True):
            constants[int(value)] = constants.get(int(value), 0.0) + float(count) / len(chosen)
    best = max(float(shares.max()), max(constants.values(), default=0.0))
    return Bounds(random=0.0, solo=best / max(len(possible), 1), team=1.0)


def _all_compositions() -> Iterator[Composition]:
    """Every composition the tables can say, operations that do nothing included."""
    for kind in KINDS:
        endings = [str(start) for start in STARTS] if kind == "fold" else list(REDUCTIONS)
        for where, op, ending in product(_WHERES, _ops(kind), endings):
            yield Composition(kind, where, op, ending)


_WHERES: tuple[tuple[str, ...], ...] = (*((name,) for name in PREDICATES), *PREDICATE_PAIRS)


def _ops(kind: str) -> tuple[str, ...]:
    table = {"item": ITEM_OPS, "fold": FOLD_OPS, "sequence": SEQUENCE_OPS}[kind]
    return (*table, NOTHING[kind].words)


def _answers(composition: Composition, kept: Sequence[list[int]]) -> tuple[Answer, ...]:
    values = (finish(composition, xs) for xs in kept)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _digest(answers: tuple[Answer, ...]) -> str:
    return hashlib.sha256(repr(answers).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def _universe() -> _Universe:
    kept = {where: [keep(where, xs) for xs in PROBES] for where in _WHERES}
    answers = {one: _answers(one, kept[one.predicates]) for one in _all_compositions()}
    rows = {one: row for row, one in enumerate(answers)}
    numbers: dict[Answer, int] = {}
    tasks: dict[str, list[Composition]] = {split: [] for split in SPLITS}
    splits: dict[str, str] = {}
    for task in _distinct_tasks(answers):
        name = _digest(answers[task])
        splits[name] = _split(task, name)
        tasks[splits[name]].append(task)
    return _Universe(
        rows=rows,
        numbers=numbers,
        answers=np.array(
            [[numbers.setdefault(one, len(numbers)) for one in row] for row in answers.values()],
            dtype=np.int32,
        ),
        task_rows=np.array([rows[one] for split in SPLITS for one in tasks[split]]),
        tasks={split: tuple(found) for split, found in tasks.items()},
        splits=splits,
    )


def _distinct_tasks(answers: dict[Composition, tuple[Answer, ...]]) -> Iterator[Composition]:
    """One composition per function, without those that are no tasks (see the module's top)."""
    under_main = Counter(
        (one.kind, one.predicates, one.ending, row) for one, row in answers.items()
    )
    seen: set[tuple[Answer, ...]] = set()
    for one, row in answers.items():
        decided = under_main[one.kind, one.predicates, one.ending, row] == 1
        usable = sum(min(count, MAX_SAME_ANSWER) for count in Counter(row).values())
        known = one.op == NOTHING[one.kind].words or row in seen
        if decided and not known and usable >= ASSERTS:
            seen.add(row)
            yield one


def _split(task: Composition, name: str) -> str:
    held_out = task.ending == HELD_OUT_REDUCTION or (task.op, task.ending) in HELD_OUT_PAIRS
    if held_out or len(task.predicates) > 1:
        return "ood"
    bucket = int(name, 16) % 100
    return "train" if bucket < 80 else "val" if bucket < 85 else "test"


@lru_cache(maxsize=4096)
def _chosen_probes(composition: Composition) -> tuple[int, ...]:
    """Indices of the probes that `asserts` uses."""
    universe = _universe()
    own = _answers(composition, [keep(composition.predicates, xs) for xs in PROBES])
    own_numbers = np.array([universe.numbers.get(answer, -1) for answer in own])
    # As floats, so that the products below are BLAS calls. A row of zeros is the function itself.
    differs = (universe.answers[universe.task_rows] != own_numbers).astype(np.float32)  # (F, I)
    weights = np.ones(len(differs), dtype=np.float32)  # (F,)
    chosen: list[int] = []
    for _ in range(ASSERTS):
        gain = weights @ differs  # (I,)
        used = Counter(own[i] for i in chosen)
        barred = [i in chosen or used[own[i]] >= MAX_SAME_ANSWER for i in range(len(PROBES))]
        best = int(np.argmax(np.where(barred, -1.0, gain)))
        if barred[best]:
            break
        chosen.append(best)
        weights *= np.where(differs[:, best] > 0, TOLD_APART, 1.0).astype(np.float32)
    return tuple(chosen)
