"""A control: each seat is paid for its text beside a scripted partner drawn by lot.

Skill is paid so, and agreement is not (docs/demo.md). Owns the draw, the payment and what the
environment must have.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.core.environment import TextEnv, TextParallelEnv
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Episode, StopReason, Turn
from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.measure.numbers.coordination import beside_experts
from llm_marl_envs.play.rollout import Failures
from llm_marl_envs.play.vector import VectorTextEnv

LOOKED_AT = 256
"""Tasks among which one must allow several conventions."""


def check_random_partner(env: Any) -> None:
    """Refuse, before any work, an environment in which no partner can be drawn.

    Raises:
        ValueError: seats that act in turn or more than once, no scripted experts, or tasks of
            which each allows a single convention.
    """
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, TextParallelEnv) or inner.most_actions > 1:
        raise ValueError(
            f"random_partner in {type(inner).__name__}: expected an environment of this library "
            "whose seats act once and at the same time (a TextParallelEnv with turns=1); elsewhere "
            "what a seat says depends on what its partners said"
        )
    tasks = (inner.source[i] for i in range(min(len(inner.source), LOOKED_AT)))
    experts = inner.experts()
    if experts is None or not any(len(experts.conventions(task)) > 1 for task in tasks):
        raise ValueError(
            f"random_partner in {type(inner).__name__}: expected scripted experts of several "
            "conventions; its tasks name none, or one each, so there is nothing to draw"
        )


def paid_beside_experts(
    copies: VectorTextEnv,
    episodes: Sequence[Episode],
    starts: Sequence[Start],
    trained: Sequence[str],
    failures: Failures,
) -> list[Episode]:
    """The episodes, each trained seat paid what its text earns beside experts: a control.

    For each episode and seat a convention is drawn uniformly from those that the task allows, from
    the episode's sampling seed; experts of it play the other seats. Seats draw independently, or
    the draws of one update would lead them the same way. What the seats said, and whether they
    solved the task together, stays; `info["partner"]` is the convention drawn. An episode whose
    environment raises beside the experts has failed.
    """
    env: TextEnv = copies.envs[0].unwrapped
    experts = experts_of(env)
    trials: list[tuple[Episode, str, str]] = []
    for episode, start in zip(episodes, starts, strict=True):
        if not episode.failed:
            possible = experts.conventions(env.source.find(episode.task_id)) or ("",)
            for agent in trained:
                drawn = random.Random(derive_seed("partner", start.sample_seed, agent))
                trials.append((episode, agent, drawn.choice(possible)))
    judged: dict[int, dict[str, tuple[str, Episode]]] = {}
    for trial, again in zip(trials, beside_experts(copies, trials, failures), strict=True):
        judged.setdefault(id(trial[0]), {})[trial[1]] = trial[2], again
    return [_repaid(episode, judged.get(id(episode), {})) for episode in episodes]


def _repaid(episode: Episode, judged: Mapping[str, tuple[str, Episode]]) -> Episode:
    """The episode, each agent in `judged` paid as in (convention drawn, episode of it)."""
    broken = next((again for _, again in judged.values() if again.failed), None)
    if broken is not None:
        return dataclasses.replace(
            episode, stop_reason=StopReason.FAILED, success=None, failure=broken.failure
        )

    def repaid(turn: Turn) -> Turn:
        """A turn of a judged agent with the pay of its other episode; others as they are."""
        if turn.agent not in judged:
            return turn
        convention, again = judged[turn.agent]
        other = again.trajectory(turn.agent)[0]
        return dataclasses.replace(
            turn,
            reward=other.reward,
            reward_terms=other.reward_terms,
            added_terms=other.added_terms,
            team_reward=other.team_reward,
            info={**turn.info, "partner": convention},
        )

    return dataclasses.replace(episode, turns=tuple(map(repaid, episode.turns)))
