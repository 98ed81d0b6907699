"""The subcommands of `llm-marl`; what one is, and which there are.

They come through the door `llm_marl_envs.commands`, those of this library too. The help of
`llm-marl` names all of them, so a module of commands imports what it needs when it runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from llm_marl_envs.core.plugins import Registry

COMMANDS = Registry("llm_marl_envs.commands", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One subcommand.

    Attributes:
        name: how it is called.
        about: what it does, in one or two sentences.
        example: arguments of an example call, shown by --help.
        run: does it; returns the exit status, None for 0.
        add: adds its arguments to a parser.
        resumes: whether the same command, given once more, goes on where it was stopped.
    """

    name: str
    about: str
    example: str
    run: Callable[[Namespace], int | None]
    add: Callable[[ArgumentParser], object] = lambda parser: None
    resumes: bool = False
