"""`llm-marl play`: one episode with a person in a seat.

Owns who plays the other seats and how the result is shown; `rollout` drives the episode.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import (
    add_environment,
    add_partners,
    assignments,
    quiet_libraries,
)
from llm_marl_envs.core.checks import refuse_unknown
from llm_marl_envs.core.experts import find_experts
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.rendering import print_text
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.policies.human import HumanPolicy
from llm_marl_envs.policies.named import Context, identity_of, named_partners
from llm_marl_envs.policies.scripted import RandomPolicy


def play(
    env_id: str,
    *,
    agent: str | None = None,
    task: int | str | None = None,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    partners: Mapping[str, str] | None = None,
) -> Episode:
    """Play one episode from standard input and print what came of it.

    Args:
        env_id: a registered id.
        agent: the person's seat; the last one where None.
        task: id or index of the task; drawn by the seed where None.
        seed: reset seed; also the partners'.
        env_kwargs: arguments of the environment.
        partners: other seat -> name of its policy; experts, or random text, where not given.

    Raises:
        ValueError: no such environment, seat or task.
    """
    env = make(env_id, **(env_kwargs or {}))
    seat = env.possible_agents[-1] if agent is None else agent
    if seat not in env.possible_agents:
        raise ValueError(f"no agent {seat!r:.200} in {env_id}; its seats are {env.possible_agents}")
    env.reset(seed=seed, options=None if task is None else {"task": task})
    named = named_partners(partners or {}, Context(env=env))
    refuse_unknown("partners", named, [a for a in env.possible_agents if a != seat])
    others = [a for a in env.possible_agents if a != seat]
    team = {a: named[a] if a in named else partner(env, a) for a in others}
    for other, policy in team.items():
        print(f"{other} is played by {identity_of(policy)}")
    team[seat] = HumanPolicy()
    start = Start(task=task, seed=seed, sample_seed=seed)
    episode = rollout(VectorTextEnv([env]), team, [start])[0]
    print_text(summary(episode))
    return episode


def partner(env: Any, agent: str) -> Policy:
    """The environment's expert for `agent` on the task that runs, random text where it has none."""
    inner = env.unwrapped
    experts = find_experts(inner)
    if experts is None:
        return RandomPolicy()
    try:
        experts.first(inner.task, agent, (experts.conventions(inner.task) or ("",))[0])
    except ValueError:  # what `first` raises where the task has none
        return RandomPolicy()
    return ExpertPolicy(inner)


def summary(episode: Episode) -> str:
    """Every action with its reward and the terms that make it up, and how the episode ended."""
    parts = ["=== what happened ==="]
    for turn in episode.turns:
        terms = ", ".join(f"{name} {value:+g}" for name, value in turn.reward_terms.items())
        parts.append(
            f"--- {turn.agent}, turn {turn.index} ---\n{turn.action}\n"
            f"reward {turn.reward:+g}" + (f" ({terms})" if terms else "")
        )
    returns = ", ".join(f"{a} {episode.undiscounted_return(a):g}" for a in episode.agents)
    solved = {True: "solved", False: "not solved", None: "ended"}[episode.success]
    parts.append(f"task {episode.task_id}: {solved} ({episode.stop_reason}); return: {returns}")
    return "\n".join(parts)


def _add(parser: ArgumentParser) -> None:
    add_environment(parser)
    parser.add_argument("--agent", help="your seat; the last one where not given")
    parser.add_argument("--task", help="id or index of the task; drawn by the seed otherwise")
    parser.add_argument("--seed", type=int, default=0, help="reset seed (default 0)")
    add_partners(parser)


def _run(options: Namespace) -> None:
    quiet_libraries()
    task = int(options.task) if (options.task or "").isdecimal() else options.task
    play(
        options.id,
        agent=options.agent,
        task=task,
        seed=options.seed,
        env_kwargs=assignments(options.set),
        partners=assignments(options.partner),
    )


PLAY = Command(
    name="play",
    about="Take one seat of an environment; scripted experts take the others (random text where "
    "the task has no experts).",
    example="coop_coding-v0 --agent main_0 --set turns=2 --seed 1",
    run=_run,
    add=_add,
)
