"""Does exploration break cooperation where seats share weights (arXiv 2601.05509)?

    python -m benchmarks.societies.exploration

The paper's shared Q-networks lose cooperation as they explore more, and separate ones do not. Here
five seats draw from the stock of `commons-v0`; each month is the last one with a chance of 0.05, so
that sharing with grim punishment is an equilibrium (up to 1/6). Seats learn by `magrpo` from their
own pay. They share one table, or have one each (`lake.py`). Exploration is the temperature at which
they act, 1, 1.3 or 1.6; what they did is scored at that temperature too. All play the same number
of episodes, and are measured at temperature 1.

From nearly uniform tables all of these learners grab (`learners.py`), so nothing could break. Each
seed begins with a society that shares ("sharing" there); the chance that a seat misses is drawn for
each seed, log-uniform from 0.005 to 0.1, and is the same in all arms.

The criterion, written before the runs on fresh seeds. Measured is, exactly, the chance that the
stock lasts to the end.

- Exploration breaks cooperation if it is lower at 1.6 than at 1, over both kinds of weights (paired
  by seed, sign flips, p at most 0.05).
- Primary: the paper's claim holds if shared weights lose more of it from 1 to 1.6 than separate
  ones: the interaction, (separate - shared) at 1.6 less (separate - shared) at 1, is above 0 with p
  at most 0.05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.claims.common import (
    Run,
    Setting,
    algorithm_of,
    begun,
    generator,
    options_of,
    paired,
    share_of,
    taught,
)
from benchmarks.societies import FOLDER
from benchmarks.societies.lake import Lake, measured, sharing
from benchmarks.societies.tables import learned
from llm_marl_envs.envs.games.landscape import softmax
from llm_marl_envs.envs.societies.stock import Rules

LAKE = Lake(Rules(seats=5, months=30, capacity=100, end=0.05), (0, 10, 20, 100))
GROUP, UPDATES, MISSES = 32, 200, (0.005, 0.1)
WEIGHTS = {"shared": 1, "separate": LAKE.n}
"""Name -> how many tables."""
TEMPERATURES = (1.0, 1.3, 1.6)
RATES = (0.02, 0.06, 0.18)
"""Not extended below: tables that hardly move are still what they began as."""
LASTS = 0.5


def run(weights: str, temperature: float, updates: int, setting: Setting, seed: int) -> Run:
    """Train the tables of a society that shares; what is left of it."""
    start, rng = generator("sharing", seed), generator("exploration", weights, temperature, seed)
    misses = float(np.exp(start.uniform(*np.log(MISSES))))
    logits = sharing(LAKE, misses, WEIGHTS[weights], start)
    how = {**setting, "updates": updates, "temperature": temperature}
    logits = learned(LAKE, logits, algorithm_of("magrpo", GROUP, credit="own"), how, rng)
    found = measured(LAKE, softmax(logits), rng)
    return {"tuned_on": found["efficiency"], "misses": round(misses, 4), **found}


def name_of(weights: str, temperature: float) -> str:
    return f"{weights}, {temperature:g}"


def compared(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Means over seeds, and the two contrasts."""
    lasts = {name: np.array([one["lasts"] for one in of]) for name, of in runs.items()}
    low, high = ([lasts[name_of(w, t)] for w in ("shared", "separate")] for t in (1.0, 1.6))
    return {
        "methods": {
            name: {
                "lasts": float(lasts[name].mean()),
                "efficiency": float(np.mean([one["efficiency"] for one in of])),
                "gini": float(np.mean([one["gini"] for one in of])),
                "kept": share_of([bool(one >= LASTS) for one in lasts[name]]),
            }
            for name, of in runs.items()
        },
        "tests": {
            "lasts, 1.6 less 1": paired(np.mean(low, 0).tolist(), np.mean(high, 0).tolist()),
            "interaction": paired((low[1] - low[0]).tolist(), (high[1] - high[0]).tolist()),
        },
    }


def main() -> None:
    options = options_of(__doc__, "exploration", FOLDER)
    updates = 2 if options.quick else UPDATES
    record = begun(options, __doc__, updates=updates, group=GROUP, misses=MISSES)
    runs = {}
    for weights in WEIGHTS:
        for temperature in TEMPERATURES:
            name, job = name_of(weights, temperature), partial(run, weights, temperature, updates)
            runs[name] = taught(record, options, name, job, RATES, downwards=False)
    record.save(summary={"commons": compared(runs)})


if __name__ == "__main__":
    main()
