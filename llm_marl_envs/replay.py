"""A recorded episode played again, and whether an environment can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_marl_envs.policies.scripted import RandomPolicy, ScriptedPolicy
from llm_marl_envs.records import Branch, Episode, Request
from llm_marl_envs.registry import make
from llm_marl_envs.rollout import Context, Failures, rollout
from llm_marl_envs.seeds import Start, branch_start
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


def check_replays(make_env: Callable[[], Any], context: Context = "append") -> None:
    """Play an episode of random texts, and another that leaves it at its last action.

    An environment that raises at such texts passes: this says nothing of it.

    Args:
        make_env: makes a fresh environment.
        context: as in `rollout`.

    Raises:
        NotReplayableError: the second did not come to where the first was.
    """
    env, start, failures = make_env(), Start(seed=1, sample_seed=1), Failures(make_env)
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    first, again = VectorTextEnv([env]), VectorTextEnv([make_env()])
    record = rollout(first, team, [start], context=context, failures=failures)[0]
    if not record.failed and record.turns:
        last = record.turns[-1]
        branch = Branch(parent=0, agent=last.agent, turn=last.index)
        begun = branch_start(start, record, branch, 0)
        rollout(again, team, [begun], context=context, failures=failures)
    first.close()
    again.close()
