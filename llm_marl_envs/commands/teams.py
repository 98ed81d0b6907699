"""`llm-marl cross-play`, `contribution` and `collect`: what teams are worth and what they say.

Owns their arguments and what they print.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import (
    TEAM_HELP,
    add_environment,
    add_sampling,
    add_team,
    add_transfer,
    assignments,
    env_kwargs_of,
    file_to_write,
    folder_to_write,
    named_arguments,
    quiet_libraries,
    sampling_of,
)


def _add_plan(parser: ArgumentParser, split: str) -> None:
    add_environment(parser, split)
    parser.add_argument(
        "--samples",
        type=int,
        default=1,
        help="episodes per task, each from a reset seed of its own (default 1)",
    )
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    add_sampling(parser)


def _add_cross_play(parser: ArgumentParser) -> None:
    _add_plan(parser, "test")
    parser.add_argument(
        "--team",
        action="append",
        required=True,
        metavar="[NAME=]TEAM",
        help=f"{TEAM_HELP}; at least two",
    )
    parser.add_argument(
        "--partners", action="store_true", help="also beside scripted experts of each convention"
    )
    add_transfer(parser)
    parser.add_argument(
        "--output",
        type=folder_to_write,
        help="folder for cross_play.json and heat_map.png (needs matplotlib)",
    )


def _add_contribution(parser: ArgumentParser) -> None:
    _add_plan(parser, "test")
    add_team(parser)
    parser.add_argument(
        "--replacement", help="a team whose members replace single actions; empty texts by default"
    )
    parser.add_argument("--other", help="a team whose messages are heard instead")
    parser.add_argument("--output", type=file_to_write, help="a JSON file")


def _add_collect(parser: ArgumentParser) -> None:
    _add_plan(parser, "train")
    add_team(parser, partners=True)
    parser.add_argument("--format", default="jsonl", help="jsonl or parquet (default jsonl)")
    parser.add_argument("--shard", type=int, default=1024, help="episodes per file (default 1024)")
    parser.add_argument(
        "--output", type=folder_to_write, required=True, help="folder of the dataset"
    )


def _named(options: Namespace, name: str, kwargs: dict[str, Any]) -> Any:
    from llm_marl_envs.play.registry import make
    from llm_marl_envs.policies.named import Context, named_team

    sampling = sampling_of(options)
    sampling.check_samples(options.samples)
    env = make(options.id, **kwargs)
    return named_team(name, Context(env=env, sampling=sampling, transfer=options.transfer))


def _plan(options: Namespace) -> Any:
    from llm_marl_envs.measure.runner import Plan

    return Plan(n_tasks=options.tasks, samples=options.samples, seeds=(options.seed,))


def _planned(options: Namespace) -> dict[str, Any]:
    """The plan as files have it."""
    return {"n_tasks": options.tasks, "samples": options.samples, "seed": options.seed}


@contextmanager
def _stage(options: Namespace, kwargs: dict[str, Any], label: str) -> Iterator[Any]:
    """`measure.paired.Stage` of the plan, with a progress bar."""
    from llm_marl_envs.measure.paired import Stage
    from llm_marl_envs.measure.progress import counter
    from llm_marl_envs.play.registry import make

    def env() -> Any:
        return make(options.id, **kwargs)

    with (
        counter(None, f"{label} {options.id}") as progress,
        closing(Stage(env, _plan(options), progress=progress)) as stage,
    ):
        yield stage


def _cross_play(options: Namespace) -> None:
    from llm_marl_envs.files.json_files import check_writable
    from llm_marl_envs.files.pictures import require_matplotlib
    from llm_marl_envs.measure.run_manifest import recording
    from llm_marl_envs.measure.studies.cross_play import cross_play
    from llm_marl_envs.measure.studies.cross_play_files import report, write_cross_play
    from llm_marl_envs.measure.studies.heat_map import save_heat_map
    from llm_marl_envs.measure.studies.zero_shot import zero_shot
    from llm_marl_envs.play.registry import make

    quiet_libraries()
    folder = Path(options.output or ".")
    table, picture = folder / "cross_play.json", folder / "heat_map.png"
    if options.output:  # what would fail at the end of hours fails now
        require_matplotlib()
        check_writable(table, picture)
    kwargs = env_kwargs_of(options)
    arguments = named_arguments(options.team)
    named = {name: _named(options, team, kwargs) for name, team in arguments.items()}
    teams = {name: team.seats for name, team in named.items()}
    identities = {name: team.identity for name, team in named.items()}
    config = {"teams": identities, "plan": _planned(options), "partners": options.partners}
    env_id = make(options.id, **kwargs).spec.id
    with recording(options.output, "cross-play", config, env_id=env_id, env_kwargs=kwargs):
        with _stage(options, kwargs, "cross-play") as stage:
            result = cross_play(stage, teams)
        partners = ()
        if options.partners:
            with _stage(options, kwargs, "scripted partners") as stage:
                partners = zero_shot(stage, teams)
    print(report(result, partners))
    if options.output:
        write_cross_play(table, result, partners)
        save_heat_map(result, picture)
        print(f"written to {folder}")


def _contribution(options: Namespace) -> None:
    from llm_marl_envs.core.records import plain
    from llm_marl_envs.files.json_files import check_writable, write_json
    from llm_marl_envs.measure.numbers.estimates import as_filed
    from llm_marl_envs.measure.studies.contribution import contributions
    from llm_marl_envs.measure.studies.messages import message_effects
    from llm_marl_envs.play.registry import make

    quiet_libraries()
    if options.output:
        check_writable(options.output)
    kwargs = env_kwargs_of(options)
    named = {
        role: _named(options, name, kwargs)
        for role in ("team", "replacement", "other")
        if (name := getattr(options, role))
    }
    team = named["team"].seats
    replacement = named["replacement"].seats if options.replacement else ""
    other = named["other"].seats if options.other else None
    with _stage(options, kwargs, "actions replaced,") as stage:
        actions = contributions(stage, team, replacement)
    with _stage(options, kwargs, "messages changed,") as stage:
        messages = message_effects(stage, team, other=other)
    print(_contribution_tables(actions, messages))
    if options.output:
        env_id = make(options.id, **kwargs).spec.id
        asked = {"env_id": env_id, "env_kwargs": plain(kwargs), "plan": _planned(options)}
        asked["identities"] = {role: team.identity for role, team in named.items()}
        effects = {
            name: [asdict(effect, dict_factory=as_filed) for effect in some]
            for name, some in (("actions", actions), ("messages", messages))
        }
        write_json(options.output, {"version": 1, **asked, **effects})
        print(f"written to {options.output}")


def _contribution_tables(actions: Sequence[Any], messages: Sequence[Any]) -> str:
    from llm_marl_envs.measure.numbers.format import format_table, number, whole, with_interval
    from llm_marl_envs.measure.numbers.values import title

    def table(what: str, name: str, rows: dict[str, Any]) -> str:
        heading = (what, *map(title, ("lost", name, "failed")))
        shown = [
            (label, with_interval(effect.lost), number(getattr(effect, name)), whole(effect.failed))
            for label, effect in rows.items()
        ]
        return format_table(heading, shown)

    turns = {
        f"{effect.agent}, {'all turns' if effect.turn is None else f'turn {effect.turn}'}": effect
        for effect in actions
    }
    heard = {f"{effect.speaker}, {effect.intervention}": effect for effect in messages}
    replaced = table("action replaced", "changed", turns)
    return "\n\n".join([replaced, table("message changed", "heard", heard)])


def _collect(options: Namespace) -> None:
    from llm_marl_envs.measure.studies.collect_dataset import Shards, run_collect

    quiet_libraries()
    run_collect(
        options.id,
        team=options.team,
        shards=Shards(folder=options.output, kind=options.format, episodes=options.shard),
        plan=_plan(options),
        sampling=sampling_of(options),
        env_kwargs=env_kwargs_of(options),
        partners=assignments(options.partner),
        transfer=options.transfer,
    )
    print(f"written to {options.output}")


CROSS_PLAY = Command(
    name="cross-play",
    about="Seat members of several teams together, in every pairing.",
    example="coop_coding-v0 --team a=runs/0/team --team b=runs/1/team --partners "
    "--output runs/cross",
    run=_cross_play,
    add=_add_cross_play,
)
CONTRIBUTION = Command(
    name="contribution",
    about="What each action and each message of a team is worth.",
    example="coop_coding-v0 --team runs/demo/team --replacement random --tasks 50",
    run=_contribution,
    add=_add_contribution,
)
COLLECT = Command(
    name="collect",
    about="Write a team's episodes as a dataset, with token ids, log-probs and rewards.",
    example="coop_coding-v0 --team runs/demo/team --tasks 100 --output runs/episodes",
    run=_collect,
    add=_add_collect,
    resumes=True,
)
