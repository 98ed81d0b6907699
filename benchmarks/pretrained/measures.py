"""What the plan asks of the matrix of pairings: partners, strangers, and what chance would give.

A matrix has a row for each team's helper and a column for each team's main; `warm` names the warm
start of each team. All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def partners(matrix: Matrix) -> Matrix:
    """What each team has with its own partner, (n,)."""
    return np.diag(matrix)


def strangers(matrix: Matrix, warm: Sequence[int]) -> dict[int, Matrix]:
    """Warm start -> pairings of teams of that warm start that were not trained together."""
    return {
        one: np.array([matrix[i, j] for i, j in _pairs(warm) if warm[i] == warm[j] == one])
        for one in dict.fromkeys(warm)
    }


def foreigners(matrix: Matrix, warm: Sequence[int]) -> dict[tuple[int, int], Matrix]:
    """Pair of warm starts -> pairings of a seat of one with a seat of the other."""
    return {
        pair: np.array([matrix[i, j] for i, j in _pairs(warm) if {warm[i], warm[j]} == {*pair}])
        for pair in combinations(dict.fromkeys(warm), 2)
    }


def inherited(matrix: Matrix, warm: Sequence[int]) -> float:
    """Mean of strangers of the same warm start minus mean of pairings across warm starts."""
    near = np.concatenate([*strangers(matrix, warm).values()])
    far = np.concatenate([*foreigners(matrix, warm).values()])
    return float(near.mean() - far.mean())


def regroupings(warm: Sequence[int]) -> Iterator[list[int]]:
    """Every way to deal teams to warm starts of equal sizes, names aside; nine to three: 280."""
    sizes = Counter(warm)
    if len({*sizes.values()}) > 1:
        raise ValueError(f"warm starts with unlike numbers of teams: {dict(sizes)}")
    for groups in _groups(range(len(warm)), len(warm) // len(sizes)):
        of_team = {team: number for number, group in enumerate(groups) for team in group}
        yield [of_team[team] for team in range(len(warm))]


def _groups(left: Sequence[int], size: int) -> Iterator[list[tuple[int, ...]]]:
    if not left:
        yield []
        return
    first, *others = left
    for members in combinations(others, size - 1):
        rest = [one for one in others if one not in members]
        for more in _groups(rest, size):
            yield [(first, *members), *more]


def inherited_p(matrix: Matrix, warm: Sequence[int]) -> float:
    """Share of regroupings in which strangers of a group agree at least as much more."""
    true = inherited(matrix, warm)
    found = [inherited(matrix, groups) for groups in regroupings(warm)]
    return float(np.mean([one >= true - 1e-12 for one in found]))


def _pairs(warm: Sequence[int]) -> list[tuple[int, int]]:
    n = range(len(warm))
    return [(i, j) for i in n for j in n if i != j]


def own_minus_stranger(matrix: Matrix, warm: Sequence[int]) -> float:
    """The primary statistic: mean of partners minus mean of strangers of the same warm start."""
    others = np.concatenate([*strangers(matrix, warm).values()])
    return float(partners(matrix).mean() - others.mean())


def arrangements(warm: Sequence[int]) -> Iterator[list[int]]:
    """Every way to deal mains to helpers within warm starts; the first is the true one."""
    groups = [[i for i, one in enumerate(warm) if one == group] for group in dict.fromkeys(warm)]
    for dealt in product(*(permutations(group) for group in groups)):
        order = [0] * len(warm)
        for group, mains in zip(groups, dealt, strict=True):
            for helper, main in zip(group, mains, strict=True):
                order[helper] = main
        yield order


def permutation_p(matrix: Matrix, warm: Sequence[int]) -> float:
    """Share of arrangements whose statistic is at least that of the true one."""
    found = [own_minus_stranger(matrix[:, order], warm) for order in arrangements(warm)]
    return float(np.mean([one >= found[0] - 1e-12 for one in found]))


Follows = Mapping[Hashable, str | None]
"""Place -> interface that a text follows."""


def constants(helper: Follows, main: Follows, kinds: Mapping[Hashable, str]) -> float:
    """Agreement if each seat always took its commonest interface of a kind."""
    first, second = (_shares(seat, kinds) for seat in (helper, main))
    agree = {kind: _commonest(first[kind]) == _commonest(second[kind]) != "" for kind in first}
    return float(np.mean([agree[kinds[place]] for place in helper]))


def marginals(helper: Follows, main: Follows, kinds: Mapping[Hashable, str]) -> float:
    """Agreement if each seat drew its interface by lot from its own shares of a kind."""
    first, second = (_shares(seat, kinds) for seat in (helper, main))
    chance = {
        kind: sum(share * second[kind].get(one, 0.0) for one, share in shares.items() if one)
        for kind, shares in first.items()
    }
    return float(np.mean([chance[kinds[place]] for place in helper]))


def _commonest(shares: Mapping[str, float]) -> str:
    return max(sorted(one for one in shares if one), key=shares.__getitem__, default="")


def _shares(seat: Follows, kinds: Mapping[Hashable, str]) -> dict[str, dict[str, float]]:
    """Kind -> interface ("" for none) -> its share of the seat's texts."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds.values()}
    for place, one in seat.items():
        counts[kinds[place]][one or ""] += 1
    return {
        kind: {one: n / count.total() for one, n in count.items()} for kind, count in counts.items()
    }
