"""Claim 1: a mean and deviation of each agent's own prevent gradient spikes (Dr. MAS, 2602.08847).

    python -m benchmarks.claims.gradient_spikes --seeds 20

`crowd-v0`, four seats, three words, four tasks; each seat is paid its own reward (credit="own"), at
a scale of its own. Compared are `dr_mas`, `grpo_global` (one mean and deviation for all agents) and
`magrpo` (own mean, no deviation). The tabular form computes the environment's own score; a policy
is a seat's table over all tasks. SGD stands beside Adam, for Adam divides by the size of gradients
and so hides their scale.

The criterion, written before the runs on fresh seeds. In the game `tasks` (each policy has tasks of
all scales) and `seats` (each seat has one scale), SGD and Adam:

- spikes: the largest gradient norm of a policy over the median of its norms that are not 0, in one
  run; the worst policy counts. The claim holds if `dr_mas` has smaller ones than `grpo_global`
  (paired over seeds, on logarithms).
- success: every seat is right with probability 0.9 in every task at the end. The claim's purpose is
  served if more seeds succeed with `dr_mas` (Fisher).
- `equal` is the control: all scales 1, no difference is expected.
"""

# Added after the first runs, outside of the criterion: `start`, the same at a rate of 0. Where a
# seat has learned, `dr_mas` has norms of 0, which are not counted, and `grpo_global` small ones.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.claims.common import (
    Optimizer,
    Run,
    Setting,
    algorithm_of,
    begun,
    drawn,
    fresh,
    generator,
    inputs_of,
    options_of,
    paired,
    share_of,
    shares_differ,
    slopes,
    taught,
)
from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.games.right_words import score

SCALES = (1.0, 3.0, 10.0, 30.0)
GAMES: dict[str, tuple[tuple[float, ...], ...]] = {
    "equal": ((1.0,) * 4,) * 4,
    "seats": (SCALES,) * 4,
    "tasks": tuple(SCALES[i:] + SCALES[:i] for i in range(4)),
}
"""Name -> for each task the scale of each seat."""
METHODS = ("dr_mas", "grpo_global", "magrpo")
OPTIMIZERS = ("sgd", "adam")
RATES = {"sgd": (0.1, 0.3, 0.9, 2.7), "adam": (0.03, 0.1, 0.3, 0.9)}
WORDS, GROUP, UPDATES = 3, 8, 150
RIGHT = 0.9


def rewards_of(actions: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """(P, G, A, 1) of actions (P, G, A), 0 being right, and scales (P, A): as `crowd-v0` pays."""
    found = score("sum", actions == 0, (1.0,) * actions.shape[-1])
    return (found[..., None] * scales[:, None])[..., None]


def run(game: str, method: str, kind: str, updates: int, setting: Setting, seed: int) -> Run:
    """Train tables; spikes, the least probability of a right word, the mean one."""
    rng, scales = generator("spikes", game, seed), np.array(GAMES[game])
    tasks, seats = scales.shape
    logits = NOISE * rng.standard_normal((tasks, seats, WORDS))
    optimizer, algorithm = Optimizer(kind, setting["rate"]), algorithm_of(method, credit="own")
    norms = np.zeros((updates, seats))
    for update in range(updates):
        chances = np.broadcast_to(softmax(logits)[:, None], (tasks, GROUP, seats, WORDS))
        actions = drawn(chances, rng.random((tasks, GROUP, seats)))
        rewards = rewards_of(actions, scales)
        advantages = algorithm.advantages(inputs_of(rewards, rewards))
        slope = (advantages * slopes(chances, actions)).mean(1) / tasks
        norms[update] = np.sqrt((slope**2).sum((0, 2)))
        logits = logits + optimizer.step(slope)
    right = softmax(logits)[..., 0]
    return summary_of(norms, float(right.min()), float(right.mean()))


def summary_of(norms: np.ndarray, least: float, mean: float) -> Run:
    """What is kept of norms (updates, policies) and of how often words were right in the end."""
    return {
        "spike": max(spike(one) for one in norms.T),
        "least_right": round(least, 4),
        "tuned_on": round(mean, 4),
    }


def spike(norms: np.ndarray) -> float:
    """The largest over the median of those that are not 0; 1 where all are."""
    some = norms[norms > 1e-12]
    return round(float(some.max() / np.median(some)), 3) if len(some) else 1.0


def compared(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """What is reported of the runs of all methods in one game, and how `dr_mas` differs."""
    passed = {name: [one["least_right"] >= RIGHT for one in of] for name, of in runs.items()}
    spikes = {name: [float(np.log(one["spike"])) for one in of] for name, of in runs.items()}
    others = [name for name in runs if name != "dr_mas"]
    return {
        "methods": {
            name: {
                "spike": float(np.median([one["spike"] for one in of])),
                "right": float(np.mean([one["tuned_on"] for one in of])),
                "success": share_of(passed[name]),
            }
            for name, of in runs.items()
        },
        "tests": {
            **{f"spikes, {o}": paired(spikes[o], spikes["dr_mas"]) for o in others},
            **{f"success, {o}": {"p": shares_differ(passed[o], passed["dr_mas"])} for o in others},
        },
    }


def main() -> None:
    options = options_of(__doc__, "gradient_spikes")
    updates = 3 if options.quick else UPDATES
    pinned = {"updates": updates, "group": GROUP, "games": GAMES}
    record, found = begun(options, __doc__, **pinned), {}
    for kind in OPTIMIZERS:
        for game in GAMES:
            runs = {}
            for method in METHODS:
                job, name = partial(run, game, method, kind, updates), f"{kind}/{game}/{method}"
                runs[method] = taught(record, options, name, job, RATES[kind])
            found[f"{game}, {kind}"] = compared(runs)
    for game in GAMES:
        runs = {}
        for method in METHODS:
            job, name = partial(run, game, method, "sgd", updates), f"start/{game}/{method}"
            record.chosen[name] = {"rate": 0.0}
            runs[method] = fresh(record, name, options.seeds, job)
        found[f"{game}, start"] = {"methods": compared(runs)["methods"]}
    record.save(summary=found)


if __name__ == "__main__":
    main()
