"""Scripted experts of the games, and what a near-uniform warm start learns from.

An expert follows a plan: an action, or a strategy that answers what the other did. Demonstrations
show legal actions at random, in episodes of random actions: a model fitted to them is legible and
prefers nothing, so it begins where tables of zeros begin. Those of Kuhn poker depend on what a seat
knows (`at_random`), and prefer nothing on average.
"""

from __future__ import annotations

import copy
import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from llm_marl_envs.core.environment import TextEnv, TextParallelEnv
from llm_marl_envs.core.experts import Demonstration, ListeningExperts
from llm_marl_envs.core.tasks import Task


class GameExperts(ListeningExperts):
    """Experts of a game whose actions are words."""

    @abstractmethod
    def legal(self, task: Task, agent: str) -> Sequence[str]:
        """The words that are actions of a seat."""

    def at_random(self, env: TextEnv, agent: str, rng: random.Random) -> str:
        """What a seat says in demonstrations, at this point of an episode: each as likely."""
        return rng.choice(self.legal(env.task, agent))

    def demonstrations(self, env: TextEnv, n: int, seed: int) -> list[Demonstration] | None:
        """Legal words at random, as `at_random` draws them, after as random episodes."""
        rng = random.Random(f"demonstrations/{seed}")
        played: Any = copy.copy(env)
        pairs: list[Demonstration] = []
        while len(pairs) < n:
            task = env.source[rng.randrange(len(env.source))]
            played.reset(seed=rng.randrange(2**32), options={"task": task})
            while played.agents:
                acting = played.agents if isinstance(env, TextParallelEnv) else None
                agents = acting or [played.agent_selection]
                joint_action = {agent: self.at_random(played, agent, rng) for agent in agents}
                pairs += [(played.chat(agent), word) for agent, word in joint_action.items()]
                played.step(joint_action if acting else joint_action[agents[0]])
                if not acting and all(played.terminations.values()):
                    break
        return pairs[:n]
