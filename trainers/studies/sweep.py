"""A sweep: the points of a grid times seeds, each one training run and one evaluation.

Owns the sweep file and the folders of its runs. `sweep_run.py` carries the runs out. A sweep file
is YAML with these keys:

    run: coop_coding_tiny            # a run file or a preset, see `trainers.train`
    grid:                            # override -> its values; absent: one point
      learning_rate: [1e-3, 2e-3]
      env_kwargs.turns: [1, 2]
    variants:                        # name -> overrides that belong together; absent: one, unnamed
      team: {}
      single: {env_kwargs.single_seat: true, lora.r: 32}
    seeds: [0, 1, 2]                 # or a number: 3
    output: runs/learning_rate       # one folder below it for each run
    evaluate: {tasks: 128, split: test, temperature: 1.0, seed: 0}    # absent: no evaluation

Each variant is run at each point of the grid with each seed. The embedded model (`model: tiny`) is
warm-started with the run's seed unless `tiny.seed` is set. A run is finished when its
`summary.json` says so for the same settings.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.core.checks import check_types, refuse_unknown
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.measure.numbers.estimates import over_runs
from llm_marl_envs.measure.run_manifest import sha256
from llm_marl_envs.measure.runner import Plan, starts_of
from llm_marl_envs.play.registry import make
from trainers.run_file import KEYS as RUN_KEYS
from trainers.run_file import TINY, read_yaml
from trainers.train import read_run

SWEEP_VERSION = 1
KEYS = ("run", "grid", "variants", "seeds", "output", "evaluate")
EVALUATION = {"tasks": 100, "split": "test", "temperature": 1.0, "seed": 0}
SUMMARY_FILE = "summary.json"
POINT_FILE = "point.json"
TRAINED_FILE = "trained.json"
OWN_SETTINGS = ("seed", "output_dir", "resume_from_checkpoint")
MAX_NAME = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run of a sweep.

    Attributes:
        index: its place in the sweep.
        folder: where everything of it is written.
        settings: the grid's settings at this point, and "variant" where they have names.
        seed: of the run.
        run: the resolved contents of the run file.
        evaluation: arguments of the evaluation, None for none.
    """

    index: int
    folder: Path
    settings: Mapping[str, Any]
    seed: int
    run: Mapping[str, Any]
    evaluation: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def digest(self) -> str:
        """A hash of all that decides the result; the place of the folder does not."""
        trainer = {k: v for k, v in self.run["trainer"].items() if k != "output_dir"}
        decisive = {"run": {**self.run, "trainer": trainer}, "evaluation": self.evaluation}
        return sha256(json.dumps(decisive, sort_keys=True, default=str))

    def summary(self) -> dict[str, Any] | None:
        """What the finished run found; None where it is not finished or its file is unreadable.

        Raises:
            ValueError: the folder belongs to other settings.
        """
        for file in (POINT_FILE, TRAINED_FILE, SUMMARY_FILE):
            path = self.folder / file
            try:
                data = read_json(path)
            except ValueError:  # missing or half-written, so the run did not finish
                continue
            if data.get("digest") != self.digest:
                raise ValueError(
                    f"{path}: a run of other settings lies there; give the sweep another output, "
                    "or delete the folder"
                )
            if file == SUMMARY_FILE:
                return data
        return None


def read_sweep(file: str | Path) -> list[Point]:
    """The runs of a sweep file, in the order of the grid, seeds last.

    Every run's settings are checked, so that a misspelt one is found before the first run starts.

    Raises:
        ValueError: no such file, malformed YAML, an unknown key, values that are no lists, a
            setting that the sweep itself decides, or two runs of one name or of one meaning.
    """
    file = Path(file)
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    sweep = read_yaml(file)
    if not isinstance(sweep, dict):
        raise ValueError(f"{file}: expected a map with keys among {KEYS}")
    refuse_unknown(file, sweep, KEYS)
    for needed in ("run", "output"):
        if not isinstance(sweep.get(needed), str):
            raise ValueError(f"{file}: needs {needed!r}, a text")
    evaluation = sweep.get("evaluate")
    if evaluation is not None:
        if not isinstance(evaluation, dict):
            raise ValueError(f"{file}, evaluate: expected a map, got {evaluation!r:.200}")
        refuse_unknown(f"{file}, evaluate", evaluation, EVALUATION)
        hints = {name: type(value) for name, value in EVALUATION.items()}
        check_types(f"{file}, evaluate", evaluation, hints)
        evaluation = {**EVALUATION, **evaluation}
    beside = file.parent / sweep["run"]
    config = beside if beside.is_file() else sweep["run"]
    grid, seeds = _grid(file, sweep.get("grid")), _seeds(file, sweep.get("seeds", 1))
    variants = _variants(file, sweep.get("variants"), grid)
    points = []
    for (variant, changes), *values in itertools.product(variants.items(), *grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        settings = {"variant": variant, **chosen} if variant else chosen
        for seed in seeds:
            folder = Path(sweep["output"]) / _name(settings, seed)
            own = {**changes, **chosen, "seed": seed, "output_dir": str(folder / "train")}
            points.append(
                Point(
                    index=len(points),
                    folder=folder,
                    settings=settings,
                    seed=seed,
                    run=_resolved(config, own, seed),
                    evaluation=evaluation,
                )
            )
    names = [point.name for point in points]
    meanings: dict[str, str] = {}
    for point in points:
        other = meanings.setdefault(point.digest, point.name)
        if other != point.name:
            raise ValueError(f"{file}: {other!r:.200} and {point.name!r:.200} are the same run")
    _check_evaluations(file, points)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{file}: two runs are called {name!r:.200}; is a value listed twice?")
    return points


def _check_evaluations(file: Path, points: Sequence[Point]) -> None:
    """What could not be evaluated after hours of training is refused before."""
    for point in points:
        if point.evaluation is not None:
            asked = point.evaluation
            kwargs = {**(point.run.get("env_kwargs") or {}), "split": asked["split"]}
            try:
                starts_of(Plan(n_tasks=asked["tasks"]), make(point.run["env"], **kwargs))
            except ValueError as error:
                raise ValueError(f"{file}, evaluate: {error}") from error


def _resolved(config: str | Path, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The run file with a point's settings; the embedded model has the run's seed."""
    run = read_run(config, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    model = run["model"]
    if TINY in ([model] if isinstance(model, str) else model.values()):
        run["tiny"] = {"seed": seed, **(run.get("tiny") or {})}
    return run


def _variants(
    file: Path, variants: Any, grid: Mapping[str, Any]
) -> dict[str | None, dict[str, Any]]:
    if variants is None:
        return {None: {}}
    if not isinstance(variants, dict) or not variants:
        raise ValueError(f"{file}, variants: expected a map from names, got {variants!r:.200}")
    by_name: dict[str | None, dict[str, Any]] = {}
    for name, changes in variants.items():
        if not isinstance(changes, dict):
            raise ValueError(
                f"{file}, variants: {name!r:.200} needs a map of settings, got {changes!r:.200}"
            )
        if str(name) in by_name:
            raise ValueError(f"{file}, variants: two are called {name!r:.200}")
        by_name[str(name)] = own = _plain_keys(f"{file}, variants, {name!r}", changes)
        for key in own:
            taken = any(_overlap(key, other) for other in grid)
            if key in OWN_SETTINGS or taken:
                where = "the grid" if taken else "the sweep"
                raise ValueError(
                    f"{file}, variants: {key!r:.200} of {name!r:.200} is decided by {where}"
                )
    return by_name


def _plain_keys(where: str, settings: Mapping[Any, Any]) -> dict[str, Any]:
    """The settings by their short names: one of the trainer has two.

    Raises:
        ValueError: two of them set the same thing.
    """
    for name, other in itertools.combinations(map(str, settings), 2):
        if _overlap(name, other):
            raise ValueError(f"{where}: {name!r:.200} and {other!r:.200} set the same thing")
    return {str(key).removeprefix("trainer."): value for key, value in settings.items()}


def _overlap(key: str, other: str) -> bool:
    """Whether two settings are one, or one is a section that holds the other."""
    left, right = (
        f"{k}." if k.partition(".")[0] in RUN_KEYS else f"trainer.{k}." for k in (key, other)
    )
    return left.startswith(right) or right.startswith(left)


def _grid(file: Path, grid: Any) -> dict[str, list[Any]]:
    grid = {} if grid is None else grid
    if not isinstance(grid, dict):
        raise ValueError(f"{file}, grid: expected a map from settings to lists, got {grid!r:.200}")
    grid = _plain_keys(f"{file}, grid", grid)
    for key, values in grid.items():
        if key in OWN_SETTINGS:
            raise ValueError(
                f"{file}, grid: {key!r:.200} is decided by the sweep; for seeds use seeds:"
            )
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"{file}, grid: {key!r:.200} needs a list of values, got {values!r:.200}"
            )
    return grid


def _seeds(file: Path, seeds: Any) -> list[int]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
        return list(range(seeds))
    if isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds):
        return seeds
    raise ValueError(
        f"{file}, seeds: expected a number >= 1 or a list of whole numbers: {seeds!r:.200}"
    )


def _name(settings: Mapping[str, Any], seed: int) -> str:
    """A folder's name that a person can read; hashed at the end where that loses something."""
    text = "_".join([*(f"{key}-{value}" for key, value in settings.items()), f"seed-{seed}"])
    plain = re.sub(r"[^\w.+-]", "", text)
    if plain == text and len(text) <= MAX_NAME:
        return text
    digest = sha256(json.dumps(dict(settings), sort_keys=True))[:8]
    return f"{plain[: MAX_NAME - 30]}_{digest}_seed-{seed}"


def collect_results(points: Sequence[Point]) -> dict[str, Any]:
    """The finished runs, and for each setting the mean over its seeds with Student's interval.

    It takes seeds as draws from a normal distribution; None for a single one.
    """
    runs = [(point, point.summary()) for point in points]
    done = [(point, summary) for point, summary in runs if summary is not None]
    groups: dict[str, list[tuple[Point, dict[str, Any]]]] = {}
    for point, summary in done:
        key = json.dumps(dict(point.settings), sort_keys=True)
        groups.setdefault(key, []).append((point, summary))
    return {
        "version": SWEEP_VERSION,
        "runs": [
            {"name": p.name, "settings": dict(p.settings), "seed": p.seed, "results": s["results"]}
            for p, s in done
        ],
        "missing": [point.name for point, summary in runs if summary is None],
        "groups": [
            {
                "settings": dict(some[0][0].settings),
                "seeds": [point.seed for point, _ in some],
                "results": _over_seeds([summary["results"] for _, summary in some]),
            }
            for some in groups.values()
        ],
    }


def _over_seeds(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for result in results for name in result)
    estimates = {}
    for name in names:
        values = [result[name] for result in results if isinstance(result.get(name), (int, float))]
        if values:
            estimates[name] = asdict(over_runs(values))
    return estimates
