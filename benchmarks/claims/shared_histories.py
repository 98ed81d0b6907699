"""Claim 2: comparing samples that share a history wins where histories matter.

    python -m benchmarks.claims.shared_histories --seeds 20

It is said of MAGRPO's tree (2508.04652), C3 (EIT-EAST-Lab/C3) and central critics (2601.21972).

`regime-v0`, two members, three turns, three words: after the first turn a coin that nobody controls
decides whether `bonus` is added at the end. Each episode has a coin of its own (`chance: episode`);
a branch that leaves after the first turn keeps it. `magrpo` compares whole episodes, `magrpo_tree`
siblings, `c3_sim` alternatives of one message, `central_critic` learns what a history is worth. All
are given the same number of sampled actions, branches included: of a table an action is a token.

The criterion, written before the runs on fresh seeds. `right` is the exact mean probability of the
right word over seats, turns and both falls of the coin, when the budget is spent.

- The claim holds for a method if at bonus 10 it has more of it than `magrpo` (paired over seeds).
- Bonus 0 is the control: nothing is shared there that matters, and no advantage is expected.
- success, shown beside it: `right` is 0.9 or more.
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
    learn,
    options_of,
    paired,
    share_of,
    stage_of,
    taught,
)
from llm_marl_envs.envs.games.instances import WORDS
from llm_marl_envs.envs.games.right_words import rights_of

SEATS, TURNS, CHOICES, ACTIONS = ("member_0", "member_1"), 3, 3, 720
BONUSES = (0.0, 2.0, 5.0, 10.0)
SIZES: dict[str, tuple[int, int]] = {
    "magrpo": (8, 1),
    "magrpo_tree": (2, 2),
    "c3_sim": (2, 1),
    "central_critic": (8, 1),
}
"""Method -> episodes of a group and groups of an update: 48, 56, 48 and 48 actions an update."""
CRITIC_BONUS = 10.0
"""A run with a critic takes as much time as ten others: it has one bonus alone."""
PILOTS = (0, 1, 2)
ALTERNATIVES = 2
RATES = (0.03, 0.1, 0.3, 0.9)
RIGHT = 0.9


def chosen(method: str) -> str | dict[str, Any]:
    """The algorithm as a run names it."""
    return {"name": method, "alternatives": ALTERNATIVES} if method == "c3_sim" else method


def right_of(env: Any, team: WordTables) -> float:
    """The exact mean probability of the right word, over seats, turns and falls of the coin."""
    task = env.source[0]
    found = []
    for place, seat in enumerate(SEATS):
        for turn in range(TURNS):
            right = WORDS[rights_of(task, turn)[place]]
            chances = [team.chances(seat, text) for text in heard(env, seat, turn)]
            found += [float(np.mean([one[team.words.index(right)] for one in chances]))]
    return float(np.mean(found))


def heard(env: Any, seat: str, turn: int) -> list[str]:
    """What a seat may be told last before a turn, each as likely: by playing both coins."""
    found: dict[str, str] = {}
    for seed in range(64):
        env.reset(seed=seed, options={"task": 0})
        coin = ""
        for played in range(turn):
            env.step(dict.fromkeys(SEATS, WORDS[0]))
            coin = env.chat(seat)[-1].content if played == 0 else coin
        found[coin] = env.chat(seat)[-1].content
        if len(found) == (2 if turn else 1):
            break
    return [*found.values()]


def run(bonus: float, method: str, actions: int, setting: Setting, seed: int) -> Run:
    """Train tables until the budget is spent."""
    size, groups = SIZES[method]
    team = WordTables(WORDS[:CHOICES])
    kwargs = {"bonus": bonus, "turns": TURNS, "choices": CHOICES}
    stage = stage_of("regime-v0", kwargs, dict.fromkeys(SEATS, team), SEATS)
    algorithm = algorithm_of(chosen(method), num_generations=size, seed=seed)
    budgets = Budgets({("actions", ""): actions})
    for _ in learn(stage, algorithm, team, setting["rate"], (size, groups, seed), budgets):
        pass
    return {"tuned_on": round(right_of(stage.copies.envs[0], team), 4)}


def compared(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """How often words are right, and how each method differs from `magrpo`."""
    right = {name: [one["tuned_on"] for one in of] for name, of in runs.items()}
    return {
        "methods": {
            name: {
                "right": float(np.mean(of)),
                "deviation": float(np.std(of, ddof=1)) if len(of) > 1 else None,
                "success": share_of([one >= RIGHT for one in of]),
            }
            for name, of in right.items()
        },
        "tests": {
            f"right, {name}": paired(right["magrpo"], of)
            for name, of in right.items()
            if name != "magrpo"
        },
    }


def main() -> None:
    options = options_of(__doc__, "shared_histories")
    actions = 1 if options.quick else ACTIONS
    record, found = begun(options, __doc__, actions=actions, sizes=SIZES), {}
    for bonus in BONUSES[-1:] if options.quick else BONUSES:
        runs = {}
        for method in SIZES:
            if method == "central_critic" and bonus != CRITIC_BONUS:
                continue
            job, name = partial(run, bonus, method, actions), f"bonus {bonus:g}/{method}"
            runs[method] = taught(record, options, name, job, RATES, PILOTS)
        found[f"bonus {bonus:g}"] = compared(runs)
    record.save(summary=found)


if __name__ == "__main__":
    main()
