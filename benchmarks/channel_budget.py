"""What a budget of characters does to a trained team, in three environments, on five seeds.

    python -m benchmarks.channel_budget --picture docs/channel_budget.png
    python -m benchmarks.channel_budget --seeds 1 --tasks 8 --override max_tokens=9000 \
        --override tiny.steps=20 --output runs/look

A cell is one environment, one budget and one seed. The embedded model of a seed reads scripted
experts under the budget's notice; they talk as if talk were free. Then it is trained under the
budget as its preset says, but for what `PRESETS` changes, at a constant rate, and measured before
and after on held-out tasks (`test`) at temperature 1. The rates were chosen for free talk, which
they may favour. The cooperation index is that of the environment with free talk: 0 is what one seat
earns alone, 1 the most that a team earns. `characters` is how many a team sends in an episode.

The budget `free` is a channel without a limit, 0 one through which nothing comes.

One JSON file for each cell; those that are there are not made again, so a stopped call goes on, and
two calls with one of the `--envs` each can run side by side. Then prints the table. One process,
one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.resumable import options, run_overrides, runs_of, train_to_the_end
from llm_marl_envs import make
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.estimates import over_runs
from llm_marl_envs.measure.numbers.format import with_interval
from trainers.policies.token_policy import TokenPolicy
from trainers.train import build_trainer, model_path, read_run

FREE = "free"
DEBATE = ["max_tokens=75000", "learning_rate=4e-3"]
"""The rate is the best of five for free talk in debate-v0 (docs/conclusions.md)."""
PRESETS: dict[str, tuple[str, list[str]]] = {
    "referential-v0": ("referential_tiny", ["max_tokens=30000"]),
    "debate-v0": ("debate_tiny", DEBATE),
    "solve_critique_refine-v0": (
        "debate_tiny",
        ["env=solve_critique_refine-v0", 'env_kwargs.tasks="generated:safe"', *DEBATE],
    ),
}
"""Environment -> preset, and what is changed in it."""
BUDGETS: dict[str, tuple[int | None, ...]] = {
    "referential-v0": (0, 16, 22, None),
    "debate-v0": (0, 4, 6, None),
    "solve_critique_refine-v0": (0, 4, 6, None),
}
"""Environment -> budgets in characters of a text.

Experts' texts have 1 or 19 to 26 characters in referential-v0 and 5 to 7 in debate-v0. In
solve_critique_refine-v0 those of the critic have 5 to 7, and those of the generator 30 to 36, whose
first 5 to 7 are its word.
"""
FIRST_SEED = 101
"""Budgets and tokens were chosen on seeds 0 and 100, but for budget 22, see the page."""
SPLIT, MEASURE_SEED = "test", 77


def name_of(budget: int | None) -> str:
    """How a budget is called in files and tables."""
    return FREE if budget is None else str(budget)


def channel_of(budget: int | None) -> dict[str, int]:
    """The argument of `make`."""
    return {} if budget is None else {"max_chars": budget}


def run_file(
    args: argparse.Namespace, env_id: str, budget: int | None, seed: int, folder: str
) -> dict[str, Any]:
    """The preset of an environment under a budget."""
    preset, changes = PRESETS[env_id]
    changes = [*changes, f"env_kwargs.channel={json.dumps(channel_of(budget))}"]
    changes += ["max_steps=0", "lr_scheduler_type=constant"]
    return read_run(preset, [*changes, *run_overrides(args, folder, seed)])


def measured(run: Mapping[str, Any], policy: TokenPolicy, tasks: int) -> dict[str, Any]:
    """What a policy in all seats earns on held-out tasks, and what it sends."""

    def made() -> Any:
        return make(run["env"], **{**run["env_kwargs"], "split": SPLIT})

    team = dict.fromkeys(made().possible_agents, policy)
    result = evaluate_team(made, team, n_tasks=tasks, seed=MEASURE_SEED)
    sent = [sum(turn.info["sent"] for turn in one.turns) for one in result.episodes]
    return {
        "index": None if result.cooperation is None else result.cooperation.mean,
        "success": result.success,
        "return": result.mean_return,
        "characters": mean(sent),
    }


def run_one(args: argparse.Namespace, env_id: str, budget: int | None, seed: int) -> dict[str, Any]:
    """Warm-start, measure, train, measure."""
    begun = time.process_time()
    with TemporaryDirectory() as folder:
        run = run_file(args, env_id, budget, seed, folder)
        trainer = build_trainer({**run, "model": model_path(run, seed=seed)})
        limit = trainer.args.max_completion_length
        untrained = TokenPolicy(trainer.team, max_completion_length=limit)
        before = measured(run, untrained, args.tasks)
        train_to_the_end(trainer)
        after = measured(run, trainer.token_policy, args.tasks)
    return {
        "env": env_id,
        "budget": budget,
        "seed": seed,
        "updates": trainer.state.global_step,
        "before": before,
        "after": after,
        "cpu_seconds": time.process_time() - begun,
    }


def summary(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, int | None, list[Any]]]:
    """(environment, budget, cells) of each environment and budget, in the order of `BUDGETS`."""
    found = []
    for env_id, budgets in BUDGETS.items():
        for budget in budgets:
            mine = [one for one in cells if (one["env"], one["budget"]) == (env_id, budget)]
            found += [(env_id, budget, mine)] if mine else []
    return found


def table(cells: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one line for each environment and budget, means over seeds with 95 % intervals."""
    lines = [
        "| environment | budget | seeds | characters | index before | index after |",
        "|" + "---|" * 6,
    ]
    for env_id, budget, mine in summary(cells):
        after = with_interval(over_runs([one["after"]["index"] for one in mine]))
        row = [env_id, name_of(budget), str(len(mine))]
        row.append(f"{mean(one['after']['characters'] for one in mine):.0f}")
        row.append(f"{mean(one['before']['index'] for one in mine):.2f}")
        row.append(after)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def draw(cells: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Cooperation index against characters that a team sends in an episode; dots are seeds."""
    from matplotlib.figure import Figure

    shown: dict[str, list[Any]] = {}
    for env_id, _, mine in summary(cells):
        shown.setdefault(env_id, []).append(mine)
    figure = Figure(figsize=(3.2 * len(shown) + 0.4, 3.2), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, (env_id, groups) in zip(panels, shown.items(), strict=True):
        for when, colour, style in (("before", "0.6", "--"), ("after", "tab:blue", "-")):
            points = [[one[when] for one in group] for group in groups]
            for one in (point for group in points for point in group):
                panel.plot(one["characters"], one["index"], "o", color=colour, alpha=0.4)
            xs = [mean(one["characters"] for one in group) for group in points]
            ys = [mean(one["index"] for one in group) for group in points]
            panel.plot(xs, ys, style, color=colour, label=f"{when} training")
        panel.axhline(0, color="0.4", linewidth=0.8, linestyle=":")
        panel.set_title(env_id, fontsize=9)
        panel.set_xlabel("characters per episode")
    panels[0].set_ylabel("cooperation index")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Make the cells that are missing, then the table and the picture."""
    parser = options(
        "channel_budget", __doc__, output="benchmarks/results/channel", first_seed=FIRST_SEED
    )
    parser.add_argument("--envs", nargs="+", default=list(BUDGETS), choices=list(BUDGETS))
    parser.add_argument("--tasks", type=int, default=128, help="held-out tasks of a measurement")
    parser.add_argument("--picture", type=Path, help="draw it there; needs matplotlib")
    args = parser.parse_args()
    due = [
        (f"{env_id}-{name_of(budget)}-{seed}", partial(run_one, args, env_id, budget, seed))
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for env_id in args.envs
        for budget in BUDGETS[env_id]
    ]
    cells = runs_of(args, due)
    print(table(cells))
    if args.picture:
        draw(cells, args.picture)


if __name__ == "__main__":
    main()
