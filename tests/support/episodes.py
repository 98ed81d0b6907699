"""Records of episodes and groups that nobody played: written by hand, or listed by a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup, Response, StopReason, Turn

AGENTS = ("a_0", "b_0")
EOS, BETWEEN = 90, 91
"""Ids that end a word, and that stand between two words of an agent."""


def turn(agent: str, index: int, prompt: list[int], action: list[int], reward: float) -> Turn:
    return Turn(
        agent=agent,
        index=index,
        messages=(),
        response=Response(
            text="",
            prompt_ids=tuple(prompt),
            completion_ids=tuple(action),
            logprobs=tuple(-0.1 * token for token in action),
            policy=agent,
        ),
        reward=reward,
    )


class Chats:
    """The token ids of each agent so far, where a word is one id."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.ids = {agent: [10 + place] for place, agent in enumerate(agents)}

    def says(self, agent: str, index: int, word: int, logprob: float = 0.0, **given: Any) -> Turn:
        """The agent's next turn; `given` are fields of it."""
        prompt = self.ids[agent]
        response = Response(
            text="",
            prompt_ids=tuple(prompt),
            completion_ids=(word, EOS),
            logprobs=(logprob, 0.0),
            policy=agent,
        )
        prompt += [word, EOS, BETWEEN]
        return Turn(
            **{"messages": (), "reward": 0.0, **given}, agent=agent, index=index, response=response
        )


def episode(agents: Sequence[str], turns: Sequence[Turn], branch: Branch | None = None) -> Episode:
    """An episode of task "game" that came to its end."""
    return Episode(
        env_id="game",
        env_kwargs={},
        task_id="game",
        seed=0,
        agents=tuple(agents),
        turns=tuple(turns),
        stop_reason=StopReason.TERMINATED,
        success=None,
        branch=branch,
    )


def group_of(episodes: Sequence[Episode]) -> EpisodeGroup:
    """A group of task "game"."""
    return EpisodeGroup(task_id="game", seed=0, episodes=tuple(episodes))


def group(*turns: tuple[Turn, ...]) -> EpisodeGroup:
    """A group of such episodes of two agents."""
    return group_of([episode(AGENTS, some) for some in turns])
