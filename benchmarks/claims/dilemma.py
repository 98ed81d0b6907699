"""Claim 4: naive learners defect; aligned ones cooperate and are not exploited.

    python -m benchmarks.claims.dilemma --seeds 20

It is said of advantage alignment (2406.14662, 2511.19405).

The iterated prisoner's dilemma of `matrix_game-v1`, ten turns. Policies are softmax tables over the
last joint action (`repeated.py`), so values and best responses are exact. Compared are
`magrpo` with credit="own" (naive), `magrpo` with credit="team" (paid the sum) and
`advantage_alignment` (aligned). It plays further endings, so that its updates sample 5.5 times as
many actions; "aligned, as many actions" has groups of 6 in place of 32.

The criterion, written before the runs on fresh seeds. In the end, exactly, per turn:

- cooperates: both cooperate in at least half of the turns, a quarter being random play.
- not exploited: against `partner`, the partner is paid at most 1 more than the frozen seat; the
  worse of both seats counts. Tit for tat concedes 0.5, who always cooperates 5. Partners: one that
  always defects; the best response to the frozen table, which knows it and the number of the turn.
- The claim holds if more seeds cooperate and are exploited by neither with `advantage_alignment`
  than with each of the others (Fisher).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.claims.common import (
    Optimizer,
    Run,
    Setting,
    algorithm_of,
    begun,
    drawn,
    generator,
    inputs_of,
    options_of,
    share_of,
    shares_differ,
    slopes,
    taught,
)
from benchmarks.claims.repeated import best_response, dilemma_strategy, states
from benchmarks.claims.repeated import returns as exact_returns
from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup, StopReason
from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.games.matrix_rules import GAMES
from trainers.batch.returns import discounted_returns

GAME = GAMES["prisoners_dilemma"]
TURNS, GROUP, UPDATES, DISCOUNT = 10, 32, 300, 0.96
ALIGNED = {"name": "advantage_alignment", "weight": 0.5}
METHODS: dict[str, tuple[str, str | dict[str, Any], int]] = {
    "naive": ("own", "magrpo", GROUP),
    "sum": ("team", "magrpo", GROUP),
    "aligned": ("own", ALIGNED, GROUP),
    "aligned, as many actions": ("own", ALIGNED, 6),
}
"""Name -> whose rewards, the algorithm as a run names it, and G; the weight is the second paper's.
G = 6 plays 6 * 55 turns, G = 32 without further endings 32 * 10."""
RATES = (0.01, 0.03, 0.09, 0.27)
"""Not extended below: slower tables end before they have learned, and random ones cooperate."""
COOPERATES, EXPLOITED = 0.5, 1.0


def played(
    tables: np.ndarray,
    group: int,
    rng: np.random.Generator,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Any, Any, Any]:
    """States (G, T), actions (G, 2, T) and rewards (G, 2, T) of a group; tables (2, states, 2).

    `known`: what is said (G, 2, T) before the turn of each episode from which on it is drawn (G,).
    """
    seen, said = np.zeros((group, TURNS), int), np.zeros((group, 2, TURNS), int)
    for turn in range(TURNS):
        if turn:
            seen[:, turn] = 1 + 2 * said[:, 0, turn - 1] + said[:, 1, turn - 1]
        chances = tables[:, seen[:, turn]].swapaxes(0, 1)
        said[:, :, turn] = drawn(chances, rng.random((group, 2)))
        if known is not None:
            given = turn < known[1]
            said[given, :, turn] = known[0][given, :, turn]
    paid = GAME.expected[:, said[:, 0], said[:, 1]].swapaxes(0, 1)
    return seen, said, paid


@cache
def family(group: int) -> EpisodeGroup:
    """Who leaves whom: the planned episodes, then each one's endings from turn 1, 2 and so on."""
    one = Episode(
        env_id="",
        env_kwargs={},
        task_id="",
        seed=0,
        agents=("member_0", "member_1"),
        turns=(),
        stop_reason=StopReason.TERMINATED,
        success=None,
    )
    endings = [
        replace(one, branch=Branch(parent=parent, agent="member_0", turn=turn))
        for parent in range(group)
        for turn in range(1, TURNS)
    ]
    return EpisodeGroup(task_id="", seed=0, episodes=(*[one] * group, *endings))


def slope_of(
    tables: np.ndarray, algorithm: Any, group: int, discount: float, rng: np.random.Generator
) -> np.ndarray:
    """(2, states, 2): ascent direction of both tables' logits from one sampled group."""
    seen, said, paid = played(tables, group, rng)
    if algorithm.branching:
        ends = np.tile(np.arange(1, TURNS), group)
        before = said.repeat(TURNS - 1, axis=0)
        paid = np.concatenate([paid, played(tables, len(ends), rng, (before, ends))[2]])
    if algorithm.args.credit == "team":
        paid = np.broadcast_to(paid.mean(1, keepdims=True), paid.shape)
    rewards = paid[None]
    returns = discounted_returns(rewards, np.ones(rewards.shape, bool), discount)
    inputs = inputs_of(returns, rewards)
    if algorithm.branching:
        inputs = replace(inputs, groups=(family(group),))
    advantages = algorithm.advantages(inputs)[0]
    slope = np.zeros_like(tables)
    for seat in range(2):
        along = slopes(tables[seat][seen], said[:, seat]) * advantages[:group, seat, :, None]
        np.add.at(slope[seat], seen.ravel(), along.reshape(-1, 2) / group)
    return slope


def run(method: str, updates: int, setting: Setting, seed: int) -> Run:
    """Train two tables; what they are paid, and what partners make of them."""
    rng, (credit, chosen, group) = generator("dilemma", seed), METHODS[method]
    logits = NOISE * rng.standard_normal((2, states(GAME), 2))
    algorithm = algorithm_of(chosen, credit=credit, discount=DISCOUNT)
    optimizer = Optimizer("adam", setting["rate"])
    for _ in range(updates):
        slope = slope_of(softmax(logits), algorithm, group, DISCOUNT, rng)
        logits = logits + optimizer.step(slope)
    return judged(softmax(logits), TURNS)


# -- what a frozen team is worth, exactly ----------------------------------------------------------
def judged(tables: np.ndarray, turns: int) -> Run:
    """Mutual cooperation, pay per turn, gaps of both partners, and how often tables cooperate."""
    team = float(np.mean(exact_returns(GAME, [*tables], turns))) / turns
    always, best = (
        max(found(tables[seat], seat, turns) for seat in range(2))
        for found in (gap_to_defection, gap_to_best_response)
    )
    return {
        "tuned_on": round(mutual(tables, turns), 4),
        "pay": round(team, 4),
        "gap_defect": round(always, 4),
        "gap_best": round(best, 4),
        "cooperation": np.round(tables[..., 0], 3).tolist(),
    }


def mutual(tables: np.ndarray, turns: int) -> float:
    """The share of turns in which both cooperate; tables (2, states, 2)."""
    joint = np.einsum("si,sj->sij", *tables).reshape(states(GAME), 4)
    at, found = np.eye(states(GAME))[0], 0.0
    for _ in range(turns):
        after = at @ joint
        found += float(after[0]) / turns
        at = np.concatenate([[0.0], after])
    return found


def gap_to_defection(table: np.ndarray, seat: int, turns: int) -> float:
    """What an always defecting partner is paid per turn beyond a frozen seat."""
    partner = dilemma_strategy("defect", 1 - seat)
    both = (table, partner) if seat == 0 else (partner, table)
    paid = exact_returns(GAME, both, turns)
    return (paid[1 - seat] - paid[seat]) / turns


def gap_to_best_response(table: np.ndarray, seat: int, turns: int) -> float:
    """What the best response to a frozen seat is paid per turn beyond it."""
    plan, earned = best_response(GAME, 1 - seat, table, turns)
    return (earned - paid_against(plan, seat, table)) / turns


def paid_against(plan: np.ndarray, seat: int, table: np.ndarray) -> float:
    """What a frozen seat is paid by a partner with a plan, (turns, states) actions."""
    value = np.zeros(states(GAME))
    for actions in plan[::-1]:
        partner = np.eye(2)[actions]
        both = (table, partner) if seat == 0 else (partner, table)
        joint = np.einsum("si,sj->sij", *both)
        value = (joint * (GAME.expected[seat] + value[1:].reshape(2, 2))).sum((1, 2))
    return float(value[0])


def good(one: Run) -> dict[str, bool]:
    """What the criterion says of a run."""
    cooperates = one["tuned_on"] >= COOPERATES
    safe = {name: one[f"gap_{name}"] <= EXPLOITED for name in ("defect", "best")}
    return {"cooperates": cooperates, **safe, "all": cooperates and all(safe.values())}


def compared(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Shares of seeds, and how the aligned learners differ from the others."""
    said = {name: [good(one) for one in of] for name, of in runs.items()}
    kinds = ("cooperates", "defect", "best", "all")
    passed = {name: {k: [one[k] for one in of] for k in kinds} for name, of in said.items()}
    return {
        "methods": {
            name: {
                "both cooperate": float(np.mean([one["tuned_on"] for one in of])),
                "pay": float(np.mean([one["pay"] for one in of])),
                "gap_defect": float(np.mean([one["gap_defect"] for one in of])),
                "gap_best": float(np.mean([one["gap_best"] for one in of])),
                **{kind: share_of(passed[name][kind]) for kind in kinds},
            }
            for name, of in runs.items()
        },
        "tests": {
            f"cooperates and is safe, {name}": {
                "p": shares_differ(passed[name]["all"], passed["aligned"]["all"])
            }
            for name in runs
            if not name.startswith("aligned")
        },
    }


def main() -> None:
    options = options_of(__doc__, "dilemma")
    updates = 2 if options.quick else UPDATES
    pinned = {"updates": updates, "group": GROUP, "discount": DISCOUNT}
    record, runs = begun(options, __doc__, **pinned), {}
    for method in METHODS:
        job, name = partial(run, method, updates), f"tables/{method}"
        runs[method] = taught(record, options, name, job, RATES, downwards=False)
    record.save(summary={"tables": compared(runs)})


if __name__ == "__main__":
    main()
