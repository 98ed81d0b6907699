"""`search`: the task's documents that fit some words best."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.tools.base import Tool, ToolArguments
from llm_marl_envs.tools.bm25 import index_of

MOST_DOCUMENTS = 3


class Search(Tool):
    """The three documents that fit best, a line each."""

    name = "search"
    description = f"the {MOST_DOCUMENTS} documents that fit some words best"

    class Arguments(ToolArguments):
        """What to look for."""

        words: str

    def __init__(self, env: TextEnv) -> None:
        super().__init__(env)
        env.documents(env.source[0])  # refuses where there are none

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The documents, the best first."""
        index = index_of(tuple(self.env.documents(task)))
        places = index.best(arguments["words"], MOST_DOCUMENTS)
        if not places:
            return "No document has these words."
        return "\n".join(" ".join(index.documents[place].split()) for place in places)
