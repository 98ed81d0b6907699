"""How often one who knows a single part can be right, where that takes counting: two exact sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations


@lru_cache(maxsize=64)
def of_counts(places: int, parts: int, totals: tuple[tuple[int, int], ...], shown: int) -> float:
    """Over own counts, choices and lures: the most likely of the choices that are left.

    All totals are asked for, all counts of a total, all other choices and all lures are drawn
    equally often.

    Args:
        places: in each group.
        parts: groups.
        totals: what may be asked for: (total, what it is misread as).
        shown: how many of them are among the choices.
    """
    rest, whole = ways(places, parts - 1), ways(places, parts)
    listed = list(combinations(totals, shown))
    right = 0.0
    for choices in listed:
        for lured in choices:  # then neither the lure nor what it is misread as is right
            left = [total for pair in choices if pair != lured for total in pair]
            for own in range(places + 1):
                best = max(rest[total - own] / whole[total] for total in left)
                right += best / len(left) / len(choices)
    return right / len(listed)


def ways(places: int, groups: int) -> Counter[int]:
    """Total of some groups -> in how many ways they come to it."""
    counts = Counter({0: 1})
    for _ in range(groups):
        grown: Counter[int] = Counter()
        for total, count in counts.items():
            for more in range(places + 1):
                grown[total + more] += count
        counts = grown
    return counts


@lru_cache(maxsize=64)
def of_ranks(each: int, parts: int) -> float:
    """Over the places that `each` pairs and the lure can have in the chain.

    People are numbered along the chain, 0 is the first. Two cases look alike if their runs of
    linked people have the same lengths and the lure has the same place: names carry no information.
    Within a look, guesses that differ by names only are one guess, right in one of so many.
    """
    length = each * parts + 1
    looks: dict[object, Counter[object]] = {}
    cases = 0
    for places in combinations(range(length - 1), each):
        runs = _runs(places)
        linked = {person for run in runs for person in run}
        for lure in range(1, length - 1):
            cases += 1
            seen = [(len(run), run.index(lure) if lure in run else -1) for run in runs]
            guess: object = "unlinked"
            alike = length - len(linked) - (lure not in linked)
            if 0 in linked:  # then it heads the run that holds it
                head = next(i for i, run in enumerate(runs) if run[0] == 0)
                guess, alike = seen[head], seen.count(seen[head])
            guesses = looks.setdefault((tuple(sorted(seen)), lure in linked), Counter())
            guesses[guess] += 1 / alike  # type: ignore[assignment]
    return sum(max(guesses.values()) for guesses in looks.values()) / cases


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Chains of people linked by pairs (place, place + 1)."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place:
            runs[-1].append(place + 1)
        else:
            runs.append([place, place + 1])
    return runs
