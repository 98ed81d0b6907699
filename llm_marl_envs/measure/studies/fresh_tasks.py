"""A benchmark with tasks of one's own: drawn with a text that nobody else knows.

Owns which tasks these are, and the scale of an entry: its floor is what the wordless team earns on
its tasks, its ceiling what the best team can. The frozen benchmarks have theirs from here, too.

Sources that draw task i from a number i go on behind their lists, so nobody has seen these tasks.
The others list all that there is, or draw each task after those before: there the tasks are chosen
by lot from the list, less the frozen ones.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.tasks import IndexedSource, ListSource, Task
from llm_marl_envs.measure.runner import evaluate_team, fingerprint_of_tasks, starts_of
from llm_marl_envs.measure.studies.benchmark import Benchmark, Entry
from llm_marl_envs.policies.named import Context, named_team

FIRST = 60
"""Fresh numbers begin at a multiple of it: sources may let kinds of tasks take turns."""
PLACES = 10**12


def secret_of(source: str) -> str:
    """A text, or what stands in the file of that name.

    Raises:
        ValueError: it is empty.
    """
    path = Path(source)
    text = path.read_text(encoding="utf-8") if path.is_file() else source
    if not text.strip():
        raise ValueError("--seed-from: an empty text; expected one that nobody else knows")
    return text.strip()


def fresh_benchmark(chosen: Benchmark, secret: str, names: Collection[str]) -> Benchmark:
    """The benchmark with other tasks, the same for the same text.

    Args:
        chosen: whose environments, numbers of tasks and splits it keeps.
        secret: of any length; who knows it can make these tasks.
        names: of the entries whose scale is measured, a minute for all of a benchmark; the scale
            of the others is not to be used.
    """
    digest = hashlib.sha256(f"{chosen.sha256}/{secret}".encode()).hexdigest()
    entries = {key: fresh_entry(entry, f"{secret}/{key}") for key, entry in chosen.entries.items()}
    for name in {*names} & {*entries}:
        entries[name] = rescaled(entries[name])
    return replace(chosen, name=f"{chosen.name}, own tasks", entries=entries, sha256=digest)


def fresh_entry(entry: Entry, secret: str) -> Entry:
    """The entry with other tasks, on the old scale."""
    tasks = fresh_tasks(entry, secret)
    fresh = replace(entry, kwargs={**entry.kwargs, "tasks": ListSource(tasks, tasks[0].split)})
    env = fresh.made()
    return replace(fresh, tasks_sha256=fingerprint_of_tasks(env, starts_of(fresh.plan, env)) or "")


def fresh_tasks(entry: Entry, secret: str) -> list[Task]:
    """As many tasks as an entry has, none of which is among its own."""
    source = task_source(entry.made())
    assert isinstance(source, IndexedSource)  # what is generated
    seed = derive_seed("bench", secret)
    if not source.endless:
        rest = random.Random(seed).sample(range(entry.tasks, len(source)), entry.tasks)
        return [source[index] for index in rest]
    first = (len(source) // FIRST + 1 + seed % PLACES) * FIRST
    numbers = range(first, first + entry.tasks)
    return [source.make(number, f"{source.split}/{number}") for number in numbers]


def rescaled(entry: Entry) -> Entry:
    """The entry with floor and ceiling of its own tasks."""
    return replace(entry, floor=floor_of(entry), ceiling=ceiling_of(entry))


def floor_of(entry: Entry) -> float:
    """Mean return of the wordless team on the tasks of an entry, four decimals."""
    team = named_team("wordless", Context(env=entry.made()))
    return round(evaluate_team(entry.made, team.seats, n_tasks=entry.tasks).mean_return, 4)


def rule_of(entry: Entry) -> str:
    """The rule of that team."""
    identity = named_team("wordless", Context(env=entry.made())).identity
    return next(iter(identity.values())).rpartition(":")[2]


def ceiling_of(entry: Entry) -> float:
    """The most that a team can return, mean over tasks, four decimals; 1 where it is not known."""
    env = entry.made().unwrapped
    try:
        return round(fmean(env.bounds(env.source[i]).team for i in range(entry.tasks)), 4)
    except ValueError:
        return 1.0
