"""commons_tiny: do seats keep what they live on, paid together and paid alone?

`efficiency` is pay as a share of the social optimum, `survival` the share of the months that the
stock lasted, `over_use` the share of amounts above a seat's part, `gini` of the pay within an
episode, `legal` the share of texts that are an amount. Arms beside those of each preset: `own`
pays each seat its own catch. `alignment` does so too, by advantage alignment of weight 1.

Written down before the runs of the seeds that are reported, after those of seed 0. Paid together
(`preset`) the stock is kept: survival is at least 0.9 on each seed, and efficiency rises. Paid
alone (`own`) it collapses: efficiency falls and survival is at most 0.5 on each seed. `alignment`
helps if its efficiency is above that of `own` by 0.1 or more on each seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from benchmarks.presets.study import MEASURE_SEED, Settings, Study, held_out
from llm_marl_envs.core.records import Episode
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers import society
from llm_marl_envs.policies import Team

EPISODES = 200
"""Or a few less: each held-out task is played as often."""
ALONE = {
    "own": ["credit=own"],
    "alignment": ["credit=own", "algorithm={name: advantage_alignment, weight: 1.0}"],
}
"""Arm -> overrides; in both each seat is paid its own part."""
NUMBERS: dict[str, Callable[[Episode], float | None]] = {
    "efficiency": society.efficiency,
    "survival": society.survival,
    "over_use": society.over_use,
    "gini": society.inequality,
}


def measure(run: Settings, seats: Team) -> dict[str, Any]:
    """As many episodes of all held-out tasks."""
    env = held_out(run)
    tasks = len(env.unwrapped.source)
    result = evaluate_team(
        env, seats, n_tasks=tasks, samples=max(1, EPISODES // tasks), seed=MEASURE_SEED
    )
    return {"society": numbers(result.episodes)}


def numbers(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Means over the episodes that have a number; None where none has."""
    found: dict[str, Any] = {}
    for name, number in NUMBERS.items():
        values = [one for one in map(number, episodes) if one is not None]
        found[name] = mean(values) if values else None
    texts = [turn.info["readable"] for one in episodes for turn in one.turns]
    return {**found, "legal": mean(texts), "episodes": len(episodes)}


STUDY = Study(
    preset="commons_tiny",
    first_seed=100,
    seeds=3,
    measure=measure,
    columns={name: f"society/{name}" for name in (*NUMBERS, "legal")},
    rises=("efficiency", "survival", "over_use"),
    changed=ALONE,
)
