"""Tasks of networks: graphs, names and values by split, rows.

Every prompt names the node that reads it, and no two splits share a name or a value. So splits are
disjoint by what is asked and by every prompt, though small networks have few graphs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from llm_marl_envs.core.tasks import IndexedSource, Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.networks.graphs import (
    FAMILIES,
    Edges,
    distances,
    drawn,
    neighbours_of,
    tree_and_chords,
)
from llm_marl_envs.envs.networks.problems import PROBLEMS, Network

MIXED = "mixed"
SIZES = {"train": 3000, "val": 300, "test": 600, "ood": 300}
"""How many tasks a split has."""
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
RESIDUES = {"train": range(7), "val": range(7, 8), "test": range(8, 10), "ood": range(10)}
"""Sums of a name's syllables, or of a value's digits, modulo 10, that a split has."""
LONG = {"train": (3, 5), "val": (3, 5), "test": (3, 5), "ood": (4, 6)}
"""Syllables of the names and digits of the values of a split."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,19}")
VALUE = re.compile(r"[1-9][0-9]{0,9}")


class NetworkSource(IndexedSource):
    """Generated networks; problems take turns, then families.

    Args:
        split: a split of `SIZES`.
        nodes: of every network.
        problem: a problem, or "mixed" for all five.
        family: a family of graphs, or "mixed" for all three; `ood` has one of its own.
    """

    endless = True

    def __init__(self, split: str, nodes: int, problem: str, family: str) -> None:
        super().__init__(split)
        self.nodes = nodes
        self.problems = [*PROBLEMS] if problem == MIXED else [problem]
        self.families = [*FAMILIES] if family == MIXED else [family]

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """The task of an index."""
        problem = self.problems[index % len(self.problems)]
        family = self.families[index // len(self.problems) % len(self.families)]
        rng = random.Random(hash_of(f"network/{self.nodes}/{problem}/{family}/{task_id}"))
        made = tree_and_chords if self.split == "ood" else FAMILIES[family]
        data = network_data(self.nodes, drawn(made, self.nodes, rng), self.split, rng)
        return Task(task_id, self.split, {"problem": problem, **data})


@lru_cache(maxsize=64)
def procedural(split: str, nodes: int, problem: str, family: str) -> NetworkSource:
    """One source per process, which copies of an environment share."""
    return NetworkSource(split, nodes, problem, family)


def network_data(nodes: int, edges: Edges, split: str, rng: random.Random) -> dict[str, Any]:
    """A network as a task holds it: nodes sit anywhere, lines, names and values are by lot."""
    seats = rng.sample(range(nodes), nodes)
    lines = neighbours_of(nodes, [(seats[i], seats[j]) for i, j in edges])
    for neighbours in lines:
        rng.shuffle(neighbours)
    syllables, digits = LONG[split]
    return {
        "lines": tuple(map(tuple, lines)),
        "names": tuple(_different(nodes, split, len(SYLLABLES), syllables, rng)),
        "values": tuple(_different(nodes, split, 10, digits, rng)),
    }


def _different(nodes: int, split: str, letters: int, length: int, rng: random.Random) -> list[str]:
    """So many different names (70 letters, which are syllables) or values (10 digits)."""
    texts: dict[str, None] = {}
    while len(texts) < nodes:
        first = rng.randrange(1, letters) if letters == 10 else rng.randrange(letters)
        word = [first, *(rng.randrange(letters) for _ in range(length - 1))]
        if sum(word) % 10 in RESIDUES[split]:
            text = "".join(map(str, word) if letters == 10 else (SYLLABLES[at] for at in word))
            texts[text.capitalize()] = None
    return list(texts)


def chance(split: str, nodes: int, problem: str) -> float:
    """How likely a given name, or value, of a split is one of the nodes'."""
    syllables, digits = LONG[split]
    every = len(SYLLABLES) ** syllables if problem == "leader" else 9 * 10 ** (digits - 1)
    return nodes / (every * len(RESIDUES[split]) // 10)  # the last letter makes sums uniform


def network_of(task: Task) -> Network:
    """The network of a task."""
    return Network(task.data["lines"], task.data["names"], task.data["values"])


def task_of_row(row: Row, nodes: int) -> Task:
    """The task of a row: `problem`, `edges`; perhaps `names`, `values`, `id`, `split`.

    Raises:
        ValueError: no such problem, or no connected network of so many nodes.
    """
    problem = row.get("problem")
    if not isinstance(problem, str) or problem not in PROBLEMS:
        raise ValueError(f"problem={problem!r:.200}: expected one of {tuple(PROBLEMS)}")
    edges = _edges_of(row, nodes)
    key = f"{problem}/{sorted(edges)}/{row.get('names')}/{row.get('values')}"
    split = split_of_row(row, key)
    otherwise = network_data(nodes, edges, split, random.Random(hash_of(key)))
    network = {
        "lines": tuple(map(tuple, neighbours_of(nodes, edges))),
        "names": _texts_of(row, "names", NAME, otherwise["names"]),
        "values": _texts_of(row, "values", VALUE, otherwise["values"]),
    }
    return Task(
        str(row.get("id") or f"row-{hash_of(key):016x}"), split, {"problem": problem, **network}
    )


def _edges_of(row: Row, nodes: int) -> Edges:
    entry: Any = row.get("edges")
    pairs = [*entry] if isinstance(entry, (list, tuple)) else []
    whole = all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs)
    valid = whole and all(type(i) is int and 0 <= i < nodes for pair in pairs for i in pair)
    edges = frozenset((min(pair), max(pair)) for pair in pairs) if valid else frozenset()
    joined = edges and -1 not in distances(neighbours_of(nodes, edges), 0)
    if not joined or any(i == j for i, j in edges):
        raise ValueError(
            f"edges={entry!r:.100}: expected pairs of different nodes from 0 to {nodes - 1} that "
            f"join all {nodes}; the argument `nodes` says how many there are"
        )
    return edges


def _texts_of(
    row: Row, key: str, form: re.Pattern[str], otherwise: Sequence[str]
) -> tuple[str, ...]:
    entry: Any = row.get(key)
    if entry is None:
        return tuple(otherwise)
    texts = [str(text) for text in entry] if isinstance(entry, (list, tuple)) else []
    fit = len(texts) == len(otherwise) and all(map(form.fullmatch, texts))
    if not fit or (key == "names" and len({text.casefold() for text in texts}) < len(texts)):
        raise ValueError(
            f"{key}={entry!r:.100}: expected {len(otherwise)} of the form {form.pattern}, names "
            "different from each other"
        )
    return tuple(texts)


def check_size(task: Task, nodes: int) -> Mapping[str, Any]:
    """The data of a task; raises `ValueError` where its network has another number of nodes."""
    if len(task.data["lines"]) != nodes:
        raise ValueError(
            f"task {task.id!r:.200} has {len(task.data['lines'])} nodes, and the environment "
            f"{nodes}; make the environment with that number of `nodes`"
        )
    return task.data
