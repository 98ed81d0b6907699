"""What a tool is: a name, a line that describes it, a schema of its arguments, and a call.

    class Upper(Tool):
        name = "upper"
        description = "a text in capital letters"

        class Arguments(ToolArguments):
            text: str

        def call(self, arguments, task, chance):
            return arguments["text"].upper()

A call is a function of its arguments, the task and what chance deals, so that episodes replay.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.tasks import Task

CODE = "code"
"""`format` in the schema of an argument that is a program: it may stand in a block of its own."""


class ToolArguments(BaseModel):
    """The arguments of a tool; derive, and annotate them."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def code_field() -> Any:
    """An argument that is a program."""
    return Field(json_schema_extra={"format": CODE})


class Tool(ABC):
    """Something that a seat may call; derive.

    Args:
        env: the environment in which it is called; a copy of a tool belongs to one environment.

    Attributes:
        name: a word, which a call begins with.
        description: one line, which a seat is told.
        price: what a call costs its caller, unless the environment is given another price.
        seconds: how long a call may take, where it calls what is not in this library; None: it is
            pure and quick, and is not watched.
        blocking: whether a call waits for another process, so that threads help.
        replayable: whether the same arguments, task and chance always give the same text.

    Raises:
        ValueError: the environment lacks what the tool needs.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    Arguments: ClassVar[type[BaseModel]]
    price: ClassVar[float] = 0.0
    seconds: ClassVar[float | None] = None
    blocking: ClassVar[bool] = False
    replayable: ClassVar[bool] = True

    def __init__(self, env: TextEnv) -> None:
        self.env = env

    @abstractmethod
    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The result, a text for the seat that called.

        Args:
            arguments: as `checked` gave them.
            task: of the episode.
            chance: what to draw from, this call's own.

        Raises:
            ValueError: nothing can come of these arguments; the seat is told why, in a line.
        """

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the call takes them.

        Raises:
            ValueError: they do not fit the schema; says in a line what does not.
        """
        try:
            return dict(self.Arguments.model_validate(dict(arguments)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, an object."""
        return _schema(self.Arguments)

    def example(self) -> str:
        """A call as a seat is shown it."""
        names = [*self.schema()["properties"]]
        if len(names) == 1:
            return f"{self.name}({names[0]})"
        fields = ", ".join(f'"{name}": ...' for name in names)
        return f"{self.name}({{{fields}}})"


@cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    return arguments.model_json_schema()
