"""A benchmark of two small entries: talk with pay of each seat, and one turn of two writers."""

from __future__ import annotations

import dataclasses
from typing import Any

from llm_marl_envs.measure.runner import fingerprint_of_tasks, starts_of
from llm_marl_envs.measure.studies.benchmark import Benchmark, Entry


def entry(env_id: str, tasks: int, **kwargs: Any) -> Entry:
    """An entry of the first tasks of `test`, on a scale from -1 to 3."""
    one = Entry(
        id=env_id,
        kwargs={"split": "test", **kwargs},
        tasks=tasks,
        floor=-1.0,
        floor_rule="none",
        ceiling=3.0,
        tasks_sha256="unknown",
    )
    env = one.made()
    return dataclasses.replace(
        one, tasks_sha256=fingerprint_of_tasks(env, starts_of(one.plan, env)) or ""
    )


SMALL = Benchmark(
    name="small",
    max_tokens=16,
    temperature=1.0,
    entries={
        "trust": entry("trust_split-v0", 2, turns=2),
        "writing": entry("coop_writing_tldr-v0", 3),
    },
    sha256="0",
)
