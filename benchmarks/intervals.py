"""How often 95 % intervals of a success share hold the truth: a table, by simulation.

    python benchmarks/intervals.py

Three designs of an evaluation: one episode of each of 128 independent tasks; four of each, where
tasks differ in difficulty; and one of each of 128 pairs of prompts, drawn from 44 and 58, where
both prompts decide how hard a pair is (so many has coop_coding's test split). The share that an
interval should hold is the one over all tasks, or pairs of prompts, that could have been drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from llm_marl_envs.measure.numbers.estimates import (
    bootstrap_interval,
    success_interval,
    task_means,
    wilson_interval,
)

TASKS = 128
PROMPTS = (44, 58)
SPREAD = 1.0
"""Standard deviation of what tasks, or prompts, add to the log-odds of success."""
SHARES = (0.5, 0.9, 0.995)

Drawn = tuple[list[int], list[float], dict[int, tuple[object, ...]]]
"""Task and success of each episode, and what each task shares with others."""


def independent(share: float, rng: np.random.Generator) -> Drawn:
    """One episode of each task."""
    return list(range(TASKS)), (rng.random(TASKS) < share).astype(float).tolist(), {}


def repeated(share: float, rng: np.random.Generator) -> Drawn:
    """Four episodes of each task."""
    odds = log_odds(share, 1) + SPREAD * rng.standard_normal(TASKS)
    tasks = np.repeat(np.arange(TASKS), 4)
    return tasks.tolist(), succeed(odds[tasks], rng), {}


def crossed(share: float, rng: np.random.Generator) -> Drawn:
    """One episode of each pair of prompts."""
    first, second = (SPREAD * rng.standard_normal(n) for n in PROMPTS)
    pairs = rng.choice(PROMPTS[0] * PROMPTS[1], size=TASKS, replace=False)
    i, j = np.divmod(pairs, PROMPTS[1])
    solved = succeed(log_odds(share, 2) + first[i] + second[j], rng)
    return list(range(TASKS)), solved, dict(enumerate(zip(i.tolist(), j.tolist(), strict=True)))


DESIGNS: dict[str, Callable[[float, np.random.Generator], Drawn]] = {
    "independent": independent,
    "4 samples per task": repeated,
    "crossed prompts": crossed,
}


def succeed(odds: np.ndarray, rng: np.random.Generator) -> list[float]:
    """1 or 0 for each log-odds."""
    return (rng.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(float).tolist()


@lru_cache
def log_odds(share: float, effects: int) -> float:
    """The log-odds to which so many effects are added so that the mean share is `share`."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    added, low, high = SPREAD * effects**0.5 * nodes, -30.0, 30.0
    for _ in range(80):
        middle = (low + high) / 2
        found = float((weights / (1 + np.exp(-middle - added))).sum() / weights.sum())
        low, high = (middle, high) if found < share else (low, middle)
    return low


INTERVALS: dict[str, Callable[[Drawn], tuple[float, float]]] = {
    "success_interval": lambda drawn: success_interval(*drawn),
    "Wilson, as if independent": lambda drawn: wilson_interval(sum(drawn[1]), len(drawn[1])),
    "bootstrap over tasks": lambda drawn: bootstrap_interval(task_means(*drawn[:2])),
}


def coverage(design: str, share: float, interval: str, repeats: int) -> tuple[float, float]:
    """Share of simulated evaluations whose interval holds the truth, and the mean width."""
    rng = np.random.default_rng([list(DESIGNS).index(design), round(share * 1000)])
    found = [INTERVALS[interval](DESIGNS[design](share, rng)) for _ in range(repeats)]
    held = [low <= share <= high for low, high in found]
    return sum(held) / repeats, sum(high - low for low, high in found) / repeats


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    print(f"Share of {repeats} evaluations whose interval holds the truth (mean width)\n")
    print("| design | true share | " + " | ".join(INTERVALS) + " |")
    print("|---|---|" + "---|" * len(INTERVALS))
    for design in DESIGNS:
        for share in SHARES:
            cells = [coverage(design, share, interval, repeats) for interval in INTERVALS]
            shown = " | ".join(f"{held:.3f} ({width:.3f})" for held, width in cells)
            print(f"| {design} | {share} | {shown} |")


if __name__ == "__main__":
    main()
