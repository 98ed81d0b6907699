"""Three learners on tables in the Donor Game: paid alone, paid together, and aligned.

    python -m benchmarks.societies.givers

`donor-v0` for five seats, who give nothing, a half or all, and see what `trace=2` shows and whether
it is the last round (`circle.py`). What all give doubles in each round, and so does what chance
does to a return. So rounds are few, four, and each may be the last one with a chance of a half:
then what a round adds to the expected pay is the same in each. Nobody gives: 0.2 of the social
optimum; all give, but in the last round: 0.8. A half is less than 0.703, up to which giving lasts
without a last round (docs/environments/donor.md). Here there is one, and tables only know it when
it is there: by exact pay no other row of its table gains a seat more than 0.01 beside four who
stand by standing. A best response that counts rounds gains 0.2: it keeps in the third, too.

The methods are those of `learners.py`. A society begins with nearly uniform tables ("any"), or with
tables that give to the good, and to nobody in the last round, by image scoring ("scorers") or
standing; with a chance of 0.05 they do something else. By exact pay of these, a seat gains by
giving to who kept from a giver among scorers, and loses by it among those who stand by standing.

The criterion, written before the runs on fresh seeds. Efficiency is exact, as a share of the
optimum. Of 20 seeds each it is predicted:

- From any start naive learners do not give: efficiency at most 0.03 above 0.2 in each.
- From any start learners that are paid the sum end at the optimum: at least 0.95 in each.
- From standing naive learners go on giving: at least 0.7 in each.
- Scorers stop discriminating: what naive learners end up giving to who kept from a giver is more
  from scorers than from standing (paired by seed, sign flips, p at most 0.05).
- The claim of advantage alignment (arXiv 2511.19405) holds if from any start in more seeds than of
  naive ones a half or more is given (Fisher, p at most 0.05).

Rates were chosen on pilot seeds, by efficiency, from 0.06 on: with less the tables still move after
200 updates, and a society that has not yet unravelled would be chosen for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.claims.common import (
    Run,
    Setting,
    begun,
    generator,
    options_of,
    paired,
    share_of,
    shares_differ,
)
from benchmarks.societies import FOLDER
from benchmarks.societies.circle import Circle, measured, society
from benchmarks.societies.learners import GROUP, UPDATES, arms, means_of, taught_by
from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.societies.gifts import Rules
from llm_marl_envs.envs.societies.reputation import IMAGE_SCORING, STANDING

CIRCLE = Circle(Rules(seats=5, rounds=4, endowment=1, end=0.5), draw=12)
MISSES = 0.05
RATES = (0.06, 0.18)
NOBODY, NEAR, OPTIMAL, KEPT_UP = 0.2, 0.03, 0.95, 0.7
STARTS = {"any": None, "scorers": IMAGE_SCORING, "standing": STANDING}
"""Name -> the norm of the society that begins."""


def run(updates: int, method: str, start: str, setting: Setting, seed: int) -> Run:
    """Train five tables; what they are worth."""
    rng = generator("givers", start, seed)
    logits = society(STARTS[start], MISSES, CIRCLE.n, rng)
    if start == "any":
        logits = NOISE * rng.standard_normal(logits.shape)
    logits = taught_by(method, CIRCLE, logits, {**setting, "updates": updates}, rng)
    found = measured(CIRCLE, softmax(logits), rng)
    return {"tuned_on": found["efficiency"], **found}


def compared(runs: Mapping[str, Mapping[str, Sequence[Run]]]) -> dict[str, Any]:
    """Means and ranges over seeds by start, and what the criterion says."""
    keys = ("efficiency", "giving", "to_good", "to_bad", "gini", "gap")
    found: dict[str, Any] = {
        start: {
            "methods": {
                name: {**means_of(each, keys), "gives": share_of(gives(each))}
                for name, each in of.items()
            }
        }
        for start, of in runs.items()
    }
    worth = {
        (start, name): [one["efficiency"] for one in each]
        for start, of in runs.items()
        for name, each in of.items()
    }
    shaped = [gives(runs["any"][name]) for name in ("naive", "aligned")]
    p = shares_differ(*shaped)
    bad = [[one["to_bad"] for one in runs[s]["naive"]] for s in ("standing", "scorers")]
    erodes = paired(*bad)
    found["any"]["tests"] = {"a half is given, aligned more than naive": {"p": p}}
    found["scorers"]["tests"] = {"given to who kept, scorers less standing": erodes}
    found["any"]["holds"] = {
        "naive keeps": max(worth["any", "naive"]) <= NOBODY + NEAR,
        "sum is optimal": min(worth["any", "sum"]) >= OPTIMAL,
        "aligned gives": sum(shaped[1]) > sum(shaped[0]) and p <= 0.05,
    }
    found["standing"]["holds"] = {"naive gives": min(worth["standing", "naive"]) >= KEPT_UP}
    found["scorers"]["holds"] = {"erodes": erodes["difference"] > 0 and erodes["p"] <= 0.05}
    return found


def gives(runs: Sequence[Run]) -> list[bool]:
    """Whether a half or more is given."""
    return [one["giving"] >= 0.5 for one in runs]


def main() -> None:
    options = options_of(__doc__, "givers", FOLDER)
    updates = 2 if options.quick else UPDATES
    record = begun(options, __doc__, updates=updates, group=GROUP, misses=MISSES)
    runs = arms(record, options, STARTS, partial(run, updates), RATES)
    record.save(summary=compared(runs))


if __name__ == "__main__":
    main()
