"""`llm-marl eval`, `bench`, `compare` and `baselines`: their arguments and what is printed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import (
    TEAM_HELP,
    add_environment,
    add_sampling,
    add_team,
    add_threads,
    assignments,
    env_kwargs_of,
    folder_to_write,
    limit_threads,
    quiet_libraries,
    sampling_of,
)

BENCHMARK = "bench-v2"


def _plan(options: Namespace, samples: int) -> Any:
    from llm_marl_envs.measure.runner import Plan

    return Plan(
        n_tasks=options.tasks,
        samples=samples,
        seeds=tuple(options.seed),
        copies=options.copies,
    )


def _add_plan(parser: ArgumentParser) -> None:
    add_environment(parser, "test")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="one or more (default 0)")
    parser.add_argument("--copies", type=int, default=64, help="episodes at once (default 64)")
    add_sampling(parser)


def _add_eval(parser: ArgumentParser) -> None:
    _add_plan(parser)
    add_team(parser, partners=True)
    add_threads(parser)
    parser.add_argument(
        "--samples",
        type=int,
        default=1,
        help="episodes per task and seed, each from a reset seed of its own",
    )
    parser.add_argument("--output", type=folder_to_write, help="folder for summary and transcripts")


def _eval(options: Namespace) -> None:
    from llm_marl_envs.measure.studies.measure import run_eval

    quiet_libraries()
    limit_threads(options)
    run_eval(
        options.id,
        team=options.team,
        plan=_plan(options, options.samples),
        sampling=sampling_of(options),
        output=options.output,
        env_kwargs=env_kwargs_of(options),
        partners=assignments(options.partner),
        transfer=options.transfer,
    )


def _add_bench(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--team",
        action="append",
        default=[],
        metavar="[ENTRY=]TEAM",
        help=f"{TEAM_HELP}; for one entry or for all that have none of their own",
    )
    parser.add_argument("--benchmark", default=BENCHMARK, help=f"default {BENCHMARK}")
    parser.add_argument(
        "--solo",
        action="store_true",
        help="the team plays one seat and the others stay silent; the best seat counts",
    )
    parser.add_argument(
        "--output", type=folder_to_write, help="folder of bench.json and the transcripts"
    )
    parser.add_argument(
        "--beside", nargs="+", default=[], metavar="FILE", help="others' bench.json, shown beside"
    )
    parser.add_argument(
        "--seed-from",
        metavar="TEXT_OR_FILE",
        help="other tasks, drawn with a text that only you know",
    )
    parser.add_argument(
        "--check",
        metavar="FOLDER",
        help="play the episodes of a folder again from their actions, and compare",
    )


def _bench(options: Namespace) -> int | None:
    from llm_marl_envs.measure.studies.benchmark import benchmark

    quiet_libraries()
    chosen = benchmark(options.benchmark)
    if options.check is not None:
        return _check(options, chosen)
    return _play_bench(options, chosen)


def _play_bench(options: Namespace, chosen: Any) -> None:
    from llm_marl_envs.measure.studies.bench_run import EVERY, run_benchmark
    from llm_marl_envs.measure.studies.benchmark import bench_table, read_bench

    if not options.team or not options.output:
        raise ValueError("expected --team and --output, or --check and a folder")
    teams: dict[str, str] = {}
    for argument in options.team:
        name, equals, team = argument.partition("=")
        name, team = (name, team) if equals and name in chosen.entries else (EVERY, argument)
        if name in teams:
            raise ValueError(f"{name or 'the team of all entries'} is given twice")
        teams[name] = team
    chosen = _own_tasks(options, chosen, chosen.entries if EVERY in teams else teams)
    others = {file: read_bench(file, chosen) for file in options.beside}
    result = run_benchmark(chosen, teams, options.output, solo=options.solo)
    print(bench_table({options.output: result, **others}))
    print(f"written to {options.output}")


def _check(options: Namespace, chosen: Any) -> int:
    """Print what does not come out; 1 where something does not."""
    from llm_marl_envs.measure.studies.bench_check import check_bench, entries_in

    chosen = _own_tasks(options, chosen, entries_in(options.check))
    wrong = check_bench(chosen, options.check)
    for text in wrong:
        print(text)
    if not wrong:
        print(f"{options.check}: every episode comes out as recorded; who acted nobody can tell")
    return 1 if wrong else 0


def _own_tasks(options: Namespace, chosen: Any, names: Any) -> Any:
    """The benchmark, with the tasks of --seed-from if there is one."""
    from llm_marl_envs.measure.studies.fresh_tasks import fresh_benchmark, secret_of

    if options.seed_from is None:
        return chosen
    return fresh_benchmark(chosen, secret_of(options.seed_from), names)


def _add_compare(parser: ArgumentParser) -> None:
    for side in ("a", "b"):
        parser.add_argument(
            side,
            help="output of `llm-marl eval`, a run's folder that holds it as eval/, a demo, a file "
            "of episodes; a sweep or another folder of several, a pattern, or several separated by "
            "commas: then each run counts once, and the runs of a side differ in seeds alone",
        )
    parser.add_argument("--metric", default="return", help="return or success (default return)")


def _compare(options: Namespace) -> None:
    from llm_marl_envs.measure.numbers.compare import compare_results, report, sides_at

    named = {"A": options.a, "B": options.b}
    sides = {name: sides_at(side) for name, side in named.items()}
    comparison = compare_results(sides["A"], sides["B"], metric=options.metric)
    for name, side in named.items():
        print(f"{name}: {side} ({len(sides[name])} run{'s' * (len(sides[name]) > 1)})")
    print(report(comparison))


def _add_baselines(parser: ArgumentParser) -> None:
    _add_plan(parser)
    parser.add_argument(
        "--policy",
        required=True,
        help="tiny, expert, random, endpoint:URL#MODEL, module:function or a Transformers model",
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of them")
    parser.add_argument("--n", type=int, default=4, help="samples of oracle and vote (default 4)")
    parser.add_argument("--output", type=folder_to_write, help="folder for results and transcripts")


def _baselines(options: Namespace) -> None:
    from llm_marl_envs.measure.studies.measure import run_all_baselines

    quiet_libraries()
    run_all_baselines(
        options.id,
        policy=options.policy,
        plan=_plan(options, 1),
        sampling=sampling_of(options),
        names=options.only,
        n=options.n,
        output=options.output,
        env_kwargs=env_kwargs_of(options),
    )


EVAL = Command(
    name="eval",
    about="Measure a team on held-out tasks; an interrupted run into the same --output goes on.",
    example="coop_coding-v0 --team runs/demo/team --split test --tasks 100 --output runs/eval",
    run=_eval,
    add=_add_eval,
    resumes=True,
)
BENCH = Command(
    name="bench",
    about="Play a frozen benchmark and write one file of scores that others can compare; 0 is the "
    "best team known that tells nothing, 1 the best team. Or check such a folder.",
    example="--team expert --output runs/bench/expert",
    run=_bench,
    add=_add_bench,
    resumes=True,
)
COMPARE = Command(
    name="compare",
    about="Compare two evaluations, B against A: these two checkpoints, or, with several runs a "
    "side, two ways of training.",
    example="runs/magrpo runs/single --metric success",
    run=_compare,
    add=_add_compare,
)
BASELINES = Command(
    name="baselines",
    about="What random text, scripts and prompting reach without training, and at which cost.",
    example="coop_coding-v0 --policy tiny --tasks 50 --output runs/baselines",
    run=_baselines,
    add=_add_baselines,
    resumes=True,
)
