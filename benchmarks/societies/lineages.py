"""Do those who discriminate resist grabbers among strategies of the Donor Game, where sharers fall?

    python -m benchmarks.societies.lineages

As in Vallinder and Hughes (arXiv 2412.10270) strategies play the Donor Game, generation after
generation, and the better half survives. Here a strategy is a text, or a table.

Texts. Twenty-four, each the name of a script of `donor-v0`, are dealt into four groups of six in
each of ten generations and play six rounds of task `train/0`, in the environment itself. A scripted
writer writes the worse half anew: it copies a survivor drawn at random, or, with a chance of 0.05,
any text of the population's first ones. Six say `grabber`, the others `sharer`, `image_scorer` or
`standing`; or six say each of the four. With two texts `step` has the exact chain of the number of
grabbers, over all ways to deal groups. With four it would have 2925 states, so there are
populations alone.

Tables. Twenty, of `circle.py`, of which five grab and fifteen share, or stand by standing, with
misses; dealt into four villages of five. What they are paid is the mean of 200 sampled episodes.
Either the worse half inherits the table of a survivor drawn at random ("copied"); or all first
learn from their own pay in their village, by ten updates of `magrpo`, and then the worse half
inherits ("learned, copied"); or all learn, and keep their tables ("learned"). A keeper is a table
that gives less than a half to who gave all to a giver.

The criterion, written before the runs. 100 populations of texts for each start; 20 of tables.

- The engine is right: with two texts the mean share of grabbers is within 4 standard errors of the
  chain's in every generation.
- A text resists if grabbers are at most a half in the tenth generation with a chance above one
  half, by the chain. It is claimed that image scorers and those who stand by standing resist, and
  sharers do not.
- With four texts those who discriminate resist if grabbers are at most a half in the tenth
  generation in so many of 100 populations that the interval is above one half.
- Learning helps if from those who stand by standing keepers are at most a half in the tenth
  generation in more seeds with "learned, copied" than with "copied" (Fisher, p at most 0.05). From
  sharers it is predicted that keepers are more than a half in all seeds in each of the three arms.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import combinations_with_replacement, product
from math import comb, factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.common import (
    FIRST,
    Run,
    begun,
    generator,
    options_of,
    share_of,
    shares_differ,
)
from benchmarks.societies import FOLDER
from benchmarks.societies.circle import ALL, PARTS, row, society
from benchmarks.societies.generations import Evolution, generations, selected
from benchmarks.societies.givers import CIRCLE, MISSES
from benchmarks.societies.learners import taught_by
from benchmarks.societies.tables import EPISODES, Table
from benchmarks.societies.villages import ANEW, beside_chain, copier, copies, walked
from llm_marl_envs import make
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.envs.games.landscape import softmax
from llm_marl_envs.envs.societies.gift_responses import Society, meeting
from llm_marl_envs.envs.societies.gift_scripts import GRABBER, SCORER, SHARER, STANDER, Script
from llm_marl_envs.envs.societies.gift_tasks import PAPER
from llm_marl_envs.envs.societies.gifts import Rules, meetings
from llm_marl_envs.envs.societies.reputation import STANDING, Norm
from llm_marl_envs.policies.expert import ExpertPolicy

RULES, DRAW = Rules(seats=6, rounds=6, endowment=PAPER[0]), PAPER[1]
TEXTS, GRABBERS, COUNT = 24, 6, 10
PLANS = (SHARER, SCORER, STANDER)
FOUR = "all four"
GENEROUS = Norm(gave_good=True, gave_bad=True, kept_good=True, kept_bad=True)
TABLES, KEEPERS = 20, 5
BEGUN = {"sharers": GENEROUS, "standing": STANDING}
"""Name -> the norm of the tables that do not grab."""
UPDATES, RATE = 10, 0.06
ARMS = {"copied": (0, True), "learned, copied": (UPDATES, True), "learned": (UPDATES, False)}
"""Name -> updates in a generation, and whether the worse half inherits."""


# -- exact -----------------------------------------------------------------------------------------
Outcome = tuple[tuple[float, bool], ...]
"""Of a group: what each seat is paid, and whether it grabs."""


@cache
def outcomes(plan: str) -> Counter[Outcome]:
    """How many of the ways to seat grabbers and another plan in a group lead to each outcome."""
    to, found = meetings(DRAW, RULES.seats, RULES.rounds), Counter[Outcome]()
    for grabs in product((False, True), repeat=RULES.seats):
        scripts = [Script(GRABBER if one else plan) for one in grabs]
        paid = meeting(Society(RULES, to, scripts, depth=2))
        found[tuple(sorted(zip(paid, grabs, strict=True)))] += 1
    return found


def survivors(groups: Sequence[Outcome]) -> dict[int, float]:
    """The distribution of the number of grabbers in the better half; ties are broken by lot."""
    seats = sorted((seat for group in groups for seat in group), key=lambda seat: -seat[0])
    half = len(seats) // 2
    edge = seats[half - 1][0]
    above = [grabs for paid, grabs in seats if paid > edge]
    tied = [grabs for paid, grabs in seats if paid == edge]
    free, bad = half - len(above), sum(tied)
    return {
        sum(above) + more: comb(bad, more)
        * comb(len(tied) - bad, free - more)
        / comb(len(tied), free)
        for more in range(min(bad, free) + 1)
        if free - more <= len(tied) - bad
    }


@cache
def step(plan: str, anew: float = ANEW) -> NDArray[np.float64]:
    """(N + 1, N + 1): from so many grabbers of N to the distribution in the next generation."""
    kinds, many, half = outcomes(plan), TEXTS // RULES.seats, TEXTS // 2
    matrix = np.zeros((TEXTS + 1, TEXTS + 1))
    for groups in combinations_with_replacement(kinds, many):
        orders = factorial(many) // prod(map(factorial, Counter(groups).values()))
        ways = orders * prod(kinds[group] for group in groups)
        count = sum(grabs for group in groups for _, grabs in group)
        for best, chance in survivors(groups).items():
            weight = ways / comb(TEXTS, count) * chance
            matrix[count, best : best + half + 1] += weight * copies(best, half, anew)
    return matrix


# -- played ----------------------------------------------------------------------------------------
def texts_of(start: str) -> list[str]:
    """The first texts of a population."""
    if start == FOUR:
        return [plan for plan in (GRABBER, *PLANS) for _ in range(TEXTS // 4)]
    return [GRABBER] * GRABBERS + [start] * (TEXTS - GRABBERS)


def texts_run(start: str, count: int, seed: int) -> Run:
    """The share of grabbers in each generation of one population, and of each text in the last."""
    tasks = [{"endowment": RULES.endowment, "draw": DRAW}]
    make_env = partial(make, "donor-v0", tasks=tasks)
    texts = texts_of(start)
    how = Evolution(partial(ExpertPolicy, make_env()), copier(sorted({*texts}), ANEW))
    played = [*generations(make_env, texts, how, count, derive_seed("lineages", start, seed))]
    last = {text: played[-1].texts.count(text) / TEXTS for text in sorted({*texts})}
    return {"share": [one.texts.count(GRABBER) / TEXTS for one in played], "last": last}


def tables_run(start: str, arm: str, count: int, seed: int) -> Run:
    """The share of keepers and the mean pay in each generation of one population of tables."""
    rng, lots = generator("lineages", start, seed), random.Random(derive_seed(start, arm, seed))
    grab = society(None, MISSES, KEEPERS, rng)
    logits = np.concatenate([grab, society(BEGUN[start], MISSES, TABLES - KEEPERS, rng)])
    keepers, paid = [], []
    updates, inherits = ARMS[arm]
    for _ in range(count):
        order = np.array(lots.sample(range(TABLES), TABLES)).reshape(-1, CIRCLE.n)
        pay = np.zeros(TABLES)
        for seats in order:
            logits[seats] = taught_by(
                "naive", CIRCLE, logits[seats], {"updates": updates, "rate": RATE}, rng
            )
            pay[seats] = CIRCLE.play(softmax(logits[seats]), EPISODES, rng).paid.sum(2).mean(0)
        keepers.append(float((to_good(logits) < PARTS[1]).mean()))
        paid.append(round(float(pay.mean()), 4))
        if inherits:
            logits = logits[heirs(pay.tolist(), lots)]
    return {"share": keepers, "paid": paid}


def to_good(logits: Table) -> Table:
    """(tables,): what each gives to who gave all to a giver."""
    return softmax(logits[:, row(ALL)]) @ PARTS


def heirs(paid: Sequence[float], lots: random.Random) -> list[int]:
    """Whose table each has in the next generation: survivors their own, others a survivor's."""
    names = [f"{number}" for number in range(len(paid))]
    writer = copier((), 0.0)
    how = Evolution(player=lambda _: writer, writer=writer)
    return [int(name) for name in selected(names, paid, how, lots)]


def compared_texts(runs: Mapping[str, Sequence[Run]], count: int) -> dict[str, Any]:
    """Shares by generation and the chain beside them; how often grabbers stay few."""
    few = {start: [one["share"][-1] <= 0.5 for one in of] for start, of in runs.items()}
    methods: dict[str, Any] = {}
    worst = 0.0
    for plan in PLANS:
        exact = walked(step(plan), GRABBERS, count)
        methods[plan], off = beside_chain(exact, runs[plan])
        worst = max(worst, off)
    last = [one["last"] for one in runs[FOUR]]
    methods[FOUR] = {
        "played": np.mean([one["share"] for one in runs[FOUR]], axis=0).round(4).tolist(),
        "last": {text: float(np.mean([one[text] for one in last])) for text in last[0]},
    }
    for start, of in few.items():
        methods[start]["few"] = share_of(of)
    tests = {
        f"grabbers stay few, {plan} more than {SHARER}": {
            "p": shares_differ(few[SHARER], few[plan]),
            "more": sum(few[plan]) > sum(few[SHARER]),
        }
        for plan in PLANS[1:]
    }
    return {"methods": methods, "tests": tests, "largest_off": round(worst, 2)}


def compared_tables(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Keepers and pay in the last generation."""
    few = {name: [one["share"][-1] <= 0.5 for one in of] for name, of in runs.items()}
    a, b = few["standing, copied"], few["standing, learned, copied"]
    return {
        "methods": {
            name: {
                "share": np.mean([one["share"] for one in of], axis=0).round(4).tolist(),
                "paid": np.mean([one["paid"] for one in of], axis=0).round(4).tolist(),
                "few": share_of(few[name]),
            }
            for name, of in runs.items()
        },
        "tests": {
            "keepers stay few, learned more": {"p": shares_differ(a, b), "more": sum(b) > sum(a)}
        },
    }


def main() -> None:
    options = options_of(__doc__, "lineages", FOLDER)
    count, times = (3, 1) if options.quick else (COUNT, 5)
    record = begun(options, __doc__, count=count, anew=ANEW, updates=UPDATES, rate=RATE)
    seeds = range(FIRST, FIRST + options.seeds)
    more = range(FIRST, FIRST + times * options.seeds)
    texts = {
        start: [
            record.get(f"fresh/texts/{start}/{s}", partial(texts_run, start, count, s))
            for s in more
        ]
        for start in (*PLANS, FOUR)
    }
    tables = {
        f"{start}, {arm}": [
            record.get(f"fresh/{start}, {arm}/{s}", partial(tables_run, start, arm, count, s))
            for s in seeds
        ]
        for start in BEGUN
        for arm in ARMS
    }
    record.save(summary={"texts": compared_texts(texts, count), "tables": compared_tables(tables)})


if __name__ == "__main__":
    main()
