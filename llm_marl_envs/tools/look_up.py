"""`look_up`: an entry of the task's record, by its name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.tools.base import Tool, ToolArguments


class LookUp(Tool):
    """One entry of a record."""

    name = "look_up"
    description = "an entry of the record, by its name"

    class Arguments(ToolArguments):
        """Whose entry."""

        entry: str

    def __init__(self, env: TextEnv) -> None:
        super().__init__(env)
        env.record(env.source[0])  # refuses where there is none

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The entry, or that there is none; names are compared without case and outer space."""
        wanted = arguments["entry"].strip().casefold()
        for name, entry in self.env.record(task).items():
            if name.casefold() == wanted:
                return entry
        return "No such entry."
