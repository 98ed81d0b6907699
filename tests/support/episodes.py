"""Episodes and groups written by hand."""

from __future__ import annotations

from llm_marl_envs.records import Episode, EpisodeGroup, Response, StopReason, Turn

AGENTS = ("a_0", "b_0")


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


def group(*episodes: tuple[Turn, ...]) -> EpisodeGroup:
    return EpisodeGroup(
        task_id="t",
        seed=0,
        episodes=tuple(
            Episode(
                env_id="drawn",
                env_kwargs={},
                task_id="t",
                seed=0,
                agents=AGENTS,
                turns=turns,
                stop_reason=StopReason.TERMINATED,
                success=None,
            )
            for turns in episodes
        ),
    )
