"""Connected random graphs of four families, and what is measured in a graph. Pure functions.

Owns who is joined to whom. Which seat stands where, and what a node is called, is decided in
`network_tasks.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

Edges = frozenset[tuple[int, int]]
"""Pairs (i, j) with i < j of nodes that are joined."""
Family = Callable[[int, random.Random], Edges]
"""(nodes, at least 4; generator) -> edges."""
Neighbours = Sequence[Sequence[int]]
"""The neighbours of each node."""
REWIRED = 0.4
"""Probability that an edge of a small world is moved."""


def small_world(nodes: int, rng: random.Random) -> Edges:
    """A ring with chords to the second next, edges moved at random (Watts and Strogatz 1998).

    Below 8 nodes a ring without chords. Drawn again until it is connected.
    """
    reach = 2 if nodes >= 8 else 1
    while True:
        edges = {_pair(i, (i + j) % nodes) for j in range(1, reach + 1) for i in range(nodes)}
        for edge in sorted(edges):
            free = [k for k in range(nodes) if k != edge[0] and _pair(edge[0], k) not in edges]
            if free and rng.random() < REWIRED:
                edges = (edges - {edge}) | {_pair(edge[0], rng.choice(free))}
        if -1 not in distances(neighbours_of(nodes, edges), 0):
            return frozenset(edges)


def scale_free(nodes: int, rng: random.Random) -> Edges:
    """Each new node is joined to two, likelier to those with many (Barabasi and Albert 1999)."""
    edges = [(0, 1), (0, 2)]
    for new in range(3, nodes):
        ends = [end for edge in edges for end in edge]
        first = rng.choice(ends)
        second = rng.choice([end for end in ends if end != first])
        edges += [(first, new), (second, new)]
    return frozenset(edges)


def delaunay(nodes: int, rng: random.Random) -> Edges:
    """The Delaunay triangulation of points in a square."""
    from scipy.spatial import Delaunay  # here: importing an environment must be quick

    corners = Delaunay([[rng.random(), rng.random()] for _ in range(nodes)]).simplices.tolist()
    return frozenset(_pair(i, j) for corner in corners for i, j in combinations(corner, 2))


def tree_and_chords(nodes: int, rng: random.Random) -> Edges:
    """A random recursive tree, and chords at random, one for two nodes beyond the second."""
    tree = {(rng.randrange(new), new) for new in range(1, nodes)}
    chords = sorted(set(combinations(range(nodes), 2)) - tree)
    return frozenset(tree | set(rng.sample(chords, (nodes - 2) // 2)))


FAMILIES: dict[str, Family] = {
    "small_world": small_world,
    "scale_free": scale_free,
    "delaunay": delaunay,
}


def drawn(family: Family, nodes: int, rng: random.Random) -> Edges:
    """A graph of a family, never with all edges if it has 4 nodes or more.

    Three nodes have two edges or three, two have one, whatever the family.
    """
    every = frozenset(combinations(range(nodes), 2))
    if nodes < 4:
        return every if nodes == 2 or rng.random() < 0.5 else every - {(0, 2)}
    while (edges := family(nodes, rng)) == every:
        pass
    return edges


def neighbours_of(nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The neighbours of each node, in rising order."""
    neighbours: list[list[int]] = [[] for _ in range(nodes)]
    for i, j in sorted(edges):
        neighbours[i].append(j)
        neighbours[j].append(i)
    return [sorted(own) for own in neighbours]


def distances(neighbours: Neighbours, start: int) -> list[int]:
    """Fewest edges from `start` to each node; -1: there is no way."""
    steps = [-1] * len(neighbours)
    steps[start] = 0
    order = [start]  # grows while it is gone through
    for i in order:
        for j in neighbours[i]:
            if steps[j] < 0:
                steps[j] = steps[i] + 1
                order.append(j)
    return steps


def diameter(neighbours: Neighbours) -> int:
    """The largest distance of two nodes of a connected graph."""
    return max(max(distances(neighbours, start)) for start in range(len(neighbours)))


def _pair(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i < j else (j, i)
