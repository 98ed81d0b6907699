"""Environments that know nothing of this library."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from pettingzoo import ParallelEnv

SPACE = spaces.Text(100_000)


def pay(text: str) -> float:
    return sum(c.isascii() and c.islower() for c in text) / max(len(text), 1)


class Growing(ParallelEnv):
    """Two agents, two rounds, one log that everybody sees."""

    metadata = {"name": "growing"}  # noqa: RUF012 - as PettingZoo declares it

    def __init__(self) -> None:
        self.possible_agents = ["ann", "bob"]

    def observation_space(self, agent: str) -> Any:
        return SPACE

    def action_space(self, agent: str) -> Any:
        return SPACE

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.log = "Write."
        return dict.fromkeys(self.agents, self.log), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        self.log += f"\n{actions['ann']} {actions['bob']}\nMore."
        over = self.log.count("More.") >= 2
        agents, self.agents = self.agents, [] if over else self.agents
        return (
            dict.fromkeys(agents, self.log),
            {agent: pay(actions[agent]) for agent in agents},
            dict.fromkeys(agents, over),
            dict.fromkeys(agents, False),
            {agent: {} for agent in agents},
        )
