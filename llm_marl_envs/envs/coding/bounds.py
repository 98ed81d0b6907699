"""What a team, and one seat alone, can return in a generated task.

A seat alone is an optimal adaptive policy that sees only this seat's observations over the K turns,
beside partners whose programs have nothing to do with the partners' own parts (they are well
formed and pass on what they get). It knows how tasks are drawn: each of the split is equally
likely. So after reading its prompt it holds the n tasks of the split that have this prompt for
equally likely, and under `feedback="plain"` a turn tells it one thing only: whether the episode
goes on.

No two tasks share all their answers on the tests, which all tasks have in common, so a program
solves one of the n tasks at most. Once solved, a task pays everything; of the others the last turn
alone counts, for turns pay gains. Hence an optimal seat rules out K - 1 tasks, one a turn, and then
answers each test by what most of the tasks that are left answer:

    value = max over R, |R| = K - 1, of (|R| + sum_i max_a #{t not in R: answer_i(t) = a} / I) / n

with I tests. The maximum runs over all R: exact, by enumeration (`MAX_TURNS`).
`absent_share` is the same for all seats but one, which together have every prompt but that one's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.coding import functions
from llm_marl_envs.envs.coding.composition import Composition, describe
from llm_marl_envs.envs.coding.conventions import roles_of
from llm_marl_envs.envs.coding.functions import TESTS

MAX_TURNS = 4
"""Turns up to which the bound is enumerated: n tasks have n (n - 1) (n - 2) / 6 sets of three."""


def solo_share(composition: Composition, turns: int) -> float:
    """Expected share of tests, in [0, 1], of the better seat alone on tasks with its prompt.

    The better seat is the one with the larger value on the task's split, the same for all its
    tasks.

    Raises:
        ValueError: no task, or `turns` not in 1 to `MAX_TURNS`.
    """
    split, authors = functions.split_of(composition), len(composition.roles)
    if split is None or composition not in _tasks(split, authors):  # nor are other words for one
        raise ValueError(f"{composition} is no task: bounds are known for tasks of the splits")
    if not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"turns={turns}: bounds are known for 1 to {MAX_TURNS} turns")
    role = better_seat(split, turns, authors)
    return _values(split, turns, (role,), authors)[_read(composition, (role,))]


@cache
def _tasks(split: str, authors: int) -> frozenset[Composition]:
    return frozenset(functions.compositions(split, authors))


@cache
def better_seat(split: str, turns: int, authors: int = 2) -> str:
    """The role whose optimal policy alone has the larger mean value over the tasks of a split."""
    return max(roles_of(authors), key=lambda role: seat_value(split, turns, role, authors))


def seat_value(split: str, turns: int, role: str, authors: int = 2) -> float:
    """Mean over the tasks of a split of what the optimal policy of one role reaches alone."""
    return _mean(split, turns, (role,), authors)


def absent_share(split: str, turns: int, role: str, authors: int = 2) -> float:
    """As `seat_value` of all roles but one together, which know one another's prompts."""
    return _mean(split, turns, tuple(name for name in roles_of(authors) if name != role), authors)


def _mean(split: str, turns: int, roles: tuple[str, ...], authors: int) -> float:
    values = _values(split, turns, roles, authors)
    tasks = functions.compositions(split, authors)
    return sum(values[_read(task, roles)] for task in tasks) / len(tasks)


def _read(task: Composition, roles: tuple[str, ...]) -> str:
    return " ".join(describe(task, role) for role in roles)


@cache
def _values(split: str, turns: int, roles: tuple[str, ...], authors: int) -> dict[str, float]:
    """What some roles read -> value of the optimal policy that reads it."""
    beliefs: dict[str, list[Composition]] = defaultdict(list)
    for task in functions.compositions(split, authors):
        beliefs[_read(task, roles)].append(task)
    return {prompt: optimal_value(tasks, turns) for prompt, tasks in beliefs.items()}


def optimal_value(tasks: Sequence[Composition], turns: int) -> float:
    """The formula of this module for equally likely tasks: expected share of tests, in [0, 1]."""
    n, ruled_out = len(tasks), turns - 1
    if n <= ruled_out:
        return 1.0
    rows = [functions.answers_of(task) for task in tasks]
    labels = np.array([_numbered(answers) for answers in zip(*rows, strict=True)])  # (I, n)
    agreeing = sum(int(np.bincount(row).max()) for row in labels)
    if _free(labels) < ruled_out:  # else such tasks are ruled out, at no loss
        sets = np.array(list(combinations(range(n), ruled_out)))  # (S, K - 1)
        agreeing = int(np.sum([_most_common(row, sets) for row in labels], axis=0).max())
    return (ruled_out + agreeing / len(TESTS)) / n


def _free(labels: NDArray[np.int64]) -> int:
    """How many tasks give the most frequent answer to none of the tests."""
    common = [np.bincount(row).argmax() for row in labels]
    return int((labels != np.array(common)[:, None]).all(axis=0).sum())


def _numbered(answers: Sequence[functions.Answer]) -> list[int]:
    """Each answer as a number; equal numbers, equal answers."""
    numbers: dict[functions.Answer, int] = {}
    return [numbers.setdefault(answer, len(numbers)) for answer in answers]


def _most_common(labels: NDArray[np.int64], sets: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the tasks outside each set share one answer to a test, at most: (S,).

    Taking K - 1 tasks away changes K - 1 answers at most, so one of the K most frequent stays the
    most frequent.
    """
    counts = np.bincount(labels)
    frequent = np.argsort(-counts, kind="stable")[: sets.shape[1] + 1]
    taken = labels[sets]  # (S, K - 1)
    left = [counts[label] - (taken == label).sum(axis=1) for label in frequent]
    return np.max(left, axis=0)
