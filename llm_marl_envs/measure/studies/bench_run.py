"""A benchmark played: every entry that has a team, into one folder that can go on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_marl_envs.files.json_files import check_writable, write_json
from llm_marl_envs.measure.studies.bench_check import (
    EVERY_SEAT,
    refuse_edited,
    returns_of,
    seats_alone,
)
from llm_marl_envs.measure.studies.benchmark import (
    BENCH_FILE,
    Benchmark,
    Entry,
    check_tasks,
    scored,
    summed_up,
)
from llm_marl_envs.measure.studies.measure import measure_team

EVERY = ""
"""The team of each entry that has none of its own."""


def run_benchmark(
    chosen: Benchmark, teams: Mapping[str, str], output: str, *, solo: bool = False
) -> dict[str, Any]:
    """Play all entries that have a team; what is finished in `output` is only summed up.

    Args:
        chosen: the benchmark.
        teams: entry -> name of a team; under `EVERY` the team of all others.
        output: folder of `bench.json` and of one evaluation for each entry. Episodes that are
            there are first played again from their actions.
        solo: the team plays one seat, and the others stay silent: each seat in turn, and the best
            one counts.

    Returns:
        What `bench.json` holds: for each entry the `score` (0 is the best silent team, 1 the best
        team) with its 95 % interval and each task's return. `score` of the whole is the mean over
        all entries, None where one was not played.

    Raises:
        ValueError: an unknown entry, tasks that are not the frozen ones, episodes in `output` that
            do not come out as recorded, or as `measure_team`.
    """
    if unknown := sorted({*teams} - {*chosen.entries, EVERY}):
        raise ValueError(f"{chosen.name} has no {unknown}; it has {[*chosen.entries]}")
    asked = {name: teams.get(name, teams.get(EVERY)) for name in chosen.entries}
    played = {name: team for name, team in asked.items() if team is not None}
    for name in played:
        check_tasks(name, chosen.entries[name])
    file = Path(output) / BENCH_FILE
    check_writable(file)
    results = {
        name: _best(chosen, chosen.entries[name], team, Path(output) / name, solo)
        for name, team in played.items()
    }
    result = summed_up(chosen, results, solo=solo)
    write_json(file, result)
    return result


def _best(chosen: Benchmark, entry: Entry, team: str, folder: Path, solo: bool) -> dict[str, Any]:
    """The whole team; or its member of one seat among silent ones, where that earns most."""
    agents = entry.made().possible_agents
    tried = []
    for seat, partners in seats_alone(agents, solo).items():
        summary = _measured(chosen, entry, team, folder / seat, partners)
        about = {"team": team, "identity": summary["identity"]}
        seated = {} if seat == EVERY_SEAT else {"seat": seat}
        tried.append(scored(entry, returns_of(summary["tasks"]), {**about, **seated}))
    return max(tried, key=lambda result: result["score"])


def _measured(
    chosen: Benchmark, entry: Entry, team: str, folder: Path, partners: Mapping[str, str]
) -> dict[str, Any]:
    refuse_edited(entry, folder)
    return measure_team(
        entry.id,
        team=team,
        plan=entry.plan,
        sampling=chosen.sampling,
        output=str(folder),
        env_kwargs=entry.kwargs,
        partners=partners,
    )
