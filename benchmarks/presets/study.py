"""One preset: how it is measured, its arms, one training, its table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.resumable import MissingError, Run, run_overrides, train_to_the_end
from llm_marl_envs import make
from llm_marl_envs.measure.numbers.estimates import over_runs
from llm_marl_envs.measure.numbers.format import with_interval
from trainers.policies.token_policy import TokenPolicy
from trainers.train import build_trainer, model_path, read_run

MEASURE_SEED = 1234
Settings = Mapping[str, Any]
"""What `read_run` returns."""
Seats = Mapping[str, TokenPolicy]
Arm = Callable[["Study", argparse.Namespace, str, int], Run]
"""(study, options, its own name, seed) -> the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """How one preset is measured.

    Attributes:
        preset: a run file of `trainers/presets`.
        first_seed: nothing was chosen on seeds from here on.
        measure: (run file, team) -> numbers, in nested maps, on the split `test`.
        columns: of the table: name -> where the number lies, "outer/inner".
        rises: the columns whose rise over all seeds is told; the first stands for the preset.
        seeds: how many are reported.
        changed: further arms that train the preset with overrides.
        more: further arms of another kind.
    """

    preset: str
    first_seed: int
    measure: Callable[[Settings, Seats], dict[str, Any]]
    columns: Mapping[str, str]
    rises: Sequence[str]
    seeds: int = 5
    changed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    more: Mapping[str, Arm] = field(default_factory=dict)

    @property
    def arms(self) -> dict[str, Arm]:
        """Name -> how its runs are made; those that need the teams of another come last."""
        changed = {"shuffled": ["shuffle_rewards=true"], **self.changed}
        others = {arm: partial(trained, changes=changes) for arm, changes in changed.items()}
        return {"preset": trained, **others, **self.more}


def held_out(run: Settings, **changes: Any) -> Any:
    """The environment of a run, with tasks that it has not learned from."""
    return make(run["env"], **{**run["env_kwargs"], "split": "test", **changes})


def seeds_of(study: Study, args: argparse.Namespace) -> range:
    """Those asked for, or the study's."""
    first = study.first_seed if args.first_seed is None else args.first_seed
    return range(first, first + (study.seeds if args.seeds is None else args.seeds))


# -- arms ------------------------------------------------------------------------------------------
def trained(
    study: Study,
    args: argparse.Namespace,
    arm: str,
    seed: int,
    *,
    changes: Sequence[str] = (),
    measure: Callable[[Settings, Seats], dict[str, Any]] | None = None,
) -> Run:
    """One training from the seed's warm start, measured before and after.

    Args:
        study: of the preset.
        args: of the command.
        arm: its name.
        seed: of everything.
        changes: overrides of the preset.
        measure: in place of the study's, of the seats that learn.
    """
    begun = time.process_time()
    with TemporaryDirectory() as folder:
        run = read_run(study.preset, [*changes, *run_overrides(args, folder, seed)])
        trainer = build_trainer({**run, "model": model_path(run, seed=seed)})
        ready = time.process_time()

        def numbers() -> dict[str, Any]:
            policy = policy_of(run, trainer.team)
            return (measure or study.measure)(run, dict.fromkeys(trainer.trained, policy))

        before = numbers()
        measured = time.process_time()
        train_to_the_end(trainer)
        done = time.process_time()
        after = numbers()
        trainer.save_team(team_folder(study, args, arm, seed))
    return {
        "preset": study.preset,
        "arm": arm,
        "seed": seed,
        "updates": trainer.state.global_step,
        "sampled_tokens": trainer.costs.tokens,
        "rewards": [log["reward"] for log in trainer.state.log_history if "reward" in log],
        "before": before,
        "after": after,
        "cpu_seconds": {
            "model": ready - begun,  # next to nothing where another arm has made it
            "training": done - measured,
            "measuring": measured - ready + time.process_time() - done,
        },
    }


def policy_of(run: Settings, team: Any) -> TokenPolicy:
    """A team that plays with texts as long as in training."""
    return TokenPolicy(team, max_completion_length=run["trainer"]["max_completion_length"])


def team_folder(study: Study, args: argparse.Namespace, arm: str, seed: int) -> Path:
    """Where the trained team of a run lies."""
    return args.teams / f"{study.preset}-{arm}-{seed}"


def team_of(study: Study, args: argparse.Namespace, seed: int) -> Path:
    """The folder of the trained team of a seed.

    Raises:
        MissingError: it is not there.
    """
    path = team_folder(study, args, "preset", seed)
    if not path.exists():
        raise MissingError(
            f"{path} is not there; arm `preset` makes it, where its JSON file is moved away"
        )
    return path


# -- the table -------------------------------------------------------------------------------------
def number(point: Mapping[str, Any] | None, place: str) -> float | None:
    """A number of a point, None where it was not measured."""
    found: Any = point
    for key in place.split("/"):
        found = (found or {}).get(key)
    return found


def cell(run: Mapping[str, Any], place: str) -> str:
    """`before -> after`, "-" for what was not measured."""
    found = [number(run[when], place) for when in ("before", "after") if when in run]
    if all(one is None for one in found):
        return "-"
    return " -> ".join("-" if one is None else f"{one:.2f}" for one in found)


def spread(study: Study, runs: Sequence[Mapping[str, Any]]) -> str:
    """A row of Markdown: lowest and highest value over seeds of what stands for the preset."""
    place, cells = study.columns[study.rises[0]], [f"`{study.preset}`", study.rises[0]]
    for arm, when in (("preset", "before"), ("preset", "after"), ("shuffled", "after")):
        found = [number(run[when], place) for run in runs if run["arm"] == arm]
        known = [one for one in found if one is not None]
        cells.append(f"{min(known):.2f} to {max(known):.2f}" if known else "-")
    return f"| {' | '.join(cells)} |"


def table(study: Study, runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: every run, then the mean rise of each arm."""
    columns = study.columns
    lines = [f"| arm | seed | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 2)]
    ordered = [run for arm in study.arms for run in runs if run["arm"] == arm]
    for run in ordered:
        cells = [run["arm"], str(run["seed"]), *(cell(run, place) for place in columns.values())]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for arm in study.arms:
        pairs = [
            (run["before"], run["after"])
            for run in ordered
            if run["arm"] == arm and "before" in run
        ]
        for name in study.rises:
            points = [[number(one, columns[name]) for one in pair] for pair in pairs]
            rises = [new - old for old, new in points if old is not None and new is not None]
            if len(rises) > 1:
                lines.append(f"- {arm}, rise of {name}: {with_interval(over_runs(rises))}")
    return "\n".join(lines)
