"""Two seats that are paid for the word they are shown; somebody who says it; a greeting."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from llm_marl_envs import Message, Outcome, Task, TextParallelEnv
from llm_marl_envs.commands import Command
from llm_marl_envs.core.tasks import ListSource
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.named import Context
from llm_marl_envs.tools.base import Tool, ToolArguments

WORDS = ("apple", "birch", "cedar")


class Echo(TextParallelEnv):
    """Say the word."""

    metadata: ClassVar[dict[str, Any]] = {"name": "echo", "render_modes": ["ansi"]}
    reward_range = (0.0, 1.0)

    def __init__(self, *, split: str = "train", render_mode: str | None = None) -> None:
        if split == "nowhere":
            raise ValueError("there is no split 'nowhere'")
        super().__init__(
            agents=("left_0", "right_0"),
            source=ListSource([Task(word, split, {"word": word}) for word in WORDS], split),
            max_turns=1,
            max_action_chars=100,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        return {a: [Message("user", f"Say {task.data['word']}")] for a in self.possible_agents}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        right = {a: float(text == self.task.data["word"]) for a, text in joint_action.items()}
        terms = {agent: {"echo": value} for agent, value in right.items()}
        return Outcome(reward_terms=terms, success=all(right.values()), ended=True)


class Upper(Tool):
    """A text in capital letters."""

    name = "upper"
    description = "a text in capital letters"

    class Arguments(ToolArguments):
        """What is to be read."""

        text: str

    def call(self, arguments: Mapping[str, Any], task: Task, chance: Random) -> str:
        """The text."""
        return arguments["text"].upper()


def parrot(argument: str, context: Context) -> ScriptedPolicy:
    """Says what it was told to say; `parrot:x` always says x."""
    return ScriptedPolicy(lambda r: argument or r.observation.rpartition(" ")[2])


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("whom")


def _greet(options: Namespace) -> None:
    print(f"hello, {options.whom}")


GREET = Command(name="greet", about="Greet somebody.", example="you", run=_greet, add=_add)
