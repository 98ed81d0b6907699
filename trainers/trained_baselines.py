"""What a team trained with MAGRPO must be compared with, at equal cost: trained baselines.

Owns which methods are compared, how their costs are made equal, and the numbers;
`trained_baselines_report.py` shows them. The runs are
those of two sweeps (`sweep_run.py`): one tries learning rates, measured on the `val` split; one
trains every seed with the best of them, measured on `test`. `llm-marl train-baselines` prints it.

Methods, all from the same warm start (of each seed) and with the same tasks per update:

- `team`: the run file as it is, e.g. MAGRPO with one adapter for each seat.
- `single`: one policy writes all parts, told what all seats are told (`single_seat`): single-agent
  GRPO. The embedded model is warm-started for it on the same experts' parts in one chat.
- `alone`: each seat is trained in a run of its own beside the frozen warm start; then the trained
  seats are put together.
- `rejection`: the team imitates its own best episodes (`algorithms/rejection.py`).

Equal costs:

1. Generated tokens: the same number of actions with the same limit. A run of `alone` has the team's
   updates divided by the number of seats, because the frozen seats' tokens are generated too. What
   was in fact generated is counted.
2. Trained parameters: the single policy's adapter has the rank of all seats' adapters together (and
   the same alpha / rank).
3. Tuning trials: each run has the same learning rates to choose from, by the mean return on `val`
   of one more seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from llm_marl_envs.evaluation.json_files import read_json, write_json
from llm_marl_envs.registry import make
from trainers.sweep import SUMMARY_FILE, Point, read_sweep
from trainers.sweep_run import measure_point, run_sweep
from trainers.train import model_path, read_run

TEAM, SINGLE, ALONE, REJECTION = "team", "single", "alone", "rejection"
TUNING_SEED = 1000
"""Of the runs that try learning rates; none of the seeds that are reported."""
RESULTS_FILE = "trained_baselines.json"
VERSION = 1
FIXED = ("frozen", "policies", "weights", "policy_learning_rates")
"""Settings of the trainer that the methods decide."""
MEASURES = ("mean_return", "success", "cooperation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to train.

    Attributes:
        name: of the method.
        runs: name of each of its runs -> what it overrides in the run file.
        seats: seat -> the run that trains it; empty where one run trains all.
    """

    name: str
    runs: Mapping[str, Mapping[str, Any]]
    seats: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What one method reached with one seed.

    Attributes:
        seed: of warm start and training.
        before: measure -> value of the warm start, on the same tasks.
        after: measure -> value of what was trained.
        tokens: generated in training, over all runs of the method.
        parameters: trained, over all runs.
        updates: over all runs.
    """

    seed: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    tokens: float
    parameters: int
    updates: int


def methods(run: Mapping[str, Any]) -> tuple[Method, ...]:
    """The methods that a run file is compared with, itself first.

    Raises:
        ValueError: without adapters, a number of updates, or with partners: then costs cannot be
            made equal.
    """
    kwargs = dict(run.get("env_kwargs") or {})
    trainer, lora = run.get("trainer") or {}, run.get("lora")
    agents = list(make(run["env"], **kwargs).possible_agents)
    updates = trainer.get("max_steps") or 0
    taken = ["partners"] if run.get("partners") else []
    taken += [key for key in FIXED if trainer.get(key)]
    if lora is None or updates < len(agents) or taken or len(agents) < 2:
        raise ValueError(
            f"lora={lora!r}, max_steps={updates}, seats {agents}"
            + (f", {taken} set" if taken else "")
            + ": trained baselines need a run file with a `lora` section (one adapter for each "
            "seat), at least one update per seat, two seats or more, and every seat trained"
        )
    rank = lora.get("r", 8)  # PEFT's default
    alpha = lora.get("lora_alpha", 8)
    single = {
        "env_kwargs.single_seat": True,
        "lora.r": rank * len(agents),
        "lora.lora_alpha": alpha * len(agents),
    }
    each = {agent: f"{ALONE}_{agent}" for agent in agents}
    alone = {
        name: {
            "frozen": [other for other in agents if other != agent],
            "max_steps": updates // len(agents) + (seat < updates % len(agents)),
        }
        for seat, (agent, name) in enumerate(each.items())
    }
    return (
        Method(name=TEAM, runs={TEAM: {}}, seats={}),
        Method(name=SINGLE, runs={SINGLE: single}, seats={}),
        Method(name=ALONE, runs=alone, seats=each),
        Method(name=REJECTION, runs={REJECTION: {"algorithm": REJECTION}}, seats={}),
    )


def run_trained_baselines(
    config: str | Path,
    *,
    output: str | Path,
    seeds: int = 3,
    learning_rates: Sequence[float] = (),
    tasks: int = 128,
    jobs: int = 1,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Tune, train and measure every method; what is finished is skipped.

    Args:
        config: a run file or a preset, see `trainers.train`.
        output: folder of the sweeps, their runs and `trained_baselines.json`.
        seeds: how many are reported, from 0.
        learning_rates: each run tries all of them; the run file's own where empty, without tuning.
        tasks: of each measurement; while tuning, at most those of the `val` split.
        jobs: runs at a time.
        overrides: as for `llm-marl train`.

    Returns:
        What `trained_baselines.json` holds.

    Raises:
        ValueError: a run file whose costs cannot be made equal, or runs that failed.
    """
    run = read_run(config, overrides)
    compared, folder = methods(run), Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(run, sort_keys=False), encoding="utf-8")
    variants = {name: dict(run) for method in compared for name, run in method.runs.items()}
    rates = list(learning_rates) or [run["trainer"].get("learning_rate", 1e-6)]  # TRL's default
    held_out = len(make(run["env"], **{**(run.get("env_kwargs") or {}), "split": "val"}).source)
    chosen = _choose(folder, variants, rates, min(tasks, held_out), jobs)
    tuned = {name: {**run, "learning_rate": chosen[name]} for name, run in variants.items()}
    file = _write_sweep(folder, "final", tuned, seeds=list(range(seeds)), split="test", tasks=tasks)
    print(f"training: {seeds} seeds of each")
    run_sweep(file, jobs=jobs)
    points = {(point.settings["variant"], point.seed): point for point in read_sweep(file)}
    found = {
        "version": VERSION,
        "env_id": run["env"],
        "run": run,
        "trials": len(rates),
        "learning_rates": chosen,
        "tasks": tasks,
        "methods": {
            method.name: [asdict(_trained(method, points, seed)) for seed in range(seeds)]
            for method in compared
        },
    }
    write_json(folder / RESULTS_FILE, found)
    return found


def _choose(
    folder: Path, runs: Mapping[str, Mapping[str, Any]], rates: list[float], tasks: int, jobs: int
) -> dict[str, float]:
    """Run -> the best of the learning rates; nothing is tried where there is one."""
    if len(rates) == 1:
        return dict.fromkeys(runs, rates[0])
    file = _write_sweep(
        folder, "tuning", runs, seeds=[TUNING_SEED], split="val", tasks=tasks, rates=rates
    )
    print(f"tuning: {len(rates)} learning rates for each of {len(runs)} runs")
    return best_rates(run_sweep(file, jobs=jobs))


def best_rates(tuning: Mapping[str, Any]) -> dict[str, float]:
    """Run -> the learning rate with the highest mean return; the first of several."""
    best: dict[str, tuple[float, float]] = {}
    for one in tuning["runs"]:
        name, rate = one["settings"]["variant"], one["settings"]["learning_rate"]
        earned = one["results"]["mean_return"]
        if name not in best or earned > best[name][0]:
            best[name] = (earned, rate)
    return {name: rate for name, (_, rate) in best.items()}


def _write_sweep(
    folder: Path,
    name: str,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    seeds: Sequence[int],
    split: str,
    tasks: int,
    rates: Sequence[float] = (),
) -> Path:
    sweep = {
        "run": "run.yaml",
        "output": str(folder / name),
        "variants": {key: dict(value) for key, value in variants.items()},
        **({"grid": {"learning_rate": list(rates)}} if rates else {}),
        "seeds": list(seeds),
        "evaluate": {"tasks": tasks, "split": split},
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(sweep, sort_keys=False), encoding="utf-8")
    return file


def _trained(method: Method, points: Mapping[tuple[str, int], Point], seed: int) -> Trained:
    """The costs of a method's runs, and what the seats they trained reach together."""
    own = [points[name, seed] for name in method.runs]
    costs = [read_json(point.folder / SUMMARY_FILE)["results"] for point in own]
    place = own[0].folder.parent
    after: Mapping[str, Any] = costs[0]
    if method.seats:
        members = {s: str(points[name, seed].folder / "team") for s, name in method.seats.items()}
        first = next(iter(members.values()))
        after = measure_point(own[0], first, place / f"{method.name}_seed-{seed}", members)
    start = f"warm_start_{SINGLE if method.name == SINGLE else TEAM}_seed-{seed}"
    return Trained(
        seed=seed,
        before=measure_point(own[0], model_path(own[0].run), place / start),
        after={name: after[name] for name in MEASURES if name in after},
        tokens=sum(cost["tokens"] for cost in costs),
        parameters=sum(cost["trained_parameters"] for cost in costs),
        updates=sum(cost["updates"] for cost in costs),
    )
