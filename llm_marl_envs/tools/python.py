"""`python`: runs a program in the sandbox and tells what it prints."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.tasks import Task
from llm_marl_envs.sandbox import default_sandbox
from llm_marl_envs.tools.base import Tool, ToolArguments, code_field
from llm_marl_envs.tools.programs import run_program


class Python(Tool):
    """What a Python program prints; it reads nothing."""

    name = "python"
    description = "what a Python program prints, which stands in a block of code below the line"

    blocking = True

    class Arguments(ToolArguments):
        """The program."""

        program: str = code_field()

    def example(self) -> str:
        """Without the program."""
        return "python()"

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The output, and how the program failed, if it did."""
        printed = run_program(arguments["program"], "", default_sandbox())
        error = f"It failed: {' '.join(printed.error.split())}" if printed.error else ""
        return "\n".join(filter(None, [printed.text.rstrip(), error])) or "It printed nothing."
