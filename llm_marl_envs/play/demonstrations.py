"""What scripted experts show: first actions of single seats, or whole episodes that they play.

Owns who plays with whom. First actions: each draws its task, its seat and its convention, so a
policy fitted to them is competent in every seat, and a team of such policies is not coordinated.
Episodes, where experts listen: in half of them all seats follow one convention, so that listening
to a partner of one's own convention is shown; in the others each draws its own, as in the teams
that a warm start gives, so that nothing but an expert's own convention tells it how to read.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import (
    Demonstration,
    Experts,
    conventions_of,
    experts_of,
    text_env,
)
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.scripted import ScriptedPolicy

COPIES = 32


def demonstrations(
    env: Any, n: int, seed: int, conventions: Sequence[str] | None = None
) -> list[Demonstration]:
    """`n` pairs (messages shown, good action) of an environment's scripted experts.

    Args:
        env: is copied where episodes are played; its own episode is left alone.
        n: how many pairs.
        seed: decides tasks, seats, conventions and reset seeds.
        conventions: those that are shown; None: all. A task that allows none of them shows its own.

    Raises:
        TypeError: an environment of another library.
        ValueError: the environment has no scripted experts, or none for its tasks, or no such
            conventions.
    """
    inner, experts = text_env(env), experts_of(env)
    own = experts.demonstrations(inner, n, seed)
    if conventions is not None:
        available = [*conventions_of(experts, inner.source)]
        if own is not None or not conventions or not set(conventions) <= set(available):
            raise ValueError(f"conventions={[*conventions]}: expected some of {available}")
    if own is not None:
        return own
    shown = frozenset(conventions) if conventions is not None else None
    return (_episodes if experts.listens else _first_actions)(inner, experts, n, seed, shown)


def _possible(experts: Experts, task: Task, shown: frozenset[str] | None) -> tuple[str, ...]:
    """The conventions that may be shown of a task."""
    every = experts.conventions(task) or ("",)
    return tuple(name for name in every if shown is None or name in shown) or every


def _first_actions(
    env: TextEnv, experts: Experts, n: int, seed: int, shown: frozenset[str] | None
) -> list[Demonstration]:
    rng = random.Random(f"demonstrations/{seed}")
    pairs: list[Demonstration] = []
    for _ in range(n):
        task = env.source[rng.randrange(len(env.source))]
        agent = rng.choice(env.possible_agents)
        convention = rng.choice(_possible(experts, task, shown))
        pairs.append((env.first_words(task)[agent], experts.first(task, agent, convention)))
    return pairs


def _episodes(
    env: TextEnv, experts: Experts, n: int, seed: int, shown: frozenset[str] | None
) -> list[Demonstration]:
    """Every seat and turn of episodes that the experts play."""
    rng = random.Random(f"demonstrations/{seed}")
    copies = VectorTextEnv([copy.copy(env) for _ in range(COPIES)])
    pairs: list[Demonstration] = []
    while len(pairs) < n:
        tasks = [env.source[rng.randrange(len(env.source))] for _ in range(COPIES)]
        chosen: list[dict[str, str]] = []
        for task in tasks:
            possible = _possible(experts, task, shown)
            common = rng.choice(possible)
            own = {agent: rng.choice(possible) for agent in env.possible_agents}
            chosen.append(dict.fromkeys(own, common) if rng.random() < 0.5 else own)

        def script(
            request: Request,
            tasks: list[Task] = tasks,
            chosen: list[dict[str, str]] = chosen,
        ) -> str:
            convention = chosen[request.episode][request.agent]
            return experts.reply(
                tasks[request.episode], request.agent, convention, request.messages
            )

        team = dict.fromkeys(env.possible_agents, ScriptedPolicy(script))
        starts = [Start(task=task, seed=rng.randrange(2**32)) for task in tasks]
        for episode in rollout(copies, team, starts):
            pairs += [(turn.messages, turn.action) for turn in episode.turns]
    return pairs[:n]
