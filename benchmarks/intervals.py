"""How often 95 % intervals hold the truth, and how often a test finds a difference that is none.

    python benchmarks/intervals.py

By simulation, with the functions that `llm-marl eval`, `compare` and the diagnosis use:

- evaluations of the first tasks of coop_coding's `test`, `test_prompts` and `ood`, in pairs of two
  teams that are alike in law. Both prompts of a task move the log-odds of its success; with 3 a
  convention decides a prompt. What should be held is the mean over all prompts that could have been
  drawn, and a difference of 0;
- independent tasks, few of them, with shares near 1;
- training runs, three to eight a side;
- logs of a training that learns nothing, whose entries resemble their neighbours.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import numpy as np

from llm_marl_envs import make
from llm_marl_envs.measure.numbers import compare as comparing
from llm_marl_envs.measure.numbers.diagnosis import History, Stretch
from llm_marl_envs.measure.numbers.estimates import over_tasks

SPLITS = ("test", "test_prompts", "ood")
TASKS = 128
EFFECTS = (0.0, 1.0, 3.0)
"""Standard deviations of what a prompt adds to the log-odds of success."""
SHARES = (0.5, 0.9, 0.97)
FEW = ((8, 0.5), (8, 0.9), (8, 0.97), (16, 0.9), (32, 0.97), (32, 0.995), (64, 0.9), (128, 0.995))
UNSOLVED = 0.1
"""Return of an episode that did not solve its task; one that did has 1."""
LOGS = (0.0, 0.3, 0.6, 0.9)
"""Correlations of an entry of a log with the one before."""
DRAWS = 1000
"""Sign flips of a simulated comparison: fewer than the product's, which are slow."""

Counted = dict[str, tuple[float, float]]
"""What is counted -> (share of simulations in which it was so, mean width of its interval)"""


class Counts:
    """How often intervals hold what they should, and how wide they are."""

    def __init__(self) -> None:
        self.held: dict[str, list[bool]] = defaultdict(list)
        self.width: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, ci95: tuple[float, float] | None, truth: float) -> None:
        """One interval; none at all holds nothing."""
        low, high = ci95 or (1.0, 0.0)
        self.held[name].append(low - 1e-9 <= truth <= high + 1e-9)
        self.width[name].append(high - low)

    def means(self) -> Counted:
        """Name -> the share that held, and the mean width."""
        return {
            name: (float(np.mean(held)), float(np.mean(self.width[name])))
            for name, held in self.held.items()
        }


# -- tasks that share prompts ---------------------------------------------------------------------
@cache
def design(split: str, tasks: int = TASKS) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """The prompts of a split's first tasks, and the best return of one seat alone on each."""
    env = make("coop_coding-v0", split=split)
    first = [env.source[index] for index in range(tasks)]
    return [env.clusters(task) for task in first], np.array([env.bounds(t).solo for t in first])


def evaluations(
    split: str, effect: float, share: float, repeats: int, tasks: int = TASKS
) -> Iterator[np.ndarray]:
    """Successes, 0 or 1, of teams whose prompts are hard or easy by an effect of their own."""
    keys, _ = design(split, tasks)
    rng = np.random.default_rng([SPLITS.index(split), round(effect), round(share * 1000), tasks])
    ways = [np.unique(way, return_inverse=True)[1] for way in zip(*keys, strict=True)]
    odds = log_odds(share, effect * len(ways) ** 0.5)
    for _ in range(repeats):
        added = sum(effect * rng.standard_normal(way.max() + 1)[way] for way in ways)
        yield (rng.random(tasks) < 1 / (1 + np.exp(-odds - added))).astype(float)


@cache
def log_odds(share: float, spread: float) -> float:
    """The log-odds to which normal effects are added so that the mean share is `share`."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    low, high = -60.0, 60.0
    for _ in range(90):
        middle = (low + high) / 2
        found = float((weights / (1 + np.exp(-middle - spread * nodes))).sum() / weights.sum())
        low, high = (middle, high) if found < share else (low, middle)
    return low


def crossed(split: str, effect: float, share: float, repeats: int, tasks: int = TASKS) -> Counted:
    """What holds of pairs of teams alike in law; `rejected` is the share with p of 0.05 or less."""
    keys, solo = design(split, tasks)
    clusters = {str(place): key for place, key in enumerate(keys)}
    team = np.flatnonzero(solo < 1)  # the index is of tasks that need one
    needing = [keys[place] for place in team]
    truth, counts = UNSOLVED + (1 - UNSOLVED) * share, Counts()
    drawn = evaluations(split, effect, share, 2 * repeats, tasks)
    for solved, other in zip(drawn, drawn, strict=True):
        returns = UNSOLVED + (1 - UNSOLVED) * solved
        counts.add("success", over_tasks(solved, keys).ci95, share)
        counts.add("return", over_tasks(returns, keys).ci95, truth)
        index, at = (((x - solo[team]) / (1 - solo[team])) for x in (returns[team], truth))
        counts.add("index", over_tasks(index, needing).ci95, float(np.mean(at)))
        sides = ({str(i): float(x) for i, x in enumerate(side)} for side in (solved, other))
        a, b = ([side] for side in sides)
        found = comparing.compare(a, b, metric="success", clusters=clusters)
        counts.add("difference", found.ci95, 0.0)
        counts.add("rejected", (0.0, 0.0) if (found.p or 0.0) <= 0.05 else None, 0.0)
    return counts.means()


# -- independent tasks, runs, logs ----------------------------------------------------------------
def independent(tasks: int, share: float, repeats: int) -> Counted:
    """Success, and a return that a price lowers a little now and then, of independent tasks."""
    rng, counts = np.random.default_rng([tasks, round(share * 1000)]), Counts()
    for _ in range(repeats):
        solved = (rng.random(tasks) < share).astype(float)
        price = 0.02 * (rng.random(tasks) < 0.2)
        counts.add("success", over_tasks(solved).ci95, share)
        returns = np.where(solved > 0, 1 - price, UNSOLVED)
        counts.add("return", over_tasks(returns).ci95, share * 0.996 + (1 - share) * UNSOLVED)
    return counts.means()


def samples(share: float, repeats: int, tasks: int = TASKS) -> Counted:
    """Four episodes of each task; tasks differ in difficulty by 1 log-odds."""
    rng, counts = np.random.default_rng(round(share * 1000)), Counts()
    for _ in range(repeats):
        odds = log_odds(share, 1.0) + rng.standard_normal(tasks)
        solved = rng.random((4, tasks)) < 1 / (1 + np.exp(-odds))
        counts.add("success", over_tasks(solved.mean(axis=0)).ci95, share)
    return counts.means()


def runs(count: int, repeats: int, tasks: int = 32) -> Counted:
    """So many runs a side, alike in law, that differ from each other by 0.1."""
    rng, counts = np.random.default_rng(count), Counts()
    names = [str(i) for i in range(tasks)]
    for _ in range(repeats):
        sides = 0.1 * rng.standard_normal((2, count, 1)) + rng.normal(0.5, 0.2, (2, count, tasks))
        a, b = ([dict(zip(names, run, strict=True)) for run in side.tolist()] for side in sides)
        found = comparing.compare(a, b)
        counts.add("difference", found.ci95, 0.0)
        counts.add("rejected", (0.0, 0.0) if (found.p or 0.0) <= 0.05 else None, 0.0)
    return counts.means()


def improved(correlation: float, repeats: int, updates: int = 200) -> float:
    """How often a log of two numbers that rise nowhere is called improved."""
    rng, found = np.random.default_rng(round(correlation * 10)), 0
    for _ in range(repeats):
        noise = rng.standard_normal((2, updates))
        noise[:, 1:] *= (1 - correlation**2) ** 0.5
        for at in range(1, updates):
            noise[:, at] += correlation * noise[:, at - 1]
        # Both come of the same episodes.
        pairs = zip(noise[0], 0.8 * noise[0] + 0.6 * noise[1], strict=True)
        log = [{"reward": float(x), "success": float(y)} for x, y in pairs]
        wide = updates // 4
        found += History(Stretch(log), Stretch(log[:wide]), Stretch(log[-wide:])).improved
    return found / repeats


# -- the page's table -----------------------------------------------------------------------------
def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    comparing.MAX_EXACT = DRAWS
    print(f"{repeats} simulations each: share that holds (mean width)\n")
    head = ["success", "return", "index", "difference", "rejected"]
    print(f"| split | prompts add | share | {' | '.join(head)} |\n|{'---|' * (len(head) + 3)}")
    for split in SPLITS:
        for effect in EFFECTS:
            for share in SHARES:
                print(_line([split, effect, share], crossed(split, effect, share, repeats), head))
    print("\n| tasks | share | success | return |\n|---|---|---|---|")
    for tasks, share in FEW:
        print(_line([tasks, share], independent(tasks, share, repeats), ["success", "return"]))
    print("\n| samples | share | success |\n|---|---|---|")
    for share in SHARES:
        print(_line([4, share], samples(share, repeats), ["success"]))
    print("\n| runs a side | difference | rejected |\n|---|---|---|")
    for count in (3, 5, 8):
        print(_line([count], runs(count, repeats), ["difference", "rejected"]))
    print("\n| correlation of the log | called improved |\n|---|---|")
    for correlation in LOGS:
        print(f"| {correlation} | {improved(correlation, repeats):.3f} |")


def _line(about: list[object], found: Counted, names: list[str]) -> str:
    cells = [
        f"{held:.3f}" if name == "rejected" else f"{held:.3f} ({width:.3f})"
        for name in names
        for held, width in [found[name]]
    ]
    return f"| {' | '.join([*map(str, about), *cells])} |"


if __name__ == "__main__":
    main()
