"""Where rows of tokens are cut so that what they begin with is computed once.

    row 0  p p p p | a b c | d e         call 1: p p p p, once for three rows
    row 1  p p p p | a b c | f           call 2: a b c, once for two of them
    row 2  p p p p |       | g           call 3: the rest of each

All rows are cut at once. The rows are read as a tree of prefixes, and a search over its nodes finds
the cuts with which the fewest tokens are computed. A call costs something by itself, so it must
save more than that.

Owns where to cut; pure. How a model goes on from a cut is `shared_prompts.py`.

Shapes: B rows, T tokens, U different beginnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

BLANK = -1
"""Behind the end of a row; no token's id."""
CALL = 100
"""Tokens that take as long as a call by itself does, in a small model; fewer in a large one."""
CALLS = 3
"""At most."""
APART = 8
"""Tokens between two nodes of a tree, at least: answers that begin alike by chance make none."""

Chains: TypeAlias = list[tuple[int, ...]]
"""Of each row, the ends of its parts but the last."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one call of a model reads: a part of each row, those of equal rows once.

    A part begins with the last token of the part before, which is read again: what follows it is
    scored from there, and parts that go on from one may go on differently.

    Attributes:
        rows: (U,) a row that has each part.
        places: (B,) which part each row has.
        parents: (U,) which part of the call before each goes on from.
        begins: (U,) tokens from the row's beginning to the part's.
        ends: (U,) and to its end.
    """

    rows: np.ndarray
    places: np.ndarray
    parents: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @property
    def width(self) -> int:
        """Tokens of the longest part."""
        return int((self.ends - self.begins).max())


@dataclass(slots=True)
class _Node:
    """Sorted rows `first` to `last` have their first `depth` tokens in common."""

    first: int
    last: int
    depth: int
    parts: list[_Node]


def calls(rows: np.ndarray) -> list[Call]:
    """The calls that compute all tokens; one where nothing is worth sharing.

    Args:
        rows: (B, T) ids, `BLANK` behind each row's end; none is empty.
    """
    different, which = np.unique(rows, axis=0, return_inverse=True)
    which = which.reshape(-1)
    lengths = (different != BLANK).sum(1)
    tree = _tree(different, lengths)
    plans: list[list[Call]] = []
    for cuts in range(CALLS):
        _, chains = _cheapest(tree, 0, cuts)
        if max(map(len, chains)) < cuts:  # nothing more to cut
            break
        plans.append(_in_calls(rows, _ends(chains, lengths)[which]))
    return min(plans, key=lambda plan: tokens_read(plan) + CALL * len(plan))


def tokens_read(plan: Sequence[Call]) -> int:
    """Tokens that all calls read, padding included."""
    return sum(len(call.rows) * call.width for call in plan)


def seen(plan: Sequence[Call], number: int) -> np.ndarray:
    """bool, (U, C): of the columns of a call and of those before it, which its parts look at.

    Not at padding, and not at a token that is read again.
    """
    blocks, at = [], np.arange(len(plan[number].rows))
    for call in reversed(plan[: number + 1]):
        lengths = (call.ends - call.begins)[at] - (call is not plan[number])
        blocks.append(np.arange(call.width) < lengths[:, None])
        at = call.parents[at]
    return np.concatenate(blocks[::-1], axis=1)


def places_of_scores(plan: Sequence[Call], tokens: int) -> np.ndarray:
    """(B, T): where each token's score lies among those of all calls, 0 where it has none.

    A call scores all tokens of its parts but the first: (U, width - 1) numbers. They lie behind one
    another from 1 on.
    """
    column, at = np.arange(tokens), plan[-1].places
    places = np.zeros((len(at), tokens), dtype=np.int64)
    behind = 1 + sum(len(call.rows) * (call.width - 1) for call in plan)
    for call in reversed(plan):
        behind -= len(call.rows) * (call.width - 1)
        begin, end = call.begins[at][:, None], call.ends[at][:, None]
        place = behind + at[:, None] * (call.width - 1) + column - begin - 1
        places = np.where((begin < column) & (column < end), place, places)
        at = call.parents[at]
    return places


def _tree(different: np.ndarray, lengths: np.ndarray) -> _Node:
    """The tree of sorted rows, no two of them equal."""
    alike = (different[1:] != different[:-1]).argmax(1)  # tokens shared with the row before

    def node(first: int, last: int) -> _Node:
        if first == last:
            return _Node(first, last, int(lengths[first]), [])
        between = alike[first:last]
        depth = int(between.min())
        bounds = first + 1 + np.flatnonzero(between < depth + APART)
        parts = zip([first, *bounds], [*(bounds - 1), last], strict=True)
        return _Node(first, last, depth, [node(int(a), int(b)) for a, b in parts])

    return node(0, len(different) - 1)


def _cheapest(node: _Node, begin: int, cuts: int) -> tuple[int, Chains]:
    """The fewest tokens that a node's rows take from `begin` on, with so many cuts of each row."""
    if not node.parts:
        return node.depth - begin, [()]
    here = node.depth > begin and cuts > 0
    options = [(0, begin, cuts)] + [(node.depth - begin, node.depth, cuts - 1)] * here
    plans: list[tuple[int, Chains]] = []
    for tokens, at, left in options:
        chains: Chains = []
        for part in node.parts:
            more, below = _cheapest(part, at, left)
            tokens += more + (at > begin)  # what goes on from a cut reads the token before it
            chains += below if at == begin else [(at, *chain) for chain in below]
        plans.append((tokens, chains))
    return min(plans, key=lambda plan: plan[0])


def _ends(chains: Chains, lengths: np.ndarray) -> np.ndarray:
    """(B, calls) the end of each row's part of each call; every row has as many.

    A row with fewer cuts reads on, where it has none, as far as others do, for nothing is wider by
    that; else it stays.
    """
    ends = np.empty((len(chains), 1 + max(map(len, chains))), dtype=np.int64)
    ends[:, -1] = lengths
    for number in range(ends.shape[1] - 1):
        cut = max(chain[number] for chain in chains if len(chain) > number)
        for row, chain in enumerate(chains):
            own = chain[number] if len(chain) > number else ends[row, number - 1]
            ends[row, number] = own if number or chain else min(cut, lengths[row])
    return ends


def _in_calls(rows: np.ndarray, ends: np.ndarray) -> list[Call]:
    """The calls of rows that end so."""
    plan: list[Call] = []
    for cut in ends.T:
        shown = np.where(np.arange(rows.shape[1]) < cut[:, None], rows, BLANK)
        _, first, places = np.unique(shown, axis=0, return_index=True, return_inverse=True)
        parents, begins = np.zeros_like(first), np.zeros_like(first)
        if plan:
            parents = plan[-1].places[first]
            begins = plan[-1].ends[parents] - 1
        plan.append(Call(first, places.reshape(-1), parents, begins, cut[first]))
    return plan
