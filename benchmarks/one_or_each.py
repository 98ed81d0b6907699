"""One embedded model that knows all families, or one each? Both, measured before any training.

    python benchmarks/one_or_each.py --seeds 1 --output runs/one_or_each
    python benchmarks/one_or_each.py --tasks 32 --scale 0.1      # a look in two minutes

Each family has a preset with its own number of warm-start steps. "each" warm-starts one model per
family as its preset says; "one, all steps" a model on the demonstrations of all families together
with the sum of the steps; "one, steps of one" the same with the most steps that one family takes.
All have the same size. Measured as `llm-marl demo` measures before training: held-out tasks, every
seat played by the model. Prints a table and writes `one_or_each.json`. One process, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from llm_marl_envs import make
from trainers.policies.token_policy import TokenPolicy
from trainers.studies.demo import HELD_OUT_TASKS, measure
from trainers.train import read_run
from trainers.weights.team_files import build_team_model
from trainers.weights.tiny import TinySettings, tiny_model

PRESETS = ("coop_coding_tiny", "coop_writing_tiny", "debate_tiny")
SHOWN = {
    "solved at temperature 1": "sampled_success",
    "greedy": "greedy_success",
    "return": "mean_return",
    "match": "convention_match",
}
"""Column -> key of what `measure` returns."""


def settings_of(run: Mapping[str, Any], scale: float) -> TinySettings:
    """The warm start that a preset asks for, its steps times `scale`."""
    settings = TinySettings(**(run.get("tiny") or {}))
    return settings.changed(steps=max(1, round(settings.steps * scale)))


def plans(runs: Sequence[Mapping[str, Any]], scale: float) -> dict[str, list[dict[str, Any]]]:
    """Name of a way -> its models, each with the runs it is measured on, ids and settings."""
    each = [settings_of(run, scale) for run in runs]
    together = replace(
        each[0],
        demonstrations=sum(one.demonstrations for one in each),
        learning_rate=min(one.learning_rate for one in each),
    )
    steps = [one.steps for one in each]
    return {
        "each": [{"runs": [run], "settings": one} for run, one in zip(runs, each, strict=True)],
        "one, all steps": [{"runs": runs, "settings": replace(together, steps=sum(steps))}],
        "one, steps of one": [{"runs": runs, "settings": replace(together, steps=max(steps))}],
    }


def measured(folder: str, run: Mapping[str, Any], n_tasks: int) -> dict[str, Any]:
    """What `llm-marl demo` measures before training, of the model in `folder`."""
    agents = make(run["env"]).possible_agents
    model = build_team_model(folder, agents, weights="shared")
    policy = TokenPolicy(model, max_completion_length=run["trainer"]["max_completion_length"])
    return measure(run, policy, run["env"], n_tasks).numbers


def run_seed(args: argparse.Namespace, seed: int) -> list[dict[str, Any]]:
    """One row per way and family."""
    runs = [read_run(preset) for preset in args.presets]
    rows: list[dict[str, Any]] = []
    for way, models in plans(runs, args.scale).items():
        for number, plan in enumerate(models):
            ids = [run["env"] for run in plan["runs"]]
            begun = time.process_time()
            folder = tiny_model(
                args.output
                / f"seed-{seed}"
                / f"{way.replace(', ', '_').replace(' ', '_')}-{number}",
                seed=seed,
                env_ids=ids,
                settings=plan["settings"],
                fresh=True,
            )
            seconds = time.process_time() - begun
            parameters = AutoModelForCausalLM.from_pretrained(folder).num_parameters()
            for run in plan["runs"]:
                row = {"way": way, "seed": seed, "env": run["env"], "steps": plan["settings"].steps}
                row |= {"cpu_seconds": seconds, "parameters": parameters}
                rows.append(row | measured(folder, run, args.tasks))
                args.output.mkdir(parents=True, exist_ok=True)
                print(json.dumps(rows[-1]), flush=True)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, one line per way, family and seed."""
    names = ["environment", "model", "seed", "steps", *SHOWN, "competence", "index", "CPU s"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in sorted(rows, key=lambda one: one["env"]):
        cells = [row["env"], row["way"], str(row["seed"]), str(row["steps"])]
        cells += [_number(row.get(key)) for key in SHOWN.values()]
        cells.append(" / ".join(_number(one) for one in row.get("competence", {}).values()) or "-")
        index = row["cooperation"]
        cells += [_number(index and index["mean"]), f"{row['cpu_seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    """Run every seed, print the table, write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="0 to this number less one")
    parser.add_argument("--tasks", type=int, default=HELD_OUT_TASKS, help="held-out tasks of each")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of steps")
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--output", type=Path, default=Path("runs/one_or_each"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    rows = [row for seed in range(args.seeds) for row in run_seed(args, seed)]
    (args.output / "one_or_each.json").write_text(json.dumps(rows, indent=2) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
