"""Teams of societies: who follows which plan, who always says the same, what they earn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.measure.numbers.values import measure
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

MEASURES = ("survival", "efficiency", "gini", "over_use", "tipping")


def played(env: Any, team: Mapping[str, Policy], seed: int = 0, task: int = 0) -> Episode:
    """One episode."""
    return rollout(VectorTextEnv([env]), team, [Start(task=task, seed=seed)])[0]


def returns(env: Any, team: Mapping[str, Policy], seed: int = 0) -> list[float]:
    """What each seat earns in the first task."""
    episode = played(env, team, seed)
    return [episode.undiscounted_return(agent) for agent in env.possible_agents]


def plans(env: Any, *names: str) -> dict[str, Policy]:
    """Experts who follow plans; of one plan all do."""
    seats = env.possible_agents
    names = names * len(seats) if len(names) == 1 else names
    return {agent: ExpertPolicy(env, plan) for agent, plan in zip(seats, names, strict=True)}


def asked(request: Any) -> bool:
    """Whether something else than talk is wanted."""
    return "Answer with one line" in request.messages[-1].content


def always(text: str) -> ScriptedPolicy:
    """Says a text where one line is wanted, and nothing in talk."""
    return ScriptedPolicy(lambda request: text if asked(request) else "")


def measured_of(env: Any, team: Mapping[str, Policy]) -> dict[str, float | None]:
    """The measures of a society of one episode."""
    return {name: column[0] for name, column in measure([played(env, team)], MEASURES).items()}


def talk_changes_nothing(
    env: Any, team: Mapping[str, Policy], seat: str, act: str, texts: Mapping[str, str]
) -> None:
    """What all earn is the same whatever a seat says in talk, if it then does the same.

    Args:
        env: with talk.
        team: the others.
        seat: who talks.
        act: what it says where one line is wanted.
        texts: name -> what it says in talk.
    """
    plain = returns(env, {**team, seat: always(act)})
    for name, text in texts.items():
        talker = ScriptedPolicy(lambda request, said=text: act if asked(request) else said)
        assert returns(env, {**team, seat: talker}) == plain, name
