"""Which role a seat has, for algorithms that keep a baseline for each role.

Owns the three ways to say it and the refusal of a run that has no roles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from llm_marl_envs.core.options import EXPECTED, Options

NAMED = re.compile(r".+_\d+")
"""Agents whose names say their role: `<role>_<int>`."""


class RoleSettings(Options):
    """Whose returns share a baseline."""

    roles: Literal["name", "seat"] | dict[str, str] = Field(
        default="name",
        description="'name' (the agent's name without its number), 'seat' (every seat has a role "
        "of its own) or agent -> role",
        json_schema_extra={EXPECTED: "'name', 'seat' or a map from agent to role"},
    )

    def role(self, agent: str) -> str:
        """The role of an agent."""
        if isinstance(self.roles, dict):
            return self.roles[agent]
        return agent.rpartition("_")[0] if self.roles == "name" else agent

    def check(self, algorithm: str, env: Any, trained: Sequence[str]) -> None:
        """Refuse a run whose trained seats have no roles, or all the same.

        Raises:
            ValueError: says what was found and what to set.
        """
        remedy = (
            f"set roles: seat (each has one of its own) or a map, as in algorithm: {{name: "
            f"{algorithm}, roles: {{{trained[0]}: first, ...}}}}, or choose algorithm: magrpo"
        )
        if isinstance(self.roles, dict):
            missing = sorted(set(trained) - set(self.roles))
            unknown = sorted(set(self.roles) - set(env.possible_agents))
            if missing or unknown:
                raise ValueError(
                    f"{algorithm}, roles={self.roles!r}: no role for {missing}, and no agents "
                    f"{unknown}; the trained agents are {[*trained]}"
                )
        elif self.roles == "name":
            unnamed = [agent for agent in trained if not NAMED.fullmatch(agent)]
            if unnamed:
                raise ValueError(
                    f"{algorithm}: the names {unnamed} say no role (expected <role>_<number>); "
                    f"{remedy}"
                )
            if len(trained) > 1 and len({self.role(agent) for agent in trained}) == 1:
                raise ValueError(
                    f"{algorithm} keeps a baseline for each role, and the agents {[*trained]} all "
                    f"have the role {self.role(trained[0])!r}; {remedy}"
                )
