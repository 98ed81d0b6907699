"""One update's experience: tasks -> episodes -> returns -> advantages. No tensors, no gradients.

Owns the environment copies, and the checks that every number is finite before it can reach a
gradient. Token tensors are built by `packing.py`, the loss is TRL's.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from llm_marl_envs.core.environment import TextEnv, task_source
from llm_marl_envs.core.records import Episode, EpisodeGroup
from llm_marl_envs.core.seeds import Start, derive_seed, held_out_starts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.play.rollout import Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Team
from trainers.algorithms import AdvantageInputs, Algorithm
from trainers.batch.packing import reward_array, turns_taken
from trainers.batch.returns import Paid, make_returns
from trainers.config import MAGRPOConfig
from trainers.experience.branching import check_branching, check_budget, form_of, grown
from trainers.experience.random_partner import check_random_partner, paid_beside_experts
from trainers.experience.seating import Seating
from trainers.experience.sequential import check_sequential
from trainers.policies.token_policy import TokenPolicy
from trainers.schedules.schedules import TaskSchedule

# Openings looked at before training; larger sources are sampled evenly. Of each agent's the longest
# texts are read by its tokenizer.
CONTEXT_SAMPLE, CONTEXT_READ = 256, 8


class Collector:
    """Plays the episodes of an update and judges them.

    `policies` is agent -> name of its weights, for the trained agents.

    Attributes:
        env: one copy, for its agents, tasks and limits.
        budget: the most that is played of one task.
        seating: who sits where, by name.
        schedule: which tasks are played when.
        schedules: what else changes from update to update.
        failures: of the newest update, on this process.

    Raises:
        ValueError: the tasks of an update do not divide among the processes, an environment
            without tasks and no `max_steps`, a schedule that cannot be followed, `random_partner`
            where nobody can be drawn, or an algorithm that needs what this run lacks
            (`branching.py`).
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        algorithm: Algorithm,
        args: MAGRPOConfig,
        trained: Sequence[str],
        policies: Mapping[str, str],
    ) -> None:
        self.make_env = make_env
        self.env = make_env()
        self.algorithm = algorithm
        self.args = args
        self.returns = make_returns(args.returns)
        self.trained = tuple(trained)
        if args.tasks_per_update % args.world_size:
            raise ValueError(
                f"tasks_per_update={args.tasks_per_update} does not divide among "
                f"{args.world_size} processes; use a multiple"
            )
        source = task_source(self.env)
        if source is None and args.max_steps <= 0:
            raise ValueError("this environment has no task source: set max_steps")
        n_tasks = None if source is None else len(source)
        self.schedule = TaskSchedule(n_tasks, args.tasks_per_update, args.seed)
        self.seating = Seating(args, self.env, trained, policies)
        self.schedules = self.seating.schedules
        if self.schedules.sequential is not None:
            check_sequential(self.env, algorithm, args, self.trained, self.seating.policy_of)
        self._copies: VectorTextEnv | None = None
        self.failures = Failures(make_env)
        if args.random_partner:
            check_random_partner(self.env)
        if source is None and args.chance == "episode":
            raise ValueError(
                "chance='episode': this environment has no tasks, so the reset seed is all that "
                "makes the episodes of a group comparable; use 'group'"
            )
        self.budget = check_budget(algorithm, form_of(self.env, self.trained, args), args)
        if algorithm.branching:
            check_branching(algorithm, args, make_env)

    @property
    def episodes_per_update(self) -> int:
        """Episodes that this process plays in one update."""
        return self.args.tasks_per_update // self.args.world_size * self.args.num_generations

    def play(self, update: int, team: Team) -> list[EpisodeGroup]:
        """The groups of one update that belong to this process, failed episodes in their places.

        Raises:
            FloatingPointError: a sampled log-prob that is not finite; the episode is named.
            ValueError: the algorithm planned another number of episodes than G.
        """
        size = self.args.num_generations
        starts = self._starts(update)
        if self._copies is None:
            copies = [self.env, *(self.make_env() for _ in range(len(starts) - 1))]
            self._copies = VectorTextEnv(copies)
        self.failures = Failures(partial(self._fresh, update))
        play = partial(
            rollout,
            self._copies,
            team,
            context=self.args.context,
            chunks=self.args.rollout_chunks,
            failures=self.failures,
            states=self.algorithm.reads_state,
        )
        with self._horizon(update, self._copies):
            episodes = play(starts)
            if self.args.random_partner:
                episodes = paid_beside_experts(
                    self._copies, episodes, starts, self.trained, self.failures
                )
            groups = self._grouped(update, episodes)
            if self.algorithm.branching:
                planned = [starts[i : i + size] for i in range(0, len(starts), size)]
                ask = partial(self.algorithm.branches, agents=self.trained)
                groups = grown(groups, planned, ask, play, self.budget.episodes)
        groups = [self._with_horizon(update, group) for group in groups]
        self.env = self._copies.envs[0]  # the first one may have been replaced
        for group in groups:
            for number, episode in group.living:
                _check_log_probs(episode, number, update)
        return groups

    def _grouped(self, update: int, episodes: Sequence[Episode]) -> list[EpisodeGroup]:
        size, groups = self.args.num_generations, []
        for first in range(0, len(episodes), size):
            group = tuple(episodes[first : first + size])
            position = self.seating.share.start + len(groups)
            shared = self.args.chance == "group"
            groups.append(
                EpisodeGroup(
                    # An episode that failed at once may have no task.
                    task_id=next((e.task_id for e in group if e.task_id), ""),
                    seed=group[0].seed if shared else self.schedule.reset_seed(update, position),
                    episodes=group,
                    chance="group" if shared else "episode",
                )
            )
        return groups

    def _with_horizon(self, update: int, group: EpisodeGroup) -> EpisodeGroup:
        """The group, whose records say how many turns were played at most."""
        if self.schedules.horizon is None:
            return group
        turns = {"turns": self.schedules.horizon.at(update)}
        episodes = (
            dataclasses.replace(episode, env_kwargs={**episode.env_kwargs, **turns})
            for episode in group.episodes
        )
        return dataclasses.replace(group, episodes=tuple(episodes))

    def _fresh(self, update: int) -> Any:
        """A copy in the place of one that raised, with as many turns as the update has."""
        env = self.make_env()
        if self.schedules.horizon is not None:
            env.unwrapped.max_turns = self.schedules.horizon.at(update)
        return env

    @contextmanager
    def _horizon(self, update: int, copies: VectorTextEnv) -> Iterator[None]:
        """Let the copies play as many turns as the update has; a record says so in its `turns`."""
        horizon = self.schedules.horizon
        if horizon is None:
            yield
            return
        longest = copies.envs[0].unwrapped.max_turns
        for copy in copies.envs:
            copy.unwrapped.max_turns = horizon.at(update)
        try:
            yield
        finally:
            for copy in copies.envs:
                copy.unwrapped.max_turns = longest

    def _starts(self, update: int) -> list[Start]:
        size = self.args.num_generations
        starts: list[Start] = []
        for position, task in list(enumerate(self.schedule.tasks(update)))[self.seating.share]:
            seed = self.schedule.reset_seed(update, position)
            planned = self.algorithm.plan(task, size, seed)
            if len(planned) != size:
                raise ValueError(
                    f"{self.algorithm.name}.plan returned {len(planned)} episodes, expected {size}"
                )
            starts += planned
        return starts

    def judge(
        self, update: int, groups: Sequence[EpisodeGroup]
    ) -> tuple[AdvantageInputs, np.ndarray]:
        """What the advantages were computed from, and the advantages (P, G, A, K).

        Raises:
            FloatingPointError: an advantage that is not finite; the episode is named.
        """
        paid, args = groups, self.args
        if args.shuffle_rewards:
            paid = _dealt(groups, derive_seed("shuffle", args.seed, update))
        rewards, _ = reward_array(paid, self.trained, args.credit)
        _, alive = reward_array(groups, self.trained, args.credit)
        if self.seating.some_play_untrained:
            alive = alive & _taken(
                self.seating.own_turns(update, groups), self.trained, alive.shape
            )
            rewards = np.where(alive, rewards, 0.0)
        returns = self.returns(
            Paid(
                rewards=rewards,
                alive=alive,
                groups=paid,
                agents=self.trained,
                discount=args.discount,
            )
        )
        inputs = AdvantageInputs(
            returns=np.where(alive, returns, 0.0),
            rewards=rewards,
            alive=alive,
            agents=self.trained,
            policies=self.seating.policies(update),
            groups=tuple(groups),
        )
        advantages = self.algorithm.advantages(inputs)
        with np.errstate(over="ignore"):
            bad = np.argwhere(alive & ~np.isfinite(advantages.astype(np.float32)))
        if len(bad):
            task, episode, agent, turn = bad[0]
            raise not_finite(
                update,
                f"advantage of {self.trained[agent]}, turn {turn}, task "
                f"{groups[task].task_id!r}, seed {groups[task].seed}, episode {episode}",
            )
        return inputs, np.where(alive, advantages, 0.0)


def _dealt(groups: Sequence[EpisodeGroup], seed: int) -> list[EpisodeGroup]:
    """The groups, their living episodes in another order: who is paid as whom, for a control."""
    rng = np.random.default_rng(seed)
    dealt = []
    for group in groups:
        episodes = list(group.episodes)
        places = [g for g, _ in group.living]
        for place, source in zip(places, rng.permutation(places), strict=True):
            episodes[place] = group.episodes[source]
        dealt.append(dataclasses.replace(group, episodes=tuple(episodes)))
    return dealt


def _taken(
    groups: Sequence[EpisodeGroup], agents: Sequence[str], shape: tuple[int, ...]
) -> np.ndarray:
    """bool, (P, G, A, K): which turns the episodes hold."""
    taken = np.zeros(shape, dtype=bool)
    for where, _ in turns_taken(groups, agents):
        taken[where] = True
    return taken


def _check_log_probs(episode: Episode, number: int, update: int) -> None:
    for turn in episode.turns:
        for value in turn.response.logprobs or ():
            if not math.isfinite(value):
                raise not_finite(
                    update,
                    f"log-prob {value} of {turn.agent}, turn {turn.index}, task "
                    f"{episode.task_id!r}, seed {episode.seed}, episode {number}",
                )


def not_finite(update: int, what: str) -> FloatingPointError:
    """The error that stops training because of a number; names the episode it belongs to."""
    return FloatingPointError(
        f"update {update}: {what} is not finite; training stopped before the weights were touched"
    )


def evaluation_episodes(
    make_env: Callable[[], Any], team: Team, args: MAGRPOConfig, failures: Failures
) -> list[Episode]:
    """One episode on each of the first `eval_tasks` tasks, the same ones every time.

    Those that failed are among them; `failures` keeps the first error.
    """
    env = make_env()
    source = task_source(env)
    count = min(args.eval_tasks, len(source)) if source else args.eval_tasks
    starts = held_out_starts(args.seed, count, with_tasks=source is not None)
    copies = VectorTextEnv([env, *(make_env() for _ in range(count - 1))])
    episodes = rollout(copies, team, starts, context=args.context, failures=failures)
    copies.close()
    return episodes


def _bytes_told(agent: str, told: tuple[Task, Mapping[str, Sequence[Message]]]) -> int:
    """How long the first words of an agent are."""
    return sum(len(one.content.encode("utf-8", "surrogatepass")) for one in told[1][agent])


def check_context(env: Any, policy: TokenPolicy, args: MAGRPOConfig) -> None:
    """Refuse, before any work, episodes that cannot fit into a model's context.

    What the environment will say between turns is not known yet, so this finds only what cannot
    fit whatever it says; the rest is found when it happens.

    Raises:
        ValueError: names the task and the agent.
    """
    env = env.unwrapped
    if not isinstance(env, TextEnv) or env.chats > 1:  # a memory bounds chats, in characters
        return
    step = max(1, len(env.source) // CONTEXT_SAMPLE)
    tasks = [env.source[index] for index in range(0, len(env.source), step)]
    told = [(task, env.first_words(task)) for task in tasks]
    for agent, name in policy.team.policy_of.items():
        limit = policy.team.context_length(name)
        size = partial(_bytes_told, agent)
        for task, words in heapq.nlargest(CONTEXT_READ, told, key=size):
            opening = len(policy.first_prompt(agent, words[agent], env.tool_sheets.get(agent)))
            actions = env.max_turns + env.beside.get(agent, 0)
            longest = opening + actions * args.max_completion_length
            if limit is not None and longest > limit:
                raise ValueError(
                    f"task {task.id!r}: {agent} may need {longest} tokens ({opening} to begin "
                    f"with, {actions} x {args.max_completion_length} to answer) and the "
                    f"model's context holds {limit}; lower max_completion_length or turns"
                )
