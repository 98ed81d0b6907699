"""referential_tiny: is the target found, with the speaker's message and without?

`success`, the share of answers that are an object of the list (`legal`), the share of messages that
describe the target in its own words (`described`), topographic similarity. `silenced` is the same
team whose messages are empty texts. Arm `crossed` is no training: the trained speaker of a seed
with the trained listener of the next one.
"""

from __future__ import annotations

import argparse
import time
from statistics import mean
from typing import Any

from benchmarks.presets.study import (
    MEASURE_SEED,
    MissingError,
    Run,
    Settings,
    Study,
    held_out,
    policy_of,
    seeds_of,
    team_of,
)
from llm_marl_envs.measure import TeamResult, evaluate_team
from llm_marl_envs.policies import Team
from llm_marl_envs.policies.scripted import SilentPolicy
from trainers.train import read_run
from trainers.weights.team_files import load_team

EPISODES = 200


def measure(run: Settings, seats: Team) -> dict[str, Any]:
    """The team with its messages, and without."""
    return {
        "heard": played(run, seats),
        "silenced": played(run, {**seats, "speaker_0": SilentPolicy()}),
    }


def played(run: Settings, seats: Team) -> dict[str, Any]:
    """One episode of each of the first held-out tasks."""
    return numbers(evaluate_team(held_out(run), seats, n_tasks=EPISODES, seed=MEASURE_SEED))


def numbers(result: TeamResult) -> dict[str, Any]:
    """What a team did."""
    speaker = [one.turns[0].info for one in result.episodes]
    listener = [one.turns[-1].info for one in result.episodes]
    topography = result.topography.get("speaker_0")
    known = topography is not None and not topography.reason
    return {
        "success": result.success,
        "legal": mean(one["readable"] for one in listener),
        "described": mean(one["convention"] == "description" for one in speaker),
        "similarity": topography.value if topography is not None and known else None,
        "episodes": len(result.episodes),
    }


def crossed(study: Study, args: argparse.Namespace, arm: str, seed: int) -> Run:
    """The trained speaker of a seed with the trained listener of the next one."""
    begun = time.process_time()
    run, seeds = read_run(study.preset), seeds_of(study, args)
    if len(seeds) < 2:
        raise MissingError("it needs two seeds")
    other = seeds[(seeds.index(seed) + 1) % len(seeds)]
    speaker, listener = (
        policy_of(run, load_team(team_of(study, args, one))) for one in (seed, other)
    )
    after = played(run, {"speaker_0": speaker, "listener_0": listener})
    found = {"preset": study.preset, "arm": arm, "seed": seed, "listener": other}
    spent = {"measuring": time.process_time() - begun}
    return {**found, "after": {"heard": after}, "cpu_seconds": spent}


STUDY = Study(
    preset="referential_tiny",
    first_seed=105,  # settings were changed after 100 to 104 had been seen
    measure=measure,
    columns={
        "success": "heard/success",
        "silenced": "silenced/success",
        "legal": "heard/legal",
        "described": "heard/described",
        "similarity": "heard/similarity",
    },
    rises=("success",),
    more={"crossed": crossed},
)
