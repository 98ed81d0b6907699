"""What a team can earn without messages: the best one on a split, exactly, and one by lot.

Without messages a node knows its seat, how many lines it has, and a name and a value. A name and a
value are drawn for each task, so they tell it nothing of the others; a team that knew a split's
names by heart would know each task, and is no team without messages. So a team is a table: for
each seat and number of lines one answer. Chance of its own adds nothing.

The best table is found by trying all, on the very tasks of the split: who sits where, and the order
of lines, are as they are there. Names and values alone are by lot, so a common answer, which is one
name or value for all, is somebody's with the chance that is given.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import product

import numpy as np

from llm_marl_envs.envs.networks.network_tasks import NetworkSource, chance
from llm_marl_envs.envs.networks.problems import PROBLEMS, Network, Problem

MOST_NODES = 4
"""With more there are too many tables to try."""

Lines = tuple[tuple[int, ...], ...]
"""Of each node, which node is at the end of its line 1, 2, ..."""


@lru_cache(maxsize=64)
def silent_returns(source: NetworkSource, problem: str) -> tuple[float, float]:
    """(by lot, best without messages): means over the tasks of a source that have this problem.

    A common answer by lot is a node's own, so nobody agrees. The best is that all say one name or
    value; to differ from it in any seat loses more than it can win.

    Args:
        source: of networks with at most `MOST_NODES` nodes, unless the answer is a common one.
        problem: of the five, one of the source's.
    """
    rules = PROBLEMS[problem]
    if rules.held:
        return 0.0, chance(source.split, source.nodes, problem)
    indices = range(source.problems.index(problem), len(source), len(source.problems))
    tasks = Counter(task_lines(source, index) for index in indices)
    paid = {lines: payoffs(rules, lines) for lines in tasks}
    by_lot = sum(count * paid[lines].mean() for lines, count in tasks.items())
    earned = sum(count * _of_tables(rules, lines, paid[lines]) for lines, count in tasks.items())
    return float(by_lot) / len(indices), float(np.max(earned)) / len(indices)


def task_lines(source: NetworkSource, index: int) -> Lines:
    """Who is joined to whom in a task."""
    return source[index].data["lines"]


def payoffs(problem: Problem, lines: Lines) -> np.ndarray:
    """What every combination of answers earns: an axis per node, by the number of its answer."""
    assert problem.options is not None
    network = Network(lines, (), ())
    answers = [problem.options(len(neighbours)) for neighbours in lines]
    paid = [sum(problem.terms(problem.right(network, case)).values()) for case in product(*answers)]
    return np.reshape(paid, [len(neighbours) for neighbours in answers])


def _of_tables(problem: Problem, lines: Lines, paid: np.ndarray) -> np.ndarray:
    """What every team of tables earns in one task: an axis per seat, by the number of its table."""
    assert problem.options is not None
    most = range(1, len(lines))
    tables = np.array([*product(*(range(len(problem.options(count))) for count in most))])
    return paid[np.ix_(*(tables[:, len(neighbours) - 1] for neighbours in lines))]
