"""A frozen benchmark: the same episodes for everybody, and one file of scores to compare.

Owns what a benchmark is, the check that this release still plays it, its scores, and the file of
them. The benchmarks themselves are `data/bench-*.yaml`. `bench_run.py` plays, `bench_check.py`
plays a folder again, `fresh_tasks.py` makes a private set.

    llm-marl bench --team expert --output runs/bench/expert
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from llm_marl_envs import __version__
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import plain
from llm_marl_envs.files.foreign import yaml_of
from llm_marl_envs.files.json_files import finite, read_json
from llm_marl_envs.measure.numbers.estimates import Estimate, exact_mean, over_tasks
from llm_marl_envs.measure.numbers.format import format_table, number, with_interval
from llm_marl_envs.measure.runner import Plan, fingerprint_of_tasks, starts_of
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.named import Sampling

BENCH_FILE = "bench.json"
ROUNDING = 1e-9
"""By which numbers may differ that another machine summed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An environment as a benchmark plays it.

    Attributes:
        id: of the environment.
        kwargs: its arguments, the split among them.
        tasks: the first so many of the split.
        floor: mean return of the best team known that tells nothing (`--team wordless`), which
            scores 0.
        floor_rule: which of its rules that is.
        ceiling: the most that a team can return on average, which scores 1.
        tasks_sha256: of what these tasks ask; another value is another benchmark.
    """

    id: str
    kwargs: Mapping[str, Any]
    tasks: int
    floor: float
    floor_rule: str
    ceiling: float
    tasks_sha256: str

    @property
    def plan(self) -> Plan:
        """One episode of each task."""
        return Plan(n_tasks=self.tasks)

    def made(self) -> Any:
        """The environment; what a file says of it counts for nothing."""
        return make(self.id, **self.kwargs)

    def score(self, mean_return: float) -> float:
        """A return on the scale from `floor` to `ceiling`; below 0 is worse than silence."""
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
    paths = files("llm_marl_envs").joinpath("data").iterdir()
    return sorted(
        path.name.removesuffix(".yaml")
        for path in paths
        if path.name.startswith("bench-") and path.name.endswith(".yaml")
    )


def benchmark(name: str) -> Benchmark:
    """A benchmark by name.

    Raises:
        ValueError: this release has none of this name.
    """
    if name not in benchmarks():
        raise ValueError(f"benchmark {name!r:.200}: expected one of {benchmarks()}")
    data = files("llm_marl_envs").joinpath("data", f"{name}.yaml").read_bytes()
    fields = yaml_of(data, name)
    entries = {key: Entry(**entry) for key, entry in fields.pop("entries").items()}
    return Benchmark(**fields, entries=entries, sha256=hashlib.sha256(data).hexdigest())


def check_tasks(name: str, entry: Entry) -> None:
    """Refuse tasks that are not those which were frozen.

    Raises:
        ValueError: this release generates others.
    """
    env = entry.made()
    digest = fingerprint_of_tasks(env, starts_of(entry.plan, env))
    if digest != entry.tasks_sha256:
        raise ValueError(
            f"{name}: this release ({__version__}) has other tasks ({digest}) than the benchmark "
            f"({entry.tasks_sha256}); its scores could not be compared"
        )


# -- what a file holds ----------------------------------------------------------------------------
def scored(
    entry: Entry, returns: Mapping[str, float | None], about: Mapping[str, Any]
) -> dict[str, Any]:
    """What `bench.json` holds of an entry: all that follows from each task's return.

    Args:
        entry: as it was played.
        returns: task -> team return; None where the episode failed, which counts as the least that
            the environment pays.
        about: what follows from nothing: `team`, `identity`, perhaps `seat`.

    Raises:
        ValueError: other tasks than those of the entry, or a return that is no number or outside of
            the environment's range.
    """
    env = entry.made()
    _check_returns(entry, env, returns)
    least, source = env.unwrapped.reward_range[0], task_source(env)
    assert source is not None  # entries without tasks have no digest of them
    estimate = over_tasks(
        [least if value is None else value for value in returns.values()],
        [env.unwrapped.clusters(source[index]) for index in range(entry.tasks)],
    )
    ends = estimate.ci95  # a user's few tasks have none
    return {
        "score": entry.score(estimate.mean),
        "score_ci95": ends and [entry.score(end) for end in ends],
        "mean_return": estimate.mean,
        "return_ci95": ends and [*ends],
        "failed": sum(value is None for value in returns.values()),
        "env_id": entry.id,
        "env_kwargs": plain(entry.kwargs),
        "tasks_sha256": entry.tasks_sha256,
        "floor": entry.floor,
        "ceiling": entry.ceiling,
        **about,
        "returns": dict(returns),
    }


def _check_returns(entry: Entry, env: Any, returns: Mapping[str, float | None]) -> None:
    source, (low, high) = task_source(env), env.unwrapped.reward_range
    assert source is not None  # entries without tasks have no digest of them
    asked = [source[index].id for index in range(entry.tasks)]
    if [*returns] != asked:
        other = sorted({*returns} ^ {*asked}) or "another order"
        raise ValueError(
            f"{len(returns)} tasks, expected {len(asked)}; what differs: {other!r:.200}"
        )
    for task, value in returns.items():
        fits = value is None or (finite(value) and low - ROUNDING <= value <= high + ROUNDING)
        if not fits:
            raise ValueError(
                f"task {task!r:.200} returned {value!r:.200}, expected {low:g} to {high:g}"
            )


def summed_up(chosen: Benchmark, entries: Mapping[str, Any], *, solo: bool) -> dict[str, Any]:
    """What `bench.json` holds, of entries as `scored` has them."""
    scores = [entry["score"] for entry in entries.values()]
    return {
        "benchmark": chosen.name,
        "sha256": chosen.sha256,
        "library": __version__,
        "solo": solo,
        "score": exact_mean(scores) if len(scores) == len(chosen.entries) else None,
        "entries": dict(entries),
    }


def read_bench(path: str | Path, chosen: Benchmark) -> dict[str, Any]:
    """The scores in a `bench.json` or in its folder, worked out anew from each task's return.

    Args:
        path: the file, or its folder.
        chosen: what was played.

    Raises:
        ValueError: there is none; it is of another benchmark; its tasks are not the frozen ones, or
            a return cannot be; or it states what does not follow from its returns.
    """
    file = Path(path)
    file = file / BENCH_FILE if file.is_dir() else file
    stated = read_json(file)
    try:
        return _read_again(stated, chosen)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _read_again(stated: Mapping[str, Any], chosen: Benchmark) -> dict[str, Any]:
    if not (isinstance(stated.get("entries"), dict) and isinstance(stated.get("solo"), bool)):
        raise ValueError("expected what `llm-marl bench` wrote")
    kind = stated.get("benchmark"), stated.get("sha256")
    if kind != (chosen.name, chosen.sha256):
        raise ValueError(
            f"of {kind[0]!r:.200} ({kind[1]!s:.8}), expected {chosen.name!r:.200} "
            f"({chosen.sha256:.8}); "
            "scores of different benchmarks, or of other --seed-from, are not comparable"
        )
    entries = {}
    for name, entry in stated["entries"].items():
        if name not in chosen.entries or not isinstance(entry, dict):
            raise ValueError(f"entry {name!r:.200}: expected one of {[*chosen.entries]}")
        try:
            entries[name] = _entry_again(entry, chosen.entries[name], stated["solo"])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    again = {**summed_up(chosen, entries, solo=stated["solo"]), "library": stated.get("library")}
    _refuse_other("the whole", {**stated, "entries": {}}, {**again, "entries": {}})
    return again


def _entry_again(stated: Mapping[str, Any], entry: Entry, solo: bool) -> dict[str, Any]:
    returns = stated.get("returns")
    agents = entry.made().possible_agents
    about = {key: stated.get(key) for key in ("team", "identity", *(["seat"] if solo else []))}
    if not isinstance(returns, dict) or not isinstance(about["team"], str):
        raise ValueError("expected `team`, a text, and `returns`, a number for each task")
    if not isinstance(about["identity"], dict) or {*about["identity"]} != {*agents}:
        raise ValueError(
            f"identity={about['identity']!r:.200}: expected a text for each of {agents}"
        )
    if solo and about["seat"] not in agents:
        raise ValueError(f"seat {about['seat']!r:.200}: expected one of {agents}")
    again = scored(entry, returns, about)
    _refuse_other("the entry", stated, again)
    return again


def _refuse_other(what: str, stated: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    """Raise `ValueError` where a file states something else than what follows from its returns."""
    wrong = differences(stated, again)
    if wrong:
        raise ValueError(f"{what} states what its returns do not give: {'; '.join(wrong)}")


def differences(stated: Any, again: Any, where: str = "") -> list[str]:
    """Where two JSON values differ, as texts; numbers may differ by `ROUNDING`."""
    if isinstance(stated, Mapping) and isinstance(again, Mapping):
        keys = dict.fromkeys([*stated, *again])
        return [
            text
            for key in keys
            for text in differences(
                stated.get(key, "nothing"), again.get(key, "nothing"), f"{where}.{key}".lstrip(".")
            )
        ]
    if isinstance(stated, (list, tuple)) and isinstance(again, (list, tuple)):
        if len(stated) == len(again):
            pairs = enumerate(zip(stated, again, strict=True))
            return [text for i, pair in pairs for text in differences(*pair, f"{where}[{i}]")]
    elif _alike(stated, again):
        return []
    return [f"{where:.200}: {stated!r:.120} there, {again!r:.120} found"]


def _alike(stated: Any, again: Any) -> bool:
    whole = type(stated) is int and type(again) is int  # nobody rounds these
    if not whole and finite(stated) and finite(again):
        return math.isclose(stated, again, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return type(stated) is type(again) and stated == again


def bench_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """`bench_rows` as plain text; arguments and errors as there."""
    heading, *rows = bench_rows(results)
    return format_table(heading, rows)


def bench_rows(results: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Entries down, results across: scores with their 95 % intervals; headings first, means last.

    Args:
        results: heading -> what `run_benchmark` or `read_bench` returns.

    Raises:
        ValueError: results of different benchmarks.
    """
    kinds = {(result["benchmark"], result["sha256"]) for result in results.values()}
    if len(kinds) > 1:
        named = sorted(f"{name} ({digest[:8]})" for name, digest in kinds)
        raise ValueError(f"results of different benchmarks: {', '.join(named)}")
    columns = results.values()
    names = dict.fromkeys(name for result in columns for name in result["entries"])
    rows = [[name, *(_cell(result["entries"].get(name)) for result in columns)] for name in names]
    scores = [result["score"] for result in columns]
    means = ["" if score is None else number(score) for score in scores]
    return [["score", *results], *rows, ["mean", *means]]


def _cell(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return ""
    ends = entry["score_ci95"]
    return with_interval(Estimate(entry["score"], ends and (ends[0], ends[1])))
