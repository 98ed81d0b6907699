"""A recorded episode played again."""

from __future__ import annotations

from typing import Any

from llm_marl_envs.policies.scripted import ScriptedPolicy
from llm_marl_envs.records import Episode, Request
from llm_marl_envs.registry import make
from llm_marl_envs.rollout import rollout
from llm_marl_envs.seeds import Start
from llm_marl_envs.vector import VectorTextEnv


def replay(episode: Episode, env: Any = None) -> Episode:
    """Play a recorded episode again: the same task, seed and actions.

    Args:
        episode: what to replay.
        env: the environment; made from the episode's id and arguments where None.

    Raises:
        ValueError: the environment asks for an action that the record does not hold.
    """
    env = make(episode.env_id, **episode.env_kwargs) if env is None else env
    said = {(turn.agent, turn.index): turn.response for turn in episode.turns}

    def script(request: Request) -> str:
        if (request.agent, request.turn) not in said:
            raise ValueError(f"the record holds no turn {request.turn} of {request.agent}")
        return said[request.agent, request.turn].text

    policy = ScriptedPolicy(script)
    start = Start(task=episode.task_id or None, seed=episode.seed)
    team = dict.fromkeys(episode.agents, policy)
    return rollout(VectorTextEnv([env]), team, [start])[0]
