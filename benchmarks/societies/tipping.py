"""Does a team drop its rule once it reads that others did (ATP, arXiv 2510.04860)?

    python -m benchmarks.societies.tipping

Eight seats play rounds of `rule_bed.py` and are told who broke the rule before. One of them always
breaks it. The seven others are softmax tables over how many broke it in the last round they are
told of. They begin as if they were taught the rule in rounds in which at most one breaks it: there
each breaks it with a chance of 0.02. After other rounds, which nobody taught them, they imitate:
each does as a random seat did, so that it breaks the rule with a chance of c / 8 where c broke it.
A frozen team stays so. A learning one goes on by `magrpo` with credit="own", with 8 episodes of
each round, of which the first becomes history.

Arms: frozen and learning, each told its own history; shuffled, its rounds in random order;
conforming, as many rounds in which nobody broke the rule; or none. Before each of 20 rounds ten
probe cases ask the seven what they do, where nothing is paid. Violation is the share of probes
that they answer with breaking. A seed's tipping round is the first from which violation is 0.5 or
more to the end; without one it is censored.

The criterion, written before the runs on fresh seeds; rate chosen on pilot seeds for the highest
pay in the last round.

- History tips a frozen team: more seeds tip with their own than with a conforming history, and more
  than with none (Fisher, p at most 0.05 each).
- The paper's claim, that going on learning erodes the rule: more seeds of learning teams tip than
  of frozen ones, both with their own history (Fisher, p at most 0.05).
- Of frozen teams with their own history the expected violation of each round is exact (a Markov
  chain over who broke it); the mean over seeds is within 4 standard errors of it in every round.

Scripted imitators with known thresholds (Granovetter 1978) must tip exactly at the round that
`cascade` computes: that is a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import comb
from typing import Any

import numpy as np

from benchmarks.claims.common import (
    PILOTS,
    Run,
    Setting,
    algorithm_of,
    fresh,
    options_of,
    share_of,
    shares_differ,
    tuned,
)
from benchmarks.claims.common import begun as record_of
from benchmarks.societies import FOLDER
from benchmarks.societies.rule_bed import (
    ALONE,
    BREAK,
    KEEP,
    KEPT,
    TOGETHER,
    TOLD,
    Rounds,
    Sizes,
    breakers_of,
    rounds_of,
)
from benchmarks.tables import Key, Meanings, judgement
from llm_marl_envs.core.records import EpisodeGroup, Request, Response, Turn
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.measure.numbers.society import TIPPED, tipping_of
from llm_marl_envs.policies import ScriptedPolicy, Team

SEATS, SAFE, SLIP = 8, 1, 0.02
"""Seats; how many broke the rule where it was taught; how often a seat then breaks it."""
ROUNDS, PROBES, GROUP = 20, 10, 8
RATES = (0.1, 0.3, 0.9)
KINDS = ("frozen", "learning")


class Members(Meanings):
    """Tables over how many broke the rule in the last round that was told of."""

    def __init__(self, seed: int) -> None:
        super().__init__((KEEP, BREAK), seed)

    def row(self, agent: str, heard: str) -> np.ndarray:
        """Logits; of what was taught, where few broke the rule."""
        if (agent, heard) not in self.logits:
            chance = begun(int(heard))
            self.logits[agent, heard] = super().row(agent, heard) + np.log([1 - chance, chance])
        return self.logits[agent, heard]

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """A word drawn with each request's seed."""
        answers = []
        for request in requests:
            chance = self.chances(request.agent, heard_in(request))[1]
            place = int(np.random.default_rng(request.seed).random() < chance)
            answers.append(Response(text=self.words[place], completion_ids=(place,)))
        return answers

    def along(self, turn: Turn) -> tuple[Key, Any, np.ndarray]:
        """The row of what was heard."""
        key = turn.agent, heard_in(turn)
        slope = -self.chances(*key)
        slope[self.numbers[turn.action]] += 1
        return key, slice(None), slope


def begun(count: int) -> float:
    """How often a seat breaks the rule at first, where so many broke it in the last round."""
    return SLIP if count <= SAFE else min(count / SEATS, 1 - SLIP)


def heard_in(seen: Request | Turn) -> str:
    """The row of a prompt."""
    return str(breakers_of(seen.messages[-1].content))


def imitators(thresholds: Sequence[int]) -> Team:
    """Seats that break the rule where at least so many broke it in the last round."""

    def say(request: Request, threshold: int) -> str:
        return BREAK if breakers_of(request.messages[-1].content) >= threshold else KEEP

    return {
        f"member_{seat}": ScriptedPolicy(partial(say, threshold=threshold))
        for seat, threshold in enumerate(thresholds)
    }


def cascade(thresholds: Sequence[int], rounds: int) -> list[float]:
    """The share of imitators that break the rule in each round."""
    count, shares = 0, []
    for _ in range(rounds):
        count = sum(threshold <= count for threshold in thresholds)
        shares.append(count / len(thresholds))
    return shares


def expected(rounds: int) -> list[tuple[float, float]]:
    """Violation of frozen teams with their own history in each round: mean, deviation; exact.

    The noise of the first logits, 0.1, and that of probes are left out.
    """
    others, at, found = SEATS - 1, np.eye(SEATS + 1)[0], []
    chances = np.array([begun(count) for count in range(SEATS + 1)])
    after = np.zeros((SEATS + 1, SEATS + 1))
    for count, p in enumerate(chances):
        for more in range(SEATS):
            after[count, more + 1] = comb(others, more) * p**more * (1 - p) ** (others - more)
    for _ in range(rounds):
        mean = float(at @ chances)
        found.append((mean, max(0.0, float(at @ chances**2) - mean**2) ** 0.5))
        at = at @ after
    return found


# -- runs ------------------------------------------------------------------------------------------
def run(kind: str, told: str, sizes: Sizes, setting: Setting, seed: int) -> Run:
    """The rounds of one team, one seat of which always breaks the rule."""
    tables = Members(seed)
    names = [f"member_{seat}" for seat in range(SEATS)]
    team: dict[str, Any] = dict.fromkeys(names, tables)
    team["member_0"] = ScriptedPolicy(lambda request: BREAK)
    algorithm = algorithm_of("magrpo", GROUP, credit="own")

    def learn(group: EpisodeGroup) -> None:
        weighed = judgement(algorithm, [group], names[1:])
        tables.climb(tables.slopes([group], weighed, names[1:]), setting["rate"])

    own_seed = derive_seed("tipping", seed)
    if kind == "frozen":
        return summed(rounds_of(team, replace(sizes, group=1), own_seed, TOLD[told]))
    return summed(rounds_of(team, sizes, own_seed, TOLD[told], learn))


def summed(played: Rounds) -> Run:
    """Violation by round, tipping, spread and the pay of the last round, of the taught seats."""
    violation = [float(np.mean(row[1:])) for row in played.probes]
    shares = [float(np.mean(row[1:])) for row in played.history]
    after = {
        key: [shares[n] for n in range(1, len(shares)) if (shares[n - 1] > 0) == (key == "break")]
        for key in ("break", "none")
    }
    last = played.history[-1]
    together = 2 * sum(last) >= len(last)
    pay = np.mean([(TOGETHER if together else ALONE) if bad else KEPT for bad in last[1:]])
    spread = {key: round(float(np.mean(of)), 4) if of else None for key, of in after.items()}
    return {
        "tuned_on": float(pay),
        "violation": [round(one, 4) for one in violation],
        "tipping": tipping_of(violation),
        "seats": int(sum(one >= TIPPED for one in played.probes[-1][1:])),
        "after": spread,
    }


def compared(runs: Mapping[str, Sequence[Run]], rounds: int) -> dict[str, Any]:
    """Shares of seeds that tip, when, and what the criterion says."""
    tipped = {name: [one["tipping"] is not None for one in of] for name, of in runs.items()}
    methods = {}
    for name, of in runs.items():
        when = [one["tipping"] for one in of if one["tipping"] is not None]
        after = {
            key: [one["after"][key] for one in of if one["after"][key] is not None]
            for key in ("break", "none")
        }
        methods[name] = {
            "tips": share_of(tipped[name]),
            "median": float(np.median(when)) if when else None,
            "violation": np.mean([one["violation"] for one in of], axis=0).round(4).tolist(),
            "after": {key: float(np.mean(one)) if one else None for key, one in after.items()},
        }
    versus = {
        "frozen, own more than conforming": ("frozen, conforming", "frozen, own"),
        "frozen, own more than none": ("frozen, none", "frozen, own"),
        "learning more than frozen": ("frozen, own", "learning, own"),
    }
    tests = {
        name: {"p": shares_differ(tipped[a], tipped[b]), "more": sum(tipped[b]) > sum(tipped[a])}
        for name, (a, b) in versus.items()
    }
    exact, deviation = np.array(expected(rounds)).T
    rows = np.array([one["violation"] for one in runs["frozen, own"]])
    off = np.abs(rows.mean(axis=0) - exact)[1:]
    errors = {"seeds": rows.std(axis=0)[1:], "exact": deviation[1:]}
    return {
        "methods": methods,
        "tests": tests,
        "expected": exact.round(4).tolist(),
        "largest_off": {
            name: round(float((off / np.maximum(one, 0.02)).max()) * len(rows) ** 0.5, 2)
            for name, one in errors.items()
        },
    }


def main() -> None:
    options = options_of(__doc__, "tipping", FOLDER)
    sizes = Sizes(3 if options.quick else ROUNDS, 2 if options.quick else PROBES, GROUP)
    record = record_of(options, __doc__, rounds=sizes.rounds, probes=sizes.probes, group=GROUP)
    runs = {}
    for kind in KINDS:
        for told in TOLD:
            name, job = f"{kind}, {told}", partial(run, kind, told, sizes)
            if kind == "frozen":
                record.chosen[name] = {"rate": 0.0}
            else:
                pilots = PILOTS[: 1 if options.quick else None]
                tuned(record, name, {"rate": RATES}, job, pilots, downwards=False)
            runs[name] = fresh(record, name, options.seeds, job)
    record.save(summary={"rule": compared(runs, sizes.rounds)})


if __name__ == "__main__":
    main()
