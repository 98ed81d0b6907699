"""Demonstrations of whole episodes: scripted experts play, what each saw and said is kept.

Owns who plays with whom. In half of the episodes all seats follow one convention, so that listening
to a partner of one's own convention is shown; in the others each draws its own, as in the teams
that a warm start gives, so that nothing but an expert's own convention tells it how to read.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_marl_envs.core import TextEnv
    from llm_marl_envs.records import Request
    from llm_marl_envs.spaces import Message
    from llm_marl_envs.tasks import Task

COPIES = 32


def played_demonstrations(env: TextEnv, n: int, seed: int) -> list[tuple[tuple[Message, ...], str]]:
    """`n` pairs (messages shown, action) from every seat and turn of episodes that experts play.

    Args:
        env: is copied; its own episode is left alone.
        n: how many pairs.
        seed: decides tasks, conventions and reset seeds.

    Raises:
        ValueError: the environment has no scripted experts.
    """
    # `rollout` builds on `core`, which calls this module.
    from llm_marl_envs.policies.scripted import ScriptedPolicy
    from llm_marl_envs.rollout import rollout
    from llm_marl_envs.seeds import Start
    from llm_marl_envs.vector import VectorTextEnv

    rng = random.Random(f"demonstrations/{seed}")
    copies = VectorTextEnv([copy.copy(env) for _ in range(COPIES)])
    pairs: list[tuple[tuple[Message, ...], str]] = []
    while len(pairs) < n:
        tasks = [env.source[rng.randrange(len(env.source))] for _ in range(COPIES)]
        chosen: list[dict[str, str]] = []
        for task in tasks:
            possible = env.conventions(task) or ("",)
            common = rng.choice(possible)
            own = {agent: rng.choice(possible) for agent in env.possible_agents}
            chosen.append(dict.fromkeys(own, common) if rng.random() < 0.5 else own)

        def script(
            request: Request,
            tasks: list[Task] = tasks,
            chosen: list[dict[str, str]] = chosen,
        ) -> str:
            convention = chosen[request.episode][request.agent]
            return env.reply(tasks[request.episode], request.agent, convention, request.messages)

        team = dict.fromkeys(env.possible_agents, ScriptedPolicy(script))
        starts = [Start(task=task, seed=rng.randrange(2**32)) for task in tasks]
        for episode in rollout(copies, team, starts):
            pairs += [(turn.messages, turn.action) for turn in episode.turns]
    return pairs[:n]
