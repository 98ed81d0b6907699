"""`llm-marl cross-play`, `contribution`, `sweep`, `train-baselines`, `table` and `collect`.

Owns their arguments and what they print.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from llm_marl_envs.commands import add_task_arguments, env_kwargs_of, quiet_libraries

TEAM_HELP = (
    "folder of a saved team, or a policy for every seat: expert, expert:<convention>, random, "
    "tiny, endpoint:URL#MODEL or a Transformers model"
)


def add_research(
    add: Callable[..., Any], add_env_arguments: Callable[[Any], None], assignments: Any
) -> None:
    """Register the commands.

    Args:
        add: `add(name, run, about, example)` returns the command's parser.
        add_env_arguments: adds `--set`.
        assignments: reads KEY=VALUE pairs.
    """
    command = add(
        "cross-play",
        lambda options: _cross_play(options, assignments),
        "Seat members of several teams together, in every pairing.",
        "coop_coding-v0 --team a=runs/0/team --team b=runs/1/team --partners --output runs/cross",
    )
    command.add_argument("id", help="id of an environment")
    command.add_argument(
        "--team",
        action="append",
        required=True,
        metavar="[NAME=]TEAM",
        help=f"{TEAM_HELP}; at least two",
    )
    command.add_argument(
        "--partners", action="store_true", help="also beside scripted experts of each convention"
    )
    _add_plan(command)
    _add_transfer(command)
    command.add_argument(
        "--output", help="folder for cross_play.json and heat_map.png (needs matplotlib)"
    )
    add_env_arguments(command)
    command = add(
        "contribution",
        lambda options: _contribution(options, assignments),
        "What each action and each message of a team is worth.",
        "coop_coding-v0 --team runs/demo/team --replacement random --tasks 50",
    )
    command.add_argument("id", help="id of an environment")
    command.add_argument("--team", required=True, help=TEAM_HELP)
    command.add_argument(
        "--replacement", help="a team whose members replace single actions; empty texts by default"
    )
    command.add_argument("--other", help="a team whose messages are heard instead")
    _add_plan(command)
    _add_transfer(command)
    command.add_argument("--output", help="a JSON file")
    add_env_arguments(command)
    _add_runs(add)
    _add_table(add)
    _add_collect(add, add_env_arguments, assignments)


def _add_runs(add: Callable[..., Any]) -> None:
    command = add(
        "sweep",
        _sweep,
        "Train and evaluate a grid of settings times seeds; what is finished is skipped.",
        "sweep.yaml --jobs 2",
    )
    command.add_argument("file", help="a sweep file, see trainers/studies/sweep.py")
    command.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    command.add_argument(
        "--devices", default="", help="CUDA devices separated by commas, one for each job"
    )
    command.add_argument("--slurm", metavar="FILE", help="write a SLURM array script, run nothing")
    command.add_argument(
        "--slurm-option", action="append", default=[], metavar="--KEY=VALUE", help="for the script"
    )
    command = add(
        "train-baselines",
        _train_baselines,
        "Compare a run with trained baselines at equal tokens, parameters and tuning trials: one "
        "policy that writes all parts, each seat trained alone, rejection sampling.",
        "coop_coding_tiny --seeds 5 --learning-rates 1e-3 2e-3 4e-3 --output runs/baselines",
    )
    command.add_argument("config", help="a run file or a preset with a lora section")
    command.add_argument("--seeds", type=int, default=3, help="how many, from 0 (default 3)")
    command.add_argument(
        "--learning-rates",
        type=float,
        nargs="+",
        default=[],
        metavar="RATE",
        help="each method tries all; the run file's own, untuned, where not given",
    )
    command.add_argument("--tasks", type=int, default=128, help="of a measurement (default 128)")
    command.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    command.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    command.add_argument("--output", required=True, help="folder; what is finished there is kept")


def _add_table(add: Callable[..., Any]) -> None:
    command = add(
        "table",
        _table,
        "A table of evaluations or of a sweep.",
        "MAGRPO=runs/magrpo single=runs/single --latex --columns success mean_return",
    )
    command.add_argument(
        "path",
        nargs="+",
        metavar="[NAME=]PATH",
        help="folders of results, or of folders of results; a name stands for the team's",
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--latex", action="store_true", help="LaTeX with booktabs, else text")
    form.add_argument("--markdown", action="store_true", help="Markdown, else text")
    command.add_argument("--columns", nargs="+", metavar="NAME", help="which numbers")
    command.add_argument(
        "--best",
        action="store_true",
        help="mark the best value of each column that has a better side: bold, in text a star; "
        "ties as shown. It marks and claims nothing: where intervals overlap the order may be "
        "chance (see llm-marl compare)",
    )
    command.add_argument(
        "--caption", help="text, escaped, for a table environment around it (with --latex)"
    )
    command.add_argument("--label", help="for references (with --latex)")
    command.add_argument("--output", help="a file; printed where not given")


def _add_collect(
    add: Callable[..., Any], add_env_arguments: Callable[[Any], None], assignments: Any
) -> None:
    command = add(
        "collect",
        lambda options: _collect(options, assignments),
        "Write a team's episodes as a dataset, with token ids, log-probs and rewards.",
        "coop_coding-v0 --team runs/demo/team --tasks 100 --output runs/episodes",
    )
    command.add_argument("id", help="id of an environment")
    command.add_argument("--team", required=True, help=TEAM_HELP)
    command.add_argument(
        "--partner", action="append", default=[], metavar="AGENT=POLICY", help="who plays a seat"
    )
    command.add_argument("--format", default="jsonl", help="jsonl or parquet (default jsonl)")
    command.add_argument("--shard", type=int, default=1024, help="episodes per file (default 1024)")
    command.add_argument("--output", required=True, help="folder of the dataset")
    _add_plan(command, split="train")
    _add_transfer(command)
    add_env_arguments(command)


def _add_plan(command: Any, split: str = "test") -> None:
    add_task_arguments(command, split=split)
    command.add_argument("--samples", type=int, default=1, help="episodes per task (default 1)")
    command.add_argument("--seed", type=int, default=0, help="default 0")
    command.add_argument("--temperature", type=float, default=1.0, help="0 is greedy (default 1)")


def _add_transfer(command: Any) -> None:
    command.add_argument(
        "--transfer", action="store_true", help="allow a team trained in another environment"
    )


def named_arguments(given: Sequence[str]) -> dict[str, str]:
    """{"a": "x", "runs/y": "runs/y"} from ["a=x", "runs/y"]; a path that exists is no pair.

    Raises:
        ValueError: a name comes twice.
    """
    found: dict[str, str] = {}
    for one in given:
        name, equals, team = one.partition("=")
        if not equals or Path(one).exists() or "/" in name or ":" in name:
            name, team = one, one
        if name in found:
            raise ValueError(f"{name!r} is given twice; name them apart: a={team}")
        found[name] = team
    return found


def _named(options: Namespace, name: str, kwargs: dict[str, Any]) -> Any:
    from llm_marl_envs.policies.named import Sampling, named_team
    from llm_marl_envs.registry import make

    sampling = Sampling(temperature=options.temperature)
    sampling.check_samples(options.samples)
    env = make(options.id, **kwargs)
    return named_team(name, env, sampling, transfer=options.transfer)


def _cross_play(options: Namespace, assignments: Any) -> None:
    from llm_marl_envs.evaluation.play.progress import counter
    from llm_marl_envs.evaluation.studies.cross_play import cross_play
    from llm_marl_envs.evaluation.studies.cross_play_files import report, write_cross_play
    from llm_marl_envs.evaluation.studies.heat_map import require_matplotlib, save_heat_map
    from llm_marl_envs.evaluation.studies.zero_shot import zero_shot
    from llm_marl_envs.files.json_files import check_writable
    from llm_marl_envs.files.run_manifest import recording
    from llm_marl_envs.registry import make

    quiet_libraries()
    folder = Path(options.output or ".")
    table, picture = folder / "cross_play.json", folder / "heat_map.png"
    if options.output:  # what would fail at the end of hours fails now
        require_matplotlib()
        check_writable(table, picture)
    kwargs = env_kwargs_of(options, assignments)
    given = named_arguments(options.team)
    named = {name: _named(options, team, kwargs) for name, team in given.items()}
    teams = {name: one.seats for name, one in named.items()}
    plan = {"n_tasks": options.tasks, "samples": options.samples, "seed": options.seed}
    identities = {name: one.identity for name, one in named.items()}

    def env() -> Any:
        return make(options.id, **kwargs)

    with recording(
        folder,
        "cross-play",
        {"teams": identities, "plan": plan, "partners": options.partners},
        env_id=env().spec.id,
        env_kwargs=kwargs,
        write=bool(options.output),
    ):
        with counter(None, f"cross-play {options.id}") as progress:
            result = cross_play(env, teams, **plan, progress=progress)
        partners = ()
        if options.partners:
            with counter(None, f"scripted partners {options.id}") as progress:
                partners = zero_shot(env, teams, **plan, progress=progress)
    print(report(result, partners))
    if options.output:
        write_cross_play(table, result, partners)
        save_heat_map(result, picture)
        print(f"written to {folder}")


def _contribution(options: Namespace, assignments: Any) -> None:
    from llm_marl_envs.evaluation.play.paired import Stage, make_schedule
    from llm_marl_envs.evaluation.play.progress import counter
    from llm_marl_envs.evaluation.studies.contribution import contributions
    from llm_marl_envs.evaluation.studies.messages import message_effects
    from llm_marl_envs.files.json_files import check_writable, write_json
    from llm_marl_envs.records import plain
    from llm_marl_envs.registry import make

    quiet_libraries()
    if options.output:
        check_writable(options.output)
    kwargs = env_kwargs_of(options, assignments)

    def env() -> Any:
        return make(options.id, **kwargs)

    named = {
        role: _named(options, name, kwargs)
        for role in ("team", "replacement", "other")
        if (name := getattr(options, role))
    }
    team = named["team"].seats
    replacement = named["replacement"].seats if options.replacement else ""
    other = named["other"].seats if options.other else None
    plan = {"n_tasks": options.tasks, "samples": options.samples, "seed": options.seed}
    schedule = make_schedule(env(), **plan)
    with counter(None, f"actions replaced, {options.id}") as progress:
        stage = Stage(env, progress=progress)
        actions = contributions(stage, schedule, team, replacement)
        stage.close()
    with counter(None, f"messages changed, {options.id}") as progress:
        stage = Stage(env, progress=progress)
        messages = message_effects(stage, schedule, team, other=other, seed=options.seed)
        stage.close()
    print(_contribution_tables(actions, messages))
    if options.output:
        asked = {"env_id": env().spec.id, "env_kwargs": plain(kwargs), "plan": plan}
        asked["identities"] = {role: one.identity for role, one in named.items()}
        found = {"actions": [asdict(a) for a in actions], "messages": [asdict(m) for m in messages]}
        write_json(options.output, {"version": 1, **asked, **found})
        print(f"written to {options.output}")


def _contribution_tables(actions: Sequence[Any], messages: Sequence[Any]) -> str:
    from llm_marl_envs.evaluation.numbers.table import format_table, with_interval

    rows = [
        (
            f"{one.agent}, {'all turns' if one.turn is None else f'turn {one.turn}'}",
            with_interval(one.lost.mean, one.lost.ci95),
            f"{one.changed:.2f}",
            str(one.failed),
        )
        for one in actions
    ]
    heard = [
        (
            f"{one.speaker}, {one.intervention}",
            with_interval(one.lost.mean, one.lost.ci95),
            f"{one.heard:.2f}",
            str(one.failed),
        )
        for one in messages
    ]
    return "\n\n".join(
        [
            format_table(("action replaced", "return lost", "changed", "failed"), rows),
            format_table(("message changed", "return lost", "heard", "failed"), heard),
        ]
    )


def _sweep(options: Namespace) -> None:
    from llm_marl_envs.policies.local import trainers_module

    quiet_libraries()
    runs = trainers_module("studies.sweep_run", "a sweep")
    if options.slurm:
        number = runs.write_slurm(options.file, options.slurm, options.slurm_option)
        print(f"{options.slurm}: {number} runs; start them with sbatch {options.slurm}")
        return
    devices = [one for one in options.devices.split(",") if one]
    results = runs.run_sweep(options.file, jobs=options.jobs, devices=devices)
    print(f"{len(results['runs'])} runs finished, {len(results['missing'])} missing")


def _train_baselines(options: Namespace) -> None:
    from llm_marl_envs.policies.local import trainers_module

    quiet_libraries()
    baselines = trainers_module("studies.trained_baselines", "trained baselines")
    found = baselines.run_trained_baselines(
        options.config,
        output=options.output,
        seeds=options.seeds,
        learning_rates=options.learning_rates,
        tasks=options.tasks,
        jobs=options.jobs,
        overrides=options.override,
    )
    report = trainers_module("studies.trained_baselines_report", "trained baselines")
    print("\n" + report.baselines_table(found))
    report.save_picture(found, Path(options.output))
    print(f"written to {options.output}")


def _table(options: Namespace) -> None:
    from llm_marl_envs.evaluation.numbers.latex import (
        latex_table,
        markdown_table,
        rows_at,
        text_table,
    )

    if not options.latex and (options.caption is not None or options.label is not None):
        raise ValueError("--caption and --label are for --latex")
    rows = []
    for name, path in named_arguments(options.path).items():
        found = rows_at(path)
        if name != path:
            alone = len(found) == 1
            found = [replace(row, label=name if alone else f"{name}: {row.label}") for row in found]
        rows += found
    if options.latex:
        about = {"caption": options.caption, "label": options.label}
        text = latex_table(rows, options.columns, **about, best=options.best)
    elif options.markdown:
        text = markdown_table(rows, options.columns, best=options.best)
    else:
        text = text_table(rows, options.columns, best=options.best) + "\n"
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
        print(f"written to {options.output}")
    else:
        print(text, end="")


def _collect(options: Namespace, assignments: Any) -> None:
    from llm_marl_envs.evaluation.play.runner import Plan
    from llm_marl_envs.evaluation.studies.collect_dataset import Shards, run_collect
    from llm_marl_envs.policies.named import Sampling

    quiet_libraries()
    run_collect(
        options.id,
        team=options.team,
        shards=Shards(folder=options.output, kind=options.format, episodes=options.shard),
        plan=Plan(n_tasks=options.tasks, samples=options.samples, seeds=(options.seed,)),
        sampling=Sampling(temperature=options.temperature),
        env_kwargs=env_kwargs_of(options, assignments),
        partners=assignments(options.partner),
        transfer=options.transfer,
    )
    print(f"written to {options.output}")
