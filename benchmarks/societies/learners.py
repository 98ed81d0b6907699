"""Three learners on tables in the commons: paid alone, paid together, and aligned.

    python -m benchmarks.societies.learners

`commons-v0` as its page has it: five seats, a stock of 100, twelve months, without talk. Seats name
0, 10, 20 or everything; a seat is a table (`lake.py`). Compared are `magrpo` with credit="own"
(naive), `magrpo` with credit="team" (sum) and `advantage_alignment` (aligned), each from nearly
uniform tables ("any") and from tables of a society that shares ("sharing": each seat takes 10 from
a full lake with a chance of 0.99, and everything once somebody took too much).

The criterion, written before the runs on fresh seeds. Efficiency is exact: pay in the mean over
seats, as a share of the social optimum, 130 units. Exact numbers predict:

- naive learners from any start end at the grabbing equilibrium, 20 units: efficiency within 0.02 of
  20 / 130 in each of 20 seeds.
- learners that are paid the sum end at the optimum: at least 0.95 in each of 20 seeds.
- The claim of advantage alignment (arXiv 2511.19405) holds if from any start the stock of aligned
  learners lasts to the end with a chance of one half or more in more seeds than that of naive ones
  (Fisher, p at most 0.05).

From the sharing start nothing is predicted; the numbers are reported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.claims.common import (
    Record,
    Run,
    Setting,
    algorithm_of,
    begun,
    generator,
    options_of,
    share_of,
    shares_differ,
    taught,
)
from benchmarks.societies import FOLDER
from benchmarks.societies.lake import Lake, measured, sharing
from benchmarks.societies.tables import Game, Table, learned
from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.societies.stock import Rules

LAKE = Lake(Rules(seats=5, months=12, capacity=100), (0, 10, 20, 100))
GROUP, UPDATES, MISSES = 32, 200, 0.01
METHODS: dict[str, tuple[str, Any]] = {
    "naive": ("own", "magrpo"),
    "sum": ("team", "magrpo"),
    "aligned": ("own", {"name": "advantage_alignment", "weight": 0.5}),
}
"""Name -> whose rewards, and the algorithm; the weight is the paper's in the dilemma."""
STARTS = ("any", "sharing")
RATES = (0.02, 0.06, 0.18)
"""Not extended below: tables that hardly move are still what they began as."""
GRABBING, NEAR, OPTIMAL, LASTS = 20 / 130, 0.02, 0.95, 0.5


def taught_by(
    method: str, game: Game, logits: Table, how: Setting, rng: np.random.Generator
) -> Table:
    """The logits of a society after it learned by a method."""
    credit, chosen = METHODS[method]
    return learned(game, logits, algorithm_of(chosen, GROUP, credit=credit), how, rng)


def arms(
    record: Record,
    options: argparse.Namespace,
    starts: Iterable[str],
    job: Callable[[str, str, Setting, int], Run],
    rates: Sequence[float],
) -> dict[str, dict[str, list[Run]]]:
    """Start -> method -> the runs on fresh seeds; each rate is chosen on pilot seeds."""
    return {
        start: {
            method: taught(
                record,
                options,
                f"{start}/{method}",
                partial(job, method, start),
                rates,
                downwards=False,
            )
            for method in METHODS
        }
        for start in starts
    }


def means_of(runs: Sequence[Run], keys: Iterable[str]) -> dict[str, Any]:
    """Means over seeds, and the span of efficiency."""
    span = [float(pick(one["efficiency"] for one in runs)) for pick in (min, max)]
    return {**{key: float(np.mean([one[key] for one in runs])) for key in keys}, "span": span}


def run(updates: int, method: str, start: str, setting: Setting, seed: int) -> Run:
    """Train five tables; what they are worth."""
    rng = generator("societies", start, seed)
    logits = sharing(LAKE, MISSES, LAKE.n, rng)
    if start == "any":
        logits = NOISE * rng.standard_normal(logits.shape)
    logits = taught_by(method, LAKE, logits, {**setting, "updates": updates}, rng)
    found = measured(LAKE, softmax(logits), rng)
    return {"tuned_on": found["efficiency"], **found}


def compared(start: str, runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Means and ranges over seeds; from any start also what the criterion says."""
    lasting = {name: [one["lasts"] >= LASTS for one in of] for name, of in runs.items()}
    found: dict[str, Any] = {"methods": {}}
    for name, of in runs.items():
        means = means_of(of, ("efficiency", "survival", "gini", "gap"))
        found["methods"][name] = {**means, "lasts": share_of(lasting[name])}
    if start == "any":
        worth = {name: [one["efficiency"] for one in of] for name, of in runs.items()}
        p = shares_differ(lasting["naive"], lasting["aligned"])
        more = sum(lasting["aligned"]) > sum(lasting["naive"])
        found["tests"] = {"the stock lasts, aligned more than naive": {"p": p}}
        found["holds"] = {
            "naive grabs": all(abs(one - GRABBING) <= NEAR for one in worth["naive"]),
            "sum is optimal": min(worth["sum"]) >= OPTIMAL,
            "aligned lasts": more and p <= 0.05,
        }
    return found


def main() -> None:
    options = options_of(__doc__, "learners", FOLDER)
    updates = 2 if options.quick else UPDATES
    record = begun(options, __doc__, updates=updates, group=GROUP, misses=MISSES)
    runs = arms(record, options, STARTS, partial(run, updates), RATES)
    record.save(summary={start: compared(start, of) for start, of in runs.items()})


if __name__ == "__main__":
    main()
