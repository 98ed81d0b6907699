"""A recorded episode played again, and whether an environment can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_marl_envs.core.records import Branch, Chance, Episode, Request
from llm_marl_envs.core.seeds import Start, branch_start
from llm_marl_envs.play.branches import NotReplayableError
from llm_marl_envs.play.registry import make_recorded
from llm_marl_envs.play.rollout import Context, Failures, redraws, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.scripted import RandomPolicy, ScriptedPolicy


def replay(episode: Episode, env: Any = None, *, allow_code: bool = False) -> Episode:
    """Play a recorded episode again: the same task, seed and actions.

    Args:
        episode: what to replay.
        env: the environment; made from the episode's id and arguments where None.
        allow_code: whether these may name a program, as "module:Class" does; see `make_recorded`.

    Raises:
        ValueError: the environment asks for an action that the record does not hold, or the record
            names code.
        NotReplayableError: its seats call tools whose answers may change.
    """
    if env is None:
        env = make_recorded(episode.env_id, episode.env_kwargs, allow_code=allow_code)
    if not getattr(env.unwrapped, "replayable", True):
        raise NotReplayableError(
            f"{episode.env_id}: seats call tools whose answers may change: it does not replay"
        )
    responses = {(turn.agent, turn.index): turn.response for turn in episode.turns}

    def script(request: Request) -> str:
        if (request.agent, request.turn) not in responses:
            raise ValueError(f"the record holds no turn {request.turn} of {request.agent}")
        return responses[request.agent, request.turn].text

    policy = ScriptedPolicy(script)
    start = Start(task=episode.task_id or None, seed=episode.seed, redraws=episode.redraws)
    team = dict.fromkeys(episode.agents, policy)
    return rollout(VectorTextEnv([env]), team, [start])[0]


def check_replays(make_env: Callable[[], Any], context: Context = "append") -> None:
    """Play an episode of random texts, one that leaves it at once, and one that leaves that one.

    The last one leaves at the last action, so all before is played again. Where chance can be drawn
    anew, it is on leaving, as in a tree with `chance="episode"`. An environment that raises at such
    texts passes: this says nothing of it.

    Args:
        make_env: makes a fresh environment.
        context: as in `rollout`.

    Raises:
        NotReplayableError: an episode did not come to where the one that it leaves was.
    """
    failures, copies = Failures(make_env), [VectorTextEnv([make_env()]) for _ in range(2)]
    env = copies[0].envs[0]
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    chance: Chance = "episode" if redraws(env) else "group"
    start = Start(seed=1, sample_seed=1)
    for depth, place in enumerate((0, -1, None)):
        played = copies[depth % 2]
        record = rollout(played, team, [start], context=context, failures=failures)[0]
        if record.failed or not record.turns or place is None:
            break
        left = record.turns[place]
        branch = Branch(parent=depth, agent=left.agent, turn=left.index)
        start = branch_start(start, record, branch, depth, chance)
    for vector in copies:
        vector.close()
