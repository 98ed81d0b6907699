"""The command `llm-marl`: finds its subcommands, reads the arguments, runs one."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from llm_marl_envs.commands import COMMANDS, Command
from llm_marl_envs.commands.exit_status import MISTAKE, ending, without_long_words
from llm_marl_envs.core.plugins import GIVEN, find_modules_here, import_plugins


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, see `commands.exit_status`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    common, rest = _common(add_help=False).parse_known_args(given)  # wherever they stand
    as_python_writes_it = warnings.formatwarning
    if not common.traceback:  # what is wrong, without the line of ours that says so
        warnings.formatwarning = lambda message, *_, **__: f"llm-marl: {message}\n"
    try:
        return ending(lambda: _run(rest, common), "llm-marl", traceback=common.traceback)
    finally:
        warnings.formatwarning = as_python_writes_it


def _run(given: Sequence[str], common: argparse.Namespace) -> int:
    find_modules_here()  # `--plugin mine`, `eval mine:Env`
    GIVEN[:] = common.plugin
    import_plugins(GIVEN)  # they may bring commands
    options = _parser().parse_args(given)
    command: Command = options.chosen
    return ending(
        lambda: command.run(options),
        f"llm-marl {command.name}",
        traceback=common.traceback,
        again=_again(command, options),
    )


def _again(command: Command, options: argparse.Namespace) -> str:
    """What becomes of the work when the command is stopped."""
    if not command.resumes:
        return ""
    if getattr(options, "output", True):
        return "the same command goes on"
    return "nothing was kept: with --output the same command would go on"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where the usage is."""

    def error(self, message: str) -> NoReturn:
        said = without_long_words(message)
        self.exit(MISTAKE, f"{self.prog}: {said}; `{self.prog} --help` shows how\n")


def _common(*, add_help: bool) -> argparse.ArgumentParser:
    """What stands before the command's name."""
    parser = _Parser(
        prog="llm-marl",
        description="Text environments for teams of language models, and their trainer.",
        epilog="example: llm-marl play coop_coding-v0 --seed 1",
        add_help=add_help,
        allow_abbrev=add_help,  # `--t` may be a command's
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show where in the code an error comes from"
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module to import first, which registers environments, policies, algorithms or "
        "commands of your own; may be repeated",
    )
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = _common(add_help=True)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS.names():
        command = _loaded(name)
        one = commands.add_parser(
            name,
            help=command.about.replace("%", "%%"),
            description=command.about,
            epilog=f"example: llm-marl {name} {command.example}".strip(),
        )
        command.add(one)
        one.set_defaults(chosen=command)
    return parser


def _loaded(name: str) -> Command:
    """The command; one that cannot be used is listed, and fails when it is called."""
    try:
        command = COMMANDS.get(name)
        if not isinstance(command, Command):
            raise TypeError(f"command {name!r}: expected a commands.Command, got {command!r:.80}")
        command.add(argparse.ArgumentParser())  # whoever's it is, the others are not to fail
        return command
    except Exception as broken:  # noqa: BLE001 - raised again when the command is called
        error = broken

    def fail(options: argparse.Namespace) -> None:
        raise error

    return Command(name=name, about=f"(broken: {error})", example="", run=fail)


if __name__ == "__main__":
    sys.exit(main())
