"""Scripted experts of grids: the tool reads out what it sees, the planner answers.

Where a grid is divided it can be read out by rows or by columns. Nothing in the text says which, so
a planner that reads it the other way puts things where they do not belong.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.base import TOOL

ORDERS = ("rows", "columns")
PRINT = "```python\nprint({text!r})\n```"


class GridExperts(ListeningExperts):
    """A tool that reads out its part and a planner that understands it as its convention says.

    Args:
        divided: whether each sees its own part alone.
        program: whether the tool writes a program.
    """

    def __init__(self, divided: bool, program: bool) -> None:
        self.divided, self.program = divided, program
        self.fixed = ORDERS if divided else ORDERS[:1]

    @abstractmethod
    def told(self, task: Task, convention: str) -> str:
        """What the tool reads out, one line."""

    @abstractmethod
    def found(self, task: Task, convention: str, messages: Sequence[Message]) -> Sequence[object]:
        """The words of the planner's answer, by what it sees and what it was told last."""

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """What the tool reads out, or prints; the planner's answer."""
        if convention not in self.fixed:
            raise ValueError(f"convention {convention!r}: expected one of {self.fixed}")
        if agent == TOOL:
            return self._said(task, convention)
        return f"Answer: {' '.join(map(str, self.found(task, convention, messages)))}"

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order in which the tool read out its part; of the planner nothing is known."""
        known = self.fixed if agent == TOOL else ()
        found = [order for order in known if self._said(task, order) == action]
        return found[0] if len(found) == 1 else None

    def _said(self, task: Task, convention: str) -> str:
        text = self.told(task, convention)
        return PRINT.format(text=text) if self.program else text


def last_told(messages: Sequence[Message], beginning: str) -> str:
    """The rest of the last line that begins so, of what a seat was told; "" where none does.

    What the seat said itself does not count.
    """
    told = [message.content for message in messages if message.role == "user"]
    lines = [line for content in told for line in content.split("\n")]
    found = [line for line in lines if line.startswith(beginning)]
    return found[-1].removeprefix(beginning) if found else ""
