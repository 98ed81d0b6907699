"""What a team can earn without messages: the best one, exactly, and one that answers by lot.

Without messages a node knows its seat, how many lines it has, and a name and a value that tell it
nothing of the others. Graphs are those of a split's tasks; who sits where is by lot, and so is the
order of lines. So a best team chooses, for each seat and number of lines, one answer: chance of its
own adds nothing. In a matching all lines are alike: the choice is between any line and none.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations_with_replacement, permutations, product

import numpy as np

from llm_marl_envs.networks.graphs import Edges, neighbours_of
from llm_marl_envs.networks.network_tasks import NetworkSource, chance
from llm_marl_envs.networks.problems import PROBLEMS, Network

MOST_NODES = 4
"""With more there are too many teams to compare."""


@lru_cache(maxsize=64)
def silent_returns(source: NetworkSource, problem: str) -> tuple[float, float]:
    """(by lot, best without messages) on the tasks of a source that have this problem.

    A common answer by lot is a node's own, so nobody agrees. The best is that all say one name or
    value, which is some node's with the chance given; to differ from it in any seat loses more than
    it can win.

    Args:
        source: of networks with at most `MOST_NODES` nodes, unless the answer is a common one.
        problem: of the five, one of the source's.
    """
    nodes = source.nodes
    if PROBLEMS[problem].held:
        return 0.0, chance(source.split, nodes, problem)
    graphs: Counter[Edges] = Counter()
    for index in range(source.problems.index(problem), len(source), len(source.problems)):
        lines = source[index].data["lines"]
        graphs[_canonical(frozenset((i, j) for i in range(nodes) for j in lines[i] if i < j))] += 1
    tables = {graph: _Table(problem, nodes, graph) for graph in graphs}
    by_lot = sum(count * tables[graph].by_lot() for graph, count in graphs.items())
    choices = [range(_options(problem, lines)) for lines in range(1, nodes)]
    seats = np.array([*product(*choices)])  # (ways to play a seat, numbers of lines - 1)
    teams = np.array([*combinations_with_replacement(range(len(seats)), nodes)])
    earned = sum(count * tables[graph].earned(seats, teams) for graph, count in graphs.items())
    total = graphs.total()
    return by_lot / total, float(np.max(earned)) / total


def _options(problem: str, lines: int) -> int:
    """How many answers differ, to a node that has heard nothing."""
    options = PROBLEMS[problem].options
    return 2 if problem == "matching" or options is None else len(options(lines))


class _Table:
    """What every combination of choices earns on one graph."""

    def __init__(self, problem: str, nodes: int, graph: Edges) -> None:
        self.lines = neighbours_of(nodes, graph)
        network = Network(self.lines, (), ())
        known = PROBLEMS[problem]
        assert known.options is not None
        answers = [known.options(len(lines)) for lines in self.lines]
        shape = [_options(problem, len(lines)) for lines in self.lines]
        paid = np.zeros(shape)
        self.weights = np.zeros(shape)
        """How likely each combination is by lot."""
        for at in product(*(range(len(one)) for one in answers)):
            said = [one[i] for one, i in zip(answers, at, strict=True)]
            choice = tuple(int(i == len(one) - 1) for one, i in zip(answers, at, strict=True))
            place = choice if problem == "matching" else at
            self.weights[place] += 1
            paid[place] += sum(known.terms(known.right(network, said)).values())
        self.paid = paid / self.weights
        self.weights /= self.weights.sum()

    def by_lot(self) -> float:
        """What answers by lot earn."""
        return float((self.paid * self.weights).sum())

    def earned(self, seats: np.ndarray, teams: np.ndarray) -> np.ndarray:
        """What each team earns, on average over who sits where: (teams,)."""
        orders = [*permutations(range(len(self.lines)))]
        found = np.zeros(len(teams))
        for order in orders:
            choices = (
                seats[teams[:, seat], len(lines) - 1]
                for seat, lines in zip(order, self.lines, strict=True)
            )
            found += self.paid[tuple(choices)]
        return found / len(orders)


@lru_cache(maxsize=4096)
def _canonical(edges: Edges) -> Edges:
    """One graph for all that differ by who sits where."""
    nodes = 1 + max(j for _, j in edges)
    forms = (
        frozenset((min(o[i], o[j]), max(o[i], o[j])) for i, j in edges)
        for o in permutations(range(nodes))
    )
    return min(forms, key=sorted)
