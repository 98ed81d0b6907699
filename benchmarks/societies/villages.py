"""Do sharers survive among strategy texts where learners lose them? Selection in villages.

    python -m benchmarks.societies.villages

Twenty texts, each the name of a script of `commons-v0`: some say `grabber`, the others `sharer`. In
each of ten generations they are dealt into four villages of five, play twelve months without talk
in the environment itself, and the better half survives (`generations.py`). A scripted writer writes
the others anew: it copies a survivor drawn at random, or, with a chance of 0.05, one of both names.

`chain` has the exact distribution of the number of grabbers in each generation, over all ways to
deal villages; the pay of scripts is that of `stock_responses.py`.

The criterion, written before the runs. 100 populations for each start, 2, 5 and 10 grabbers.

- The engine is right: in every generation and from every start the mean share of grabbers is within
  4 standard errors of the chain's; and in `stag_hunt`, with 200 texts, 0.7 of which hunt the stag,
  one step of proportional selection is within 4 of the replicator's.
- Selection keeps sharing if from 5 grabbers of 20 grabbers are at most a half in the last
  generation in more than half of the populations, by the chain.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.common import FIRST, Run, begun, options_of
from benchmarks.societies import FOLDER
from benchmarks.societies.generations import Evolution, generations
from llm_marl_envs import make
from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.envs.games.matrix_game import words_of
from llm_marl_envs.envs.games.matrix_rules import GAMES
from llm_marl_envs.envs.societies.stock import Rules
from llm_marl_envs.envs.societies.stock_responses import meeting
from llm_marl_envs.envs.societies.stock_scripts import GRABBER, SHARER, Script
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

PLANS = (SHARER, GRABBER)
RULES = Rules(seats=5, months=12, capacity=100)
TEXTS, COUNT, ANEW = 20, 10, 0.05
STARTS = (2, 5, 10)
PAIRS, STAGS = 200, 0.7
"""Texts in `stag_hunt`, and the first share of those that hunt the stag."""
QUOTED = re.compile(rf"^{re.escape(QUOTE)}(.*)$", re.M)


# -- exact ---------------------------------------------------------------------------------------
@cache
def village(grabbers: int) -> tuple[float, float]:
    """What a sharer and a grabber earn in a village; 0 for who is not there."""
    plans = [GRABBER] * grabbers + [SHARER] * (RULES.seats - grabbers)
    paid = meeting(RULES, RULES.capacity, [Script(plan) for plan in plans])
    sharer = paid[-1] if grabbers < RULES.seats else 0.0
    return sharer, paid[0] if grabbers else 0.0


def survivors(villages: Sequence[int]) -> int:
    """How many grabbers are among the better half.

    Raises:
        ValueError: a sharer and a grabber who are paid the same stand at the edge.
    """
    seats = [
        (village(k)[kind], kind)
        for k in villages
        for kind, many in enumerate((RULES.seats - k, k))
        for _ in range(many)
    ]
    seats.sort(reverse=True)
    half = len(seats) // 2
    (edge, kind), (beyond, other) = seats[half - 1 : half + 1]
    if edge == beyond and kind != other:
        raise ValueError(f"villages {[*villages]}: both kinds are paid {edge} at the edge")
    return sum(kind for _, kind in seats[:half])


@cache
def step(anew: float = ANEW) -> NDArray[np.float64]:
    """(N + 1, N + 1): from so many grabbers of N to the distribution in the next generation."""
    matrix, groups = np.zeros((TEXTS + 1, TEXTS + 1)), TEXTS // RULES.seats
    half = TEXTS // 2
    for villages in product(range(RULES.seats + 1), repeat=groups):
        count = sum(villages)
        chance = np.prod([comb(RULES.seats, k) for k in villages]) / comb(TEXTS, count)
        best = survivors(villages)
        matrix[count, best : best + half + 1] += chance * copies(best, half, anew)
    return matrix


def copies(best: int, half: int, anew: float) -> NDArray[np.float64]:
    """(half + 1,): the distribution of the number of grabbers among texts that `copier` writes.

    Args:
        best: grabbers among the survivors.
        half: survivors, and texts that are written.
        anew: as of `copier`, with two words.
    """
    chance = (1 - anew) * best / half + anew / 2
    more = np.arange(half + 1)
    ways = np.array([comb(half, int(many)) for many in more])
    return ways * chance**more * (1 - chance) ** (half - more)


def chain(start: int, count: int) -> NDArray[np.float64]:
    """(generations, N + 1): the distribution of the number of grabbers in each."""
    return walked(step(), start, count)


def walked(matrix: NDArray[np.float64], start: int, count: int) -> NDArray[np.float64]:
    """(count, N + 1): the distributions of a chain from a start on."""
    rows = [np.eye(len(matrix))[start]]
    for _ in range(count - 1):
        rows.append(rows[-1] @ matrix)
    return np.array(rows)


def beside_chain(exact: NDArray[np.float64], runs: Sequence[Run]) -> tuple[dict[str, Any], float]:
    """Played and exact shares of grabbers by generation, and by how many errors they are off.

    Args:
        exact: as of `walked`.
        runs: populations, with the `share` of each generation.
    """
    numbers = np.arange(exact.shape[1]) / (exact.shape[1] - 1)
    rows, mean = np.array([one["share"] for one in runs]), exact @ numbers
    error = np.sqrt(np.maximum(exact @ numbers**2 - mean**2, 0) / len(rows))
    off = np.abs(rows.mean(0) - mean)
    found = {
        "played": rows.mean(0).round(4).tolist(),
        "exact": mean.round(4).tolist(),
        "few, played": float((rows[:, -1] <= 0.5).mean()),
        "few, exact": round(float(exact[-1][numbers <= 0.5].sum()), 4),
    }
    return found, float((off[1:] / np.maximum(error[1:], 1e-9)).max())


def replicator(share: float, payoffs: NDArray[np.float64]) -> float:
    """The next share of the first of two strategies in an endless population."""
    mix = np.array([share, 1 - share])
    worth = payoffs @ mix
    return float(share * worth[0] / (mix @ worth))


# -- played ----------------------------------------------------------------------------------------
def copier(words: Sequence[str], anew: float) -> Policy:
    """Writes one of the texts that it reads, or at times any of some words."""

    def write(request: Request) -> str:
        rng = random.Random(request.seed)
        if rng.random() < anew:
            return rng.choice(words)
        return rng.choice(QUOTED.findall(request.messages[-1].content))

    return ScriptedPolicy(write)


def village_run(start: int, count: int, seed: int) -> Run:
    """The share of grabbers in each generation of one population."""
    row = [{"stock": RULES.capacity, "capacity": RULES.capacity}]
    make_env = partial(make, "commons-v0", tasks=row, talk=0, turns=RULES.months)
    player = partial(ExpertPolicy, make_env())
    how = Evolution(player, copier(PLANS, ANEW))
    texts = [GRABBER] * start + [SHARER] * (TEXTS - start)
    played = generations(make_env, texts, how, count, derive_seed("villages", start, seed))
    return {"share": [one.texts.count(GRABBER) / TEXTS for one in played]}


def stag_run(count: int, seed: int) -> Run:
    """The share of those who hunt the stag in each generation, under proportional selection."""
    make_env = partial(make, "matrix_game-v1", game="stag_hunt", split="train")
    source, words = make_env().source, GAMES["stag_hunt"].actions[0]

    def say(request: Request, text: str) -> str:
        task, seat = source.find(request.task_id), int(request.agent[-1])
        return words_of(task, seat)[task.data["orders"][seat].index(words.index(text))]

    how = Evolution(lambda text: ScriptedPolicy(partial(say, text=text)))
    texts = ["stag"] * round(STAGS * PAIRS) + ["hare"] * round((1 - STAGS) * PAIRS)
    played = generations(make_env, texts, how, count, derive_seed("stags", seed))
    return {"share": [one.texts.count("stag") / PAIRS for one in played]}


def compared(runs: Mapping[int, Sequence[Run]], stags: Sequence[Run], count: int) -> Any:
    """Played and exact shares by generation, and how often grabbers stay few."""
    methods, worst = {}, 0.0
    for start, of in runs.items():
        methods[f"{start} of {TEXTS}"], off = beside_chain(chain(start, count), of)
        worst = max(worst, off)
    rows = np.array([one["share"] for one in stags])
    expected = [STAGS, replicator(STAGS, GAMES["stag_hunt"].expected[0])]
    error = rows[:, 1].std() / max(1, len(rows) - 1) ** 0.5
    return {
        "methods": methods,
        "largest_off": round(worst, 2),
        "stags": {"played": rows.mean(0).round(4).tolist(), "replicator": expected},
        "stags_off": round(float(abs(rows[:, 1].mean() - expected[1]) / max(error, 1e-9)), 2),
    }


def main() -> None:
    options = options_of(__doc__, "villages", FOLDER)
    populations, count = (options.seeds, 5) if options.quick else (5 * options.seeds, COUNT)
    record = begun(options, __doc__, count=count, texts=TEXTS, anew=ANEW)
    seeds = range(FIRST, FIRST + populations)
    runs = {
        start: [
            record.get(f"fresh/{start}/{seed}", partial(village_run, start, count, seed))
            for seed in seeds
        ]
        for start in STARTS
    }
    stags = [record.get(f"fresh/stags/{seed}", partial(stag_run, 2, seed)) for seed in seeds]
    record.save(summary={"commons": compared(runs, stags, count)})


if __name__ == "__main__":
    main()
