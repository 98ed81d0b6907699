"""A frozen benchmark: the same episodes for everybody, and one file of scores to compare.

Owns what a benchmark is, the check that this release still plays it, and its scores. The benchmarks
themselves are `data/bench-*.yaml`.

    llm-marl bench --team expert --output runs/bench/expert
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from llm_marl_envs import __version__
from llm_marl_envs.evaluation.numbers.estimate import Estimate
from llm_marl_envs.evaluation.numbers.format import number, with_interval
from llm_marl_envs.evaluation.numbers.table import format_table
from llm_marl_envs.evaluation.play.runner import Plan, fingerprint_of_tasks, starts_of
from llm_marl_envs.evaluation.studies.measure import measure_team
from llm_marl_envs.files.json_files import check_writable, read_json, write_json
from llm_marl_envs.policies.named import Sampling
from llm_marl_envs.registry import make

BENCH_FILE = "bench.json"
EVERY = ""
"""The team of each entry that has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An environment as a benchmark plays it.

    Attributes:
        id: of the environment.
        kwargs: its arguments, the split among them.
        tasks: the first so many of the split.
        floor: mean return of random text, which scores 0.
        ceiling: the most that a team can return on average, which scores 1.
        tasks_sha256: of what these tasks ask; another value is another benchmark.
    """

    id: str
    kwargs: Mapping[str, Any]
    tasks: int
    floor: float
    ceiling: float
    tasks_sha256: str

    @property
    def plan(self) -> Plan:
        """One episode of each task."""
        return Plan(n_tasks=self.tasks)

    def score(self, mean_return: float) -> float:
        """A return on the scale from `floor` to `ceiling`; below 0 is worse than random text."""
        return (mean_return - self.floor) / (self.ceiling - self.floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What everybody plays.

    Attributes:
        name: with its version.
        max_tokens: most tokens of one action, for models.
        temperature: at which models sample.
        entries: by name.
        sha256: of the file that says all this.
    """

    name: str
    max_tokens: int
    temperature: float
    entries: Mapping[str, Entry]
    sha256: str

    @property
    def sampling(self) -> Sampling:
        """How models sample."""
        return Sampling(temperature=self.temperature, max_completion_length=self.max_tokens)


def benchmarks() -> list[str]:
    """Names of those that this release has."""
    found = files("llm_marl_envs").joinpath("data").iterdir()
    return sorted(
        one.name.removesuffix(".yaml")
        for one in found
        if one.name.startswith("bench-") and one.name.endswith(".yaml")
    )


def benchmark(name: str) -> Benchmark:
    """A benchmark by name.

    Raises:
        ValueError: this release has none of this name.
    """
    if name not in benchmarks():
        raise ValueError(f"benchmark {name!r}: expected one of {benchmarks()}")
    data = files("llm_marl_envs").joinpath("data", f"{name}.yaml").read_bytes()
    told = yaml.safe_load(data)
    entries = {key: Entry(**one) for key, one in told.pop("entries").items()}
    return Benchmark(**told, entries=entries, sha256=hashlib.sha256(data).hexdigest())


def check_tasks(name: str, entry: Entry) -> None:
    """Refuse tasks that are not those which were frozen.

    Raises:
        ValueError: this release generates others.
    """
    env = make(entry.id, **entry.kwargs)
    found = fingerprint_of_tasks(env, starts_of(entry.plan, env))
    if found != entry.tasks_sha256:
        raise ValueError(
            f"{name}: this release ({__version__}) has other tasks ({found}) than the benchmark "
            f"({entry.tasks_sha256}); its scores could not be compared"
        )


def run_benchmark(
    chosen: Benchmark, teams: Mapping[str, str], output: str, *, solo: bool = False
) -> dict[str, Any]:
    """Play all entries that have a team; what is finished in `output` is only summed up.

    Args:
        chosen: the benchmark.
        teams: entry -> name of a team; under `EVERY` the team of all others.
        output: folder of `bench.json` and of one evaluation for each entry.
        solo: the team plays one seat, and the others stay silent: each seat in turn, and the best
            one counts.

    Returns:
        What `bench.json` holds: for each entry the `score` (0 is random text, 1 the best team)
        with its 95 % interval, the numbers of its evaluation and each task's return. `score` of
        the whole is the mean over all entries, None where one was not played.

    Raises:
        ValueError: an unknown entry, tasks that are not the frozen ones, or as `measure_team`.
    """
    if unknown := sorted({*teams} - {*chosen.entries, EVERY}):
        raise ValueError(f"{chosen.name} has no {unknown}; it has {[*chosen.entries]}")
    asked = {name: teams.get(name, teams.get(EVERY)) for name in chosen.entries}
    played = {name: team for name, team in asked.items() if team is not None}
    for name in played:
        check_tasks(name, chosen.entries[name])
    file = Path(output) / BENCH_FILE
    check_writable(file)
    found: dict[str, Any] = {}
    for name, team in played.items():
        entry = chosen.entries[name]
        folder = Path(output) / name
        summary = (_best_seat if solo else _whole)(chosen, entry, team, folder)
        score = entry.score(summary["mean_return"])
        ci95 = [entry.score(end) for end in summary["return_ci95"]]
        returns = {one["task_id"]: next(iter(one["returns"]), None) for one in summary.pop("tasks")}
        found[name] = {"score": score, "score_ci95": ci95, **summary, "returns": returns}
    scores = [one["score"] for one in found.values()]
    whole = len(scores) == len(chosen.entries)
    result = {
        "benchmark": chosen.name,
        "sha256": chosen.sha256,
        "library": __version__,
        "solo": solo,
        "score": sum(scores) / len(scores) if whole else None,
        "entries": found,
    }
    write_json(file, result)
    return result


def _whole(chosen: Benchmark, entry: Entry, team: str, folder: Path) -> dict[str, Any]:
    return _measured(chosen, entry, team, folder, {})


def _best_seat(chosen: Benchmark, entry: Entry, team: str, folder: Path) -> dict[str, Any]:
    """The team's member of one seat among silent ones, where that earns most."""
    agents = make(entry.id, **entry.kwargs).possible_agents
    seats = {
        agent: _measured(
            chosen,
            entry,
            team,
            folder / agent,
            {other: "silent" for other in agents if other != agent},
        )
        for agent in agents
    }
    best = max(seats, key=lambda agent: seats[agent]["mean_return"])
    return {**seats[best], "seat": best}


def _measured(
    chosen: Benchmark, entry: Entry, team: str, folder: Path, partners: Mapping[str, str]
) -> dict[str, Any]:
    return measure_team(
        entry.id,
        team=team,
        plan=entry.plan,
        sampling=chosen.sampling,
        output=str(folder),
        env_kwargs=entry.kwargs,
        partners=partners,
    )


def read_bench(path: str | Path) -> dict[str, Any]:
    """The scores in a `bench.json` or in its folder.

    Raises:
        ValueError: there is none, or it is no such file.
    """
    file = Path(path)
    file = file / BENCH_FILE if file.is_dir() else file
    found = read_json(file)
    if not isinstance(found, dict) or "benchmark" not in found:
        raise ValueError(f"{file}: expected what `llm-marl bench` wrote")
    return found


def bench_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Entries down, results across: scores with their 95 % intervals.

    Args:
        results: heading -> what `run_benchmark` or `read_bench` returns.

    Raises:
        ValueError: results of different benchmarks.
    """
    kinds = {(one["benchmark"], one["sha256"]) for one in results.values()}
    if len(kinds) > 1:
        named = sorted(f"{name} ({digest[:8]})" for name, digest in kinds)
        raise ValueError(f"results of different benchmarks: {', '.join(named)}")
    columns = results.values()
    names = dict.fromkeys(name for one in columns for name in one["entries"])
    rows = [(name, *(_cell(one["entries"].get(name)) for one in columns)) for name in names]
    scores = [one["score"] for one in columns]
    rows.append(("mean", *("" if one is None else number(one) for one in scores)))
    return format_table(("score", *results), rows)


def _cell(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return ""
    low, high = entry["score_ci95"]
    return with_interval(Estimate(entry["score"], (low, high)))
