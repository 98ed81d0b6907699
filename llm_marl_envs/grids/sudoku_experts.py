"""Scripted experts of sudoku: the tool reads out its digits, the planner solves.

Where the givens are divided, digits can be read out by rows or by columns. Nothing in the list says
which, so a planner that reads it the other way puts digits where they do not belong.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.experts.protocol import ListeningExperts
from llm_marl_envs.grids.base import TOOL
from llm_marl_envs.grids.sudoku import solve
from llm_marl_envs.grids.sudoku_tasks import BOTH, blank_cells, puzzle_of, seen_by, shape_of
from llm_marl_envs.parsing import QUOTE
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import Task

ORDERS = ("rows", "columns")
DIGITS = "My digits: "
PRINT = "```python\nprint({text!r})\n```"


class SudokuExperts(ListeningExperts):
    """A tool that reads out its digits and a planner that puts them where its convention says.

    Args:
        divided: whether each sees its own givens alone.
        program: whether the tool writes a program.
    """

    def __init__(self, divided: bool, program: bool) -> None:
        self.divided, self.program = divided, program

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Rows and columns; one where both see everything."""
        return ORDERS if self.divided else ORDERS[:1]

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The tool's digits in order; the planner's solution, of what it sees and last heard."""
        if convention not in self.conventions(task):
            raise ValueError(f"convention {convention!r}: expected one of {ORDERS}")
        if agent == TOOL:
            return self._told(task, convention)
        return f"Answer: {' '.join(map(str, self._found(task, convention, messages)))}"

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order in which the tool read out its digits; of the planner nothing is known."""
        known = self.conventions(task) if agent == TOOL else ()
        found = [order for order in known if self._told(task, order) == action]
        return found[0] if len(found) == 1 else None

    def _told(self, task: Task, convention: str) -> str:
        own = seen_by(task, 0)
        text = DIGITS + " ".join(str(own[at]) for at in ordered(task, convention))
        return PRINT.format(text=text) if self.program else text

    def _found(self, task: Task, convention: str, messages: Sequence[Message]) -> list[int]:
        shape, own = shape_of(task), seen_by(task, 1)
        known = list(own) if self.divided else list(puzzle_of(task))
        for at, digit in zip(ordered(task, convention), heard(messages), strict=False):
            known[at] = digit
        solution = solve(known, shape) or solve(own, shape)
        return [solution[0][at] for at in blank_cells(task)]


def ordered(task: Task, convention: str) -> list[int]:
    """The cells of the tool's own givens, by rows or by columns."""
    size = task.data["size"]
    cells = [at for at, owner in enumerate(task.data["owners"]) if owner in (0, BOTH)]
    return cells if convention == "rows" else sorted(cells, key=lambda at: (at % size, at))


def heard(messages: Sequence[Message]) -> list[int]:
    """The digits in the last list that the planner was told of; none where it heard none."""
    lines = [line for message in messages for line in message.content.split("\n")]
    told = [line for line in lines if line.startswith(QUOTE + DIGITS)]
    words = told[-1].removeprefix(QUOTE + DIGITS).split() if told else []
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []
