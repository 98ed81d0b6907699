"""Scripted experts of sudoku: the tool reads out its digits, the planner solves.

A planner that reads the list the other way puts digits where they do not belong.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.experts import GridExperts, last_told
from llm_marl_envs.envs.grids.sudoku_rules import solve
from llm_marl_envs.envs.grids.sudoku_tasks import BOTH, blank_cells, puzzle_of, seen_by, shape_of

DIGITS = "My digits: "


class SudokuExperts(GridExperts):
    """A tool that reads out its digits and a planner that puts them where its convention says."""

    def told(self, task: Task, convention: str) -> str:
        """As `GridExperts.told`: the tool's digits, in order."""
        own = seen_by(task, 0)
        return DIGITS + " ".join(str(own[at]) for at in ordered(task, convention))

    def found(self, task: Task, convention: str, messages: Sequence[Message]) -> list[int]:
        """As `GridExperts.found`: the digits of the empty cells."""
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
    words = last_told(messages, QUOTE + DIGITS).split()
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []
