"""`llm-marl eval`, `compare` and `baselines`: their arguments and what is printed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from llm_marl_envs.commands import add_task_arguments, env_kwargs_of, quiet_libraries


def add_measuring(
    add: Callable[..., Any], add_env_arguments: Callable[[Any], None], assignments: Any
) -> None:
    """Register the commands.

    Args:
        add: `add(name, run, about, example)` returns the command's parser.
        add_env_arguments: adds `--set`.
        assignments: reads KEY=VALUE pairs.
    """
    _add_eval(add, add_env_arguments, assignments)
    command = add(
        "compare",
        _compare,
        "Compare two evaluations, B against A: these two checkpoints, or, with several runs a "
        "side, two ways of training.",
        "runs/magrpo runs/single --metric success",
    )
    for side in ("a", "b"):
        command.add_argument(
            side,
            help="output of `llm-marl eval`, a run's folder that holds it as eval/, a demo, a file "
            "of episodes; a sweep or another folder of several, a pattern, or several separated by "
            "commas: then each run counts once, and the runs of a side differ in seeds alone",
        )
    command.add_argument("--metric", default="return", help="return or success (default return)")
    _add_baselines(add, add_env_arguments, assignments)


def _add_eval(add: Callable[..., Any], add_env_arguments: Any, assignments: Any) -> None:
    command = add(
        "eval",
        lambda options: _eval(options, assignments),
        "Measure a team on held-out tasks; an interrupted run into the same --output goes on.",
        "coop_coding-v0 --team runs/demo/team --split test --tasks 100 --output runs/eval",
    )
    command.add_argument("id", help="id of an environment")
    command.add_argument(
        "--team",
        required=True,
        help="folder of a saved team, or a policy for every seat: expert, random, tiny, "
        "endpoint:URL#MODEL or a Transformers model",
    )
    command.add_argument(
        "--partner",
        action="append",
        default=[],
        metavar="AGENT=POLICY",
        help="who plays a seat instead: expert, expert:<convention>, random, ...",
    )
    command.add_argument("--samples", type=int, default=1, help="episodes per task and seed")
    command.add_argument("--seed", type=int, nargs="+", default=[0], help="one or more (default 0)")
    command.add_argument("--output", help="folder for summary and transcripts")
    command.add_argument(
        "--transfer", action="store_true", help="allow a team trained in another environment"
    )
    _add_plan(command)
    add_env_arguments(command)


def _add_baselines(add: Callable[..., Any], add_env_arguments: Any, assignments: Any) -> None:
    command = add(
        "baselines",
        lambda options: _baselines(options, assignments),
        "What random text, scripts and prompting reach without training, and at which cost.",
        "coop_coding-v0 --policy tiny --tasks 50 --output runs/baselines",
    )
    command.add_argument("id", help="id of an environment")
    command.add_argument(
        "--policy",
        required=True,
        help="tiny, expert, random, endpoint:URL#MODEL or a Transformers model",
    )
    command.add_argument("--only", nargs="+", metavar="NAME", help="some of them")
    command.add_argument("--n", type=int, default=4, help="samples of oracle and vote (default 4)")
    command.add_argument("--seed", type=int, nargs="+", default=[0], help="one or more (default 0)")
    command.add_argument("--output", help="folder for results and transcripts")
    _add_plan(command)
    add_env_arguments(command)


def _add_plan(command: Any) -> None:
    add_task_arguments(command, split="test")
    command.add_argument("--copies", type=int, default=64, help="episodes at once (default 64)")
    command.add_argument("--temperature", type=float, default=1.0, help="0 is greedy (default 1)")
    command.add_argument("--greedy", action="store_true", help="the same as --temperature 0")
    command.add_argument("--max-tokens", type=int, help="most tokens of one action")
    command.add_argument(
        "--template",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a variable of the chat template, e.g. enable_thinking=false",
    )


def _plan(options: Namespace, samples: int) -> Any:
    from llm_marl_envs.evaluation.play.runner import Plan

    return Plan(
        n_tasks=options.tasks,
        samples=samples,
        seeds=tuple(options.seed),
        copies=options.copies,
    )


def _sampling(options: Namespace, assignments: Any) -> Any:
    from llm_marl_envs.policies.named import Sampling

    return Sampling(
        temperature=0.0 if options.greedy else options.temperature,
        max_completion_length=options.max_tokens,
        template=assignments(options.template),
    )


def _eval(options: Namespace, assignments: Any) -> None:
    from llm_marl_envs.evaluation.studies.measure import run_eval

    quiet_libraries()
    run_eval(
        options.id,
        team=options.team,
        plan=_plan(options, options.samples),
        sampling=_sampling(options, assignments),
        output=options.output,
        env_kwargs=env_kwargs_of(options, assignments),
        partners=assignments(options.partner),
        transfer=options.transfer,
    )


def _compare(options: Namespace) -> None:
    from llm_marl_envs.evaluation.numbers.compare import compare_results, report, sides_at

    named = {"A": options.a, "B": options.b}
    sides = {name: sides_at(side) for name, side in named.items()}
    found = compare_results(sides["A"], sides["B"], metric=options.metric)
    for name, side in named.items():
        print(f"{name}: {side} ({len(sides[name])} run{'s' * (len(sides[name]) > 1)})")
    print(report(found))


def _baselines(options: Namespace, assignments: Any) -> None:
    from llm_marl_envs.evaluation.studies.measure import run_all_baselines

    quiet_libraries()
    run_all_baselines(
        options.id,
        policy=options.policy,
        plan=_plan(options, 1),
        sampling=_sampling(options, assignments),
        names=options.only,
        n=options.n,
        output=options.output,
        env_kwargs=env_kwargs_of(options, assignments),
    )
