"""Claim 3: counterfactual credit finds the lazy agent, also where parts cannot be separated.

    python -m benchmarks.claims.lazy_agent --seeds 20

It is said of C3 (EIT-EAST-Lab/C3) and of difference rewards (Wolpert and Tumer 2001).

`crowd-v0`, eight seats, three words, in both arms: `sum` (each seat adds its part) and `pairs` (a
right word counts only beside other right words). Compared are `magrpo`, `c3_sim` and `difference`.

Finding. The team is frozen. One seat is lazy (right with probability 0.1), three are diligent
(0.6), two are noisy (1/3), two nearly perfect (0.9). The *room* of a seat is what the team would
gain if it always said its best word: the best word's mean advantage less the mean advantage of what
it says. It needs no knowledge of right words and is defined for every algorithm. The exact room is
the slope of the score times the probability of a wrong word (`exact_rooms`), and a test compares it
with the enumeration of all joint actions. The lazy seat has the largest one in both arms.

Learning. Two seats learn; five are noisy, each with three times their weight; one is lazy, always
wrong. All sampled actions count, of frozen seats too.

Cost is counted twice: sampled `actions`, and `episodes` (calls of the score), for what `difference`
plays again samples nothing and calls the score once more.

The criterion, written before the runs on fresh seeds. In each arm, at either cost:

- found: the lazy seat has the largest estimated room of all eight. By chance: 1 of 8. The claim
  holds for a method if more seeds find it than with `magrpo` (Fisher).
- learned: the exact mean probability of the right word of both learners is larger than with
  `magrpo` (paired over seeds).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.claims.common import (
    Budgets,
    Run,
    Setting,
    WordTables,
    algorithm_of,
    begun,
    fresh,
    learn,
    options_of,
    paired,
    share_of,
    shares_differ,
    stage_of,
    taught,
    update_of,
)
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.envs.games.instances import WORDS
from llm_marl_envs.envs.games.right_words import ARMS, rights_of, slope

CHOICES = 3
RIGHT = (0.1, 0.6, 0.6, 0.6, 1 / 3, 1 / 3, 0.9, 0.9)
"""How often each seat of the frozen team is right; the first is lazy."""
LEARNERS = 2
WEIGHTS = (1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0)
"""Of the seats where two learn, five are noisy and the last is lazy."""
METHODS: dict[str, int] = {"magrpo": 8, "c3_sim": 4, "difference": 4}
"""Method -> episodes of a group, before branches."""
ALTERNATIVES = 2
COSTS = {"actions": 640, "episodes": 80}
"""What is counted -> how much a run may cost: 80 episodes of `magrpo` either way."""
CHECKED = ("0.25", "0.5", "1")
"""At which shares of the budget the lazy seat is sought; the criterion is about the last."""
RATES = (0.03, 0.1, 0.3, 0.9)
PILOTS = (0, 1, 2)
GOOD = 0.9


def chosen(method: str) -> str | dict[str, Any]:
    """The algorithm as a run names it."""
    return {"name": method, "alternatives": ALTERNATIVES} if method == "c3_sim" else method


def tables_of(rights: Sequence[int], chances: Sequence[float]) -> WordTables:
    """Seats that say their right word so often, and each wrong one as often as the other."""
    start = {}
    for seat, (right, chance) in enumerate(zip(rights, chances, strict=True)):
        logits = np.full(CHOICES, np.log(max(1 - chance, 1e-12) / (CHOICES - 1)))
        logits[right] = np.log(max(chance, 1e-12))
        start[f"member_{seat}"] = logits
    return WordTables(WORDS[:CHOICES], start)


def rights_in(kwargs: Mapping[str, Any]) -> Sequence[int]:
    """The number of each seat's right word."""
    stage = stage_of("crowd-v0", kwargs, {}, ())
    return rights_of(stage.copies.envs[0].source[0], 0)


def exact_rooms(arm: str, right: Sequence[float], weights: Sequence[float]) -> np.ndarray:
    """(n,): what the team gains if one seat alone is always right."""
    given = np.array(right)
    return slope(arm, given, weights) * (1 - given)


def rooms(judged: Sequence[tuple[str, str, float]], seats: Sequence[str]) -> np.ndarray:
    """(n,): the best word's mean advantage less the mean of all that the seat said.

    Args:
        judged: (agent, word, advantage).
        seats: in order.
    """
    found = []
    for seat in seats:
        said: dict[str, list[float]] = {}
        for agent, word, worth in judged:
            if agent == seat:
                said.setdefault(word, []).append(worth)
        means = [float(np.mean(some)) for some in said.values()]
        every = [one for some in said.values() for one in some]
        found.append(max(means) - float(np.mean(every)) if every else 0.0)
    return np.array(found)


def first_of(values: np.ndarray) -> bool:
    """Whether the first is larger than all others; a tie is none."""
    return bool(values[0] > values[1:].max())


def find(arm: str, method: str, costs: Mapping[str, int], seed: int) -> Run:
    """Judge the frozen team; cost and share of it -> whether its lazy seat has most room."""
    kwargs = {"weights": [1.0] * len(RIGHT), "arm": arm, "choices": CHOICES}
    team, seats = tables_of(rights_in(kwargs), RIGHT), [f"member_{i}" for i in range(len(RIGHT))]
    stage = stage_of("crowd-v0", kwargs, dict.fromkeys(seats, team), seats)
    algorithm = algorithm_of(chosen(method))
    amounts = {
        (c, share): int(float(share) * most) for c, most in costs.items() for share in CHECKED
    }
    budgets, update = Budgets(amounts), 0
    judged: list[tuple[str, str, float]] = []
    found: dict[str, dict[str, bool]] = {cost: {} for cost in costs}
    while budgets.left:
        one = update_of(stage, algorithm, team, METHODS[method], [derive_seed(seed, update)])
        judged, update = judged + one.judged, update + 1
        for cost, share in budgets.spent(one):
            found[cost][share] = first_of(rooms(judged, seats))
    return {"found": found, "rooms": np.round(rooms(judged, seats), 4).tolist()}


def run(arm: str, method: str, costs: Mapping[str, int], setting: Setting, seed: int) -> Run:
    """Train two learners among frozen seats; how often they are right, by cost."""
    kwargs = {"weights": list(WEIGHTS), "arm": arm, "choices": CHOICES}
    seats, rights = [f"member_{i}" for i in range(len(WEIGHTS))], rights_in(kwargs)
    team = WordTables(WORDS[:CHOICES])
    others = tables_of(rights, [1 / CHOICES] * (len(seats) - 1) + [0.0])
    both = {seat: team if seat in seats[:LEARNERS] else others for seat in seats}
    stage = stage_of("crowd-v0", kwargs, both, seats[:LEARNERS])
    algorithm = algorithm_of(chosen(method), seed=seed)
    budgets = Budgets({(cost, ""): most for cost, most in costs.items()})
    found = {}
    for cost, _ in learn(
        stage, algorithm, team, setting["rate"], (METHODS[method], 1, seed), budgets
    ):
        right = [team.chances(*key)[rights[seats.index(key[0])]] for key in sorted(team.logits)]
        found[cost] = [round(float(np.mean(right)), 4), round(float(min(right)), 4)]
    return {"right": found, "tuned_on": float(np.mean([mean for mean, _ in found.values()]))}


def compared(
    cost: str, finds: Mapping[str, Sequence[Run]], runs: Mapping[str, Sequence[Run]]
) -> dict[str, Any]:
    """How often the lazy seat is found, and what was learned; against `magrpo`."""
    seen = {name: [one["found"][cost][CHECKED[-1]] for one in of] for name, of in finds.items()}
    right = {name: [one["right"][cost][0] for one in of] for name, of in runs.items()}
    least = {name: [one["right"][cost][1] for one in of] for name, of in runs.items()}
    others = [name for name in METHODS if name != "magrpo"]
    return {
        "methods": {
            name: {
                "found": share_of(seen[name]),
                "found_at": {
                    share: float(np.mean([one["found"][cost][share] for one in finds[name]]))
                    for share in CHECKED
                },
                "right": float(np.mean(right[name])),
                "success": share_of([one >= GOOD for one in least[name]]),
            }
            for name in METHODS
        },
        "tests": {
            **{f"found, {o}": {"p": shares_differ(seen["magrpo"], seen[o])} for o in others},
            **{f"learned, {o}": paired(right["magrpo"], right[o]) for o in others},
        },
    }


def main() -> None:
    options = options_of(__doc__, "lazy_agent")
    costs = {"actions": 8, "episodes": 1} if options.quick else COSTS
    pinned = {"costs": costs, "methods": METHODS, "right": RIGHT}
    record, found = begun(options, __doc__, **pinned), {}
    for arm in ARMS:
        finds, runs = {}, {}
        for method in METHODS:
            record.chosen.setdefault(f"find/{arm}/{method}", {})
            search = partial(find, arm, method, costs)
            finds[method] = fresh(
                record, f"find/{arm}/{method}", options.seeds, lambda _, s, job=search: job(s)
            )
            job, name = partial(run, arm, method, costs), f"learn/{arm}/{method}"
            runs[method] = taught(record, options, name, job, RATES, PILOTS)
        found |= {f"{arm}, by {cost}": compared(cost, finds, runs) for cost in costs}
    record.save(summary=found)


if __name__ == "__main__":
    main()
