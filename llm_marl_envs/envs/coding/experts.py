"""Scripted experts of coding: right programs under each interface, a row's own references."""

from __future__ import annotations

from collections.abc import Mapping

from llm_marl_envs.core.experts import Experts
from llm_marl_envs.core.parsing import code_of
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.coding import composition as rules
from llm_marl_envs.envs.coding.conventions import read_convention
from llm_marl_envs.envs.coding.source import composition_of

REFERENCE = "reference"
"""The one convention of a row that brings its own programs."""


class CodingExperts(Experts):
    """Write a program for one seat.

    Args:
        roles: seat -> role of the rules, "helper", ... or "main".
    """

    def __init__(self, roles: Mapping[str, str]) -> None:
        self.roles = roles

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Interfaces between the programs that carry the task; `("reference",)` for rows."""
        composition = composition_of(task)
        if composition is not None:
            return rules.conventions(composition)
        return (REFERENCE,) if task.data["helper"] and task.data["main"] else ()

    def first(self, task: Task, agent: str, convention: str) -> str:
        """A right program under one convention; a row's own reference.

        Raises:
            ValueError: no such agent, or the task does not have that convention.
        """
        composition = composition_of(task)
        if composition is not None:
            return rules.expert(composition, self._role(agent), convention)
        if convention not in self.conventions(task):
            raise ValueError(
                f"task {task.id!r} has conventions {self.conventions(task)}, not {convention!r}; "
                "rows have one if they bring `helper` and `main`"
            )
        return task.data[self._role(agent)]

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """Which interface a text follows, read from its syntax tree; None for rows."""
        if "kind" not in task.data:
            return None
        kind, role = task.data["kind"], self._role(agent)
        return read_convention(kind, role, code_of(action), len(self.roles))

    def _role(self, agent: str) -> str:
        if agent not in self.roles:
            raise ValueError(f"agent {agent!r}: expected one of {tuple(self.roles)}")
        return self.roles[agent]
