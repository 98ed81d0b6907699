"""`llm-marl push-team`, `pull-team` and `push-episodes`: their arguments and what is printed."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import suppress
from typing import Any

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import folder_to_write, quiet_libraries

REPOSITORY = "owner/name on the Hugging Face Hub"


def _add_push(parser: ArgumentParser) -> None:
    parser.add_argument("repository", metavar="REPO", help=REPOSITORY)
    parser.add_argument(
        "--public", action="store_true", help="everybody may read it (default: private)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list the files and their sizes, send nothing"
    )


def _add_push_team(parser: ArgumentParser) -> None:
    parser.add_argument("folder", help="of a saved team, or of a run that has ended")
    _add_push(parser)
    parser.add_argument(
        "--evaluation",
        metavar="FOLDER",
        help="output of `llm-marl eval`, for the card (default: eval/ in the run, if it is there)",
    )
    parser.add_argument("--base", metavar="NAME", help="the adapters' base model on the Hub")
    parser.add_argument(
        "--with-base", action="store_true", help="send the base model's folder, too"
    )


def _push_team(options: Namespace) -> None:
    from llm_marl_envs.hub.client import Repository
    from llm_marl_envs.publish.team import Asked, team_delivery

    quiet_libraries()
    repository = Repository.named(options.repository)
    asked = Asked(
        evaluation=options.evaluation,
        base=options.base,
        with_base=options.with_base,
        public=options.public,
    )
    with team_delivery(options.folder, repository, asked) as delivery:
        _deliver(delivery, options)
    if not options.dry_run:
        print(f"play it: --team hub:{repository.name}")


def _add_push_episodes(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", help="a file of episodes, or the folder of an evaluation, a run or a collection"
    )
    _add_push(parser)
    parser.add_argument("--format", default="jsonl", help="jsonl or parquet (default jsonl)")


def _push_episodes(options: Namespace) -> None:
    from llm_marl_envs.hub.client import Repository
    from llm_marl_envs.publish.episodes import episodes_delivery

    quiet_libraries()
    repository = Repository.named(options.repository, "dataset")
    made = episodes_delivery(options.path, repository, kind=options.format, public=options.public)
    with made as delivery:
        _deliver(delivery, options)


def _deliver(delivery: Any, options: Namespace) -> None:
    """List what is sent and, but for a dry run, send it."""
    print("\n".join(delivery.lines()))
    if options.dry_run:
        print("dry run: nothing was sent")
        return
    print(f"sent: {delivery.send()}")


def _add_pull_team(parser: ArgumentParser) -> None:
    parser.add_argument("repository", metavar="REPO", help=f"{REPOSITORY}, or owner/name@revision")
    parser.add_argument("folder", type=folder_to_write, help="where it shall be; missing or empty")
    parser.add_argument(
        "--most-gib",
        type=_gib,
        default=20.0,
        metavar="N",
        help="refuse a team with more GiB of files (default 20)",
    )


def _gib(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise ArgumentTypeError(f"{text!r:.80}: expected a number of GiB, such as 0.5")


def _pull_team(options: Namespace) -> None:
    from llm_marl_envs.hub.client import Repository
    from llm_marl_envs.hub.team_repository import GIB, pull_team

    quiet_libraries()
    most = int(options.most_gib * GIB)
    repository = Repository.named(options.repository)
    folder = pull_team(repository, options.folder, most=most, tell=print)
    print(f"the team is in {folder}; play it: --team {folder}")


PUSH_TEAM = Command(
    name="push-team",
    about="Send a saved team to the Hugging Face Hub: weights, team.json and a card with measured "
    "numbers; nothing else of the folder.",
    example="runs/first me/coders --dry-run",
    run=_push_team,
    add=_add_push_team,
)
PULL_TEAM = Command(
    name="pull-team",
    about="Fetch a team from the Hugging Face Hub into a folder; only data, no code.",
    example="me/coders@main teams/coders",
    run=_pull_team,
    add=_add_pull_team,
)
PUSH_EPISODES = Command(
    name="push-episodes",
    about="Send episodes to the Hugging Face Hub as a dataset.",
    example="runs/first/eval me/coders-episodes --dry-run",
    run=_push_episodes,
    add=_add_push_episodes,
)
