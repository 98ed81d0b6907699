"""Cells whose team is a language model: each run is one point of a sweep, with the real trainer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from benchmarks.comparison.cells import REPORT_SEED, TUNING_SEED, Cell, Line
from benchmarks.comparison.report import REFERENCE
from llm_marl_envs.envs.games.matrix_rules import GAMES
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.measure.run_manifest import MANIFEST_FILE

POINTS = 10
FACTOR = 1.4
"""By which the payoffs of the game are multiplied that rates are tuned on."""
CLIMBING: Any = [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
ROWS, COLUMNS = (2, 0, 1), (1, 2, 0)
"""The order of the actions in it."""
PERMUTED = [[CLIMBING[i][j] * FACTOR for j in COLUMNS] for i in ROWS]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBed:
    """A preset and what is compared in it.

    Attributes:
        preset: a run file of `trainers/presets`.
        methods: algorithms.
        rates: learning rates that are tried in any case.
        budget: tokens of a reported run.
        tuning_budget: tokens of a tuning run.
        seeds: that are reported; `more` of the reference.
        tuned: what tuning runs change in the run file.
        best: the reward that scores 1, and that of the tuning runs; None where the score is the
            success on held-out tasks, `val` in tuning and `test` in the report.
    """

    preset: str
    methods: Sequence[str]
    rates: Sequence[float]
    budget: int
    tuning_budget: int
    seeds: int = 5
    more: int = 10
    tuned: Mapping[str, Any] = field(default_factory=dict)
    best: tuple[float, float] | None = None


FAMILY = (REFERENCE, "rejection", "dr_mas", "central_critic")
FAMILY_RATES = (5e-4, 1e-3, 2e-3, 4e-3)
TEXT_BEDS = {
    "climbing": TextBed(
        preset="matrix_game_tiny",
        methods=(REFERENCE, "rejection", "hysteretic", "dr_mas", "c3_sim"),
        rates=(2.5e-4, 5e-4, 1e-3, 2e-3),
        budget=12_000,
        tuning_budget=12_000,
        seeds=20,
        more=20,
        tuned={"env_kwargs.tasks": [{"payoffs": PERMUTED, "id": "tuning", "split": "train"}]},
        best=(float(GAMES["climbing"].expected.max()), FACTOR * 11),
    ),
    "coop_coding": TextBed(
        preset="coop_coding_tiny",
        methods=(*FAMILY, "c3_sim"),
        rates=FAMILY_RATES,
        budget=150_000,
        tuning_budget=50_000,
    ),
    "coop_writing": TextBed(
        preset="coop_writing_tiny",
        methods=(*FAMILY, "c3_sim"),
        rates=FAMILY_RATES,
        budget=150_000,
        tuning_budget=50_000,
    ),
    "debate": TextBed(
        preset="debate_tiny",
        methods=(*FAMILY, "c3"),
        rates=FAMILY_RATES,
        budget=150_000,
        tuning_budget=50_000,
    ),
}


def text_cells(
    results: Path, name: str, methods: Sequence[str] | None, seeds: int | None
) -> list[Cell]:
    """Every method in a bed, the reference first.

    Raises:
        ValueError: no such bed.
    """
    if name not in TEXT_BEDS:
        raise ValueError(f"bed {name!r}: expected one of {[*TEXT_BEDS]}")
    bed, found = TEXT_BEDS[name], []
    for method in methods or bed.methods:
        reported = seeds or (bed.more if method == REFERENCE else bed.seeds)
        about = {"bed": f"text_{name}", "method": method, "preset": bed.preset}
        found.append(
            Cell(
                file=results / f"text_{name}" / f"{method}.jsonl",
                about={**about, "budget": bed.budget, "tuning_budget": bed.tuning_budget},
                rates=bed.rates,
                tuning=[TUNING_SEED],
                seeds=[REPORT_SEED + i for i in range(reported)],
            )
        )
    return found


def text_run(folder: Path, cell: Cell, part: str, rate: float, seeds: Sequence[int]) -> list[Line]:
    """Train with one seed, from where it was stopped; `folder` is where runs lie."""
    from trainers.studies.sweep import read_sweep
    from trainers.studies.sweep_run import run_point

    name, method = cell.about["bed"].removeprefix("text_"), cell.about["method"]
    bed, (seed,) = TEXT_BEDS[name], seeds
    budget = bed.tuning_budget if part == "tuning" else bed.budget
    changes = {"algorithm": method, "max_tokens": budget, "max_steps": 0}
    changes |= {"lr_scheduler_type": "constant", "transcript_every": 0, "disable_tqdm": True}
    changes |= {"save_strategy": "steps", "save_steps": 20, "save_total_limit": 1}
    sweep: dict[str, Any] = {
        "run": bed.preset,
        "output": str(folder / name / part),
        "variants": {method: {**changes, **(bed.tuned if part == "tuning" else {})}},
        "grid": {"learning_rate": [rate]},
        "seeds": [seed],
    }
    if bed.best is None:
        split, tasks = ("val", 64) if part == "tuning" else ("test", 128)
        sweep["evaluate"] = {"tasks": tasks, "split": split}
    file = folder / name / part / f"{method}_{rate:g}_{seed}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(sweep, sort_keys=False), encoding="utf-8")
    (point,) = read_sweep(file)
    begun = time.process_time()
    summary = run_point(point)
    costs, scores = curve_of(point.folder / "train" / "log.jsonl", bed, part)
    if bed.best is None:
        costs, scores = [*costs, costs[-1]], [*scores, summary["results"]["success"]]
    places = slice(None) if part == "report" else slice(-1, None)
    scores = [round(score, 4) for score in scores[places]]
    seconds, spent = round(time.process_time() - begun, 1), spent_in(point.folder / "train")
    return [Line(part, rate, seed, costs[places], scores, seconds, spent)]


def spent_in(run: Path) -> dict[str, float]:
    """What a training cost beside the costs of its curve, all of its sessions together."""
    counts = read_json(run / MANIFEST_FILE)["costs"]
    kinds = ("prompt_tokens", "new_prompt_tokens", "critic_tokens")
    return {**{one: counts[one] for one in kinds}, "wall_seconds": round(counts["seconds"], 1)}


def curve_of(log: Path, bed: TextBed, part: str) -> tuple[list[list[int]], list[float]]:
    """Costs so far and the mean score of each tenth of a run, from what it logged.

    The score of an update is that of its own episodes, so the last one is of the last tenth.
    """
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    entries = [one for one in entries if "num_tokens" in one]
    last = entries[-1]["num_tokens"]
    kinds = ("num_tokens", "cost/calls", "cost/updates", "cost/replayed_calls")
    costs, scores = [], []
    for _, some in groupby(entries, key=lambda one: -(-POINTS * one["num_tokens"] // last)):
        tenth = [*some]
        costs.append([int(tenth[-1][kind]) for kind in kinds])
        best = None if bed.best is None else bed.best[part == "tuning"]
        scores.append(
            fmean(one["success"] if best is None else one["reward"] / best for one in tenth)
        )
    return costs, scores
