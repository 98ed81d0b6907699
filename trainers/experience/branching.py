"""Episodes that leave others, in an update: what they need, what they cost, and how they grow.

An algorithm asks for them (`Algorithm.branches`); `llm_marl_envs.play.rollout` plays them. Owns the
refusals before any work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup
from llm_marl_envs.core.seeds import Start, branch_start
from llm_marl_envs.play.branches import NotReplayableError
from llm_marl_envs.play.replay import check_replays
from llm_marl_envs.play.rollout import redraws
from trainers.algorithms import Algorithm
from trainers.algorithms.base import Budget, Form, in_turn
from trainers.config import MAGRPOConfig

NEEDS: dict[str, tuple[Any, str]] = {
    "loss_type": ("dr_grpo", "a turn's weight counts against a fixed number of trajectories"),
    "beta": (0.0, "a KL term would count the turns of branches as often as all others"),
    "shuffle_rewards": (False, "a branch is compared with the episode that it left"),
    "random_partner": (False, "it pays for other episodes than those that are branched"),
    "returns": ("discounted", "only returns that are made of rewards were tested with branches"),
}
"""Settings of a run that branches -> the one value they may have, and why."""


def most_turns(env: Any, args: MAGRPOConfig) -> int | None:
    """Most actions of one agent in an episode; None where nobody says."""
    inner = env.unwrapped
    return inner.most_actions if isinstance(inner, TextEnv) else args.max_turns


def form_of(env: Any, trained: Sequence[str], args: MAGRPOConfig) -> Form:
    """The largest episodes of a run; an environment that does not say has one turn."""
    return Form(
        size=args.num_generations,
        agents=tuple(trained),
        seats=len(env.possible_agents),
        turns=most_turns(env, args) or 1,
        in_turn=in_turn(env),
    )


def check_budget(algorithm: Algorithm, form: Form, args: MAGRPOConfig) -> Budget:
    """The most that is played of one task, within what the run allows.

    Raises:
        ValueError: an update could sample more than `max_update_tokens`, or the algorithm does not
            fit the environment.
    """
    budget = algorithm.budget(form)
    actions = budget.actions * args.tasks_per_update
    tokens = actions * args.max_completion_length
    if args.max_update_tokens is not None and tokens > args.max_update_tokens:
        raise ValueError(
            f"{algorithm.name!r} may sample {tokens} tokens in an update ({args.tasks_per_update} "
            f"tasks of {budget.episodes} episodes, {actions} actions of up to "
            f"{args.max_completion_length}), more than max_update_tokens={args.max_update_tokens}: "
            "lower num_generations, alternatives, turns, max_completion_length or tasks_per_update"
        )
    return budget


def check_branching(algorithm: Algorithm, args: MAGRPOConfig, make_env: Callable[[], Any]) -> None:
    """Refuse, before any work, a run that cannot be branched.

    Raises:
        ValueError: a setting of `NEEDS`, an environment of unknown length, or chance that cannot be
            drawn anew.
        NotReplayableError: the environment does not do again what it did.
    """
    where = f"algorithm={algorithm.name!r} plays branches of episodes:"
    for name, (needed, reason) in NEEDS.items():
        if getattr(args, name) != needed:
            raise ValueError(f"{where} {name} must be {needed!r}, because {reason}")
    env = make_env()
    if not getattr(env.unwrapped, "replayable", True):
        raise NotReplayableError(
            f"{where} seats call tools whose answers may change; use an algorithm that plays none, "
            "such as 'magrpo'"
        )
    if most_turns(env, args) is None:
        raise ValueError(f"{where} set max_turns, the most actions of one agent in an episode")
    if args.chance == "episode" and not redraws(env):
        raise ValueError(
            f"{where} what chance deals after one cannot be drawn anew in {type(env).__name__}, "
            "which has no redraw(seed); use chance='group'"
        )
    try:
        check_replays(make_env, args.context)
    except NotReplayableError as error:
        raise NotReplayableError(
            f"{where} {error}; use an algorithm that plays none, such as 'magrpo'"
        ) from error


def grown(
    groups: Sequence[EpisodeGroup],
    starts: Sequence[Sequence[Start]],
    branches: Callable[[EpisodeGroup], Sequence[Branch]],
    play: Callable[[Sequence[Start]], list[Episode]],
    most: int,
) -> list[EpisodeGroup]:
    """The groups with their branches, round by round until none is asked for.

    Args:
        groups: as they were planned.
        starts: of each group's episodes.
        branches: what is asked for a group.
        play: plays starts.
        most: episodes of a group.

    Raises:
        ValueError: a group would have more.
        NotReplayableError: the environment cannot be branched.
    """
    groups, begun = list(groups), [list(planned) for planned in starts]
    while True:
        asked: list[int] = []
        for p, group in enumerate(groups):
            for branch in branches(group):
                left, record = begun[p][branch.parent], group.episodes[branch.parent]
                sibling = len(begun[p])
                begun[p].append(branch_start(left, record, branch, sibling, group.chance))
                asked.append(p)
            if len(begun[p]) > most:
                raise ValueError(
                    f"task {group.task_id!r}: {len(begun[p])} episodes, expected at most {most}: "
                    "they took more turns than expected, set max_turns"
                )
        if not asked:
            return groups
        new = [
            start
            for group, all_starts in zip(groups, begun, strict=True)
            for start in all_starts[len(group.episodes) :]
        ]
        played = iter(play(new))
        for p, group in enumerate(groups):
            more = tuple(next(played) for _ in range(asked.count(p)))
            groups[p] = dataclasses.replace(group, episodes=(*group.episodes, *more))
