"""Who sits where in each update, by name: the one answer.

    policy_of                the run file's: agent -> name of its weights
    exchange, population     move these names among the trained seats
    population with a size   draws them for each group, from more than there are seats
    pool                     seats past selves and opponents in a group, beside one that learns

Everything here follows from (seed, update) and from which past selves are kept. The policies behind
the names are `players.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from llm_marl_envs.core.records import Episode, EpisodeGroup, Turn
from llm_marl_envs.core.seeds import derive_seed
from trainers.config import MAGRPOConfig
from trainers.schedules.pool import MARK, Match, checked
from trainers.schedules.population import Members
from trainers.schedules.schedules import make_schedules


class Seating:
    """Names in seats, for all updates of a run.

    Attributes:
        schedules: what changes from update to update.
        pool: the one of these that seats others; None: present weights play all seats.
        members: of a population that is larger than its seats; else None.

    Raises:
        ValueError: a schedule that cannot be followed.
    """

    def __init__(
        self, args: MAGRPOConfig, env: Any, trained: Sequence[str], policy_of: Mapping[str, str]
    ) -> None:
        self.args = args
        self.trained = tuple(trained)
        self.policy_of = dict(policy_of)
        self.schedules = make_schedules(args.schedules)
        self.schedules.check(env, self.trained, self.policy_of)
        self.pool = self.schedules.pool
        population = self.schedules.population
        self.members = (
            None
            if population is None or population.size is None
            else Members(population, self.trained, self.policy_of, env.possible_agents)
        )

    @property
    def share(self) -> slice:
        """Which of an update's groups this process plays."""
        local = self.args.tasks_per_update // self.args.world_size
        first = self.args.process_index * local
        return slice(first, first + local)

    def policies(self, update: int) -> dict[str, str]:
        """The policy of each agent of the team in an update."""
        return self.schedules.seats(update, self.trained, self.policy_of, self.args.seed)

    def line_ups(self, update: int, kept: Mapping[str, Sequence[int]]) -> list[dict[str, str]]:
        """Seat -> who plays there instead of present weights, for each group of all processes.

        Args:
            update: number of the update.
            kept: policy -> the updates before which its past selves were kept, oldest first.
        """
        groups, pool = range(self.args.tasks_per_update), self.pool
        if self.members is not None:
            drawn = partial(self.members.line_up, update, per_update=len(groups))
            return [drawn(place, seed=self.args.seed) for place in groups]
        if pool is None:
            return [{} for _ in groups]
        strategy, opponents = pool.make_strategy(), tuple(pool.opponents or ())
        matches = [self._match(update, place, kept, opponents) for place in groups]
        return [checked(strategy.line_up(match), match, pool.strategy) for match in matches]

    def _match(
        self,
        update: int,
        place: int,
        kept: Mapping[str, Sequence[int]],
        opponents: tuple[str, ...],
    ) -> Match:
        learners = self.schedules.learners(update, self.trained)
        past = {
            seat: tuple(past_self(policy, n) for n in kept.get(policy, ()) if n < update)
            for seat, policy in self.policies(update).items()
            if seat in self.trained
        }
        return Match(
            seed=derive_seed("pool", self.args.seed, update, place),
            update=update,
            learner=learners[(update * self.args.tasks_per_update + place) % len(learners)],
            seats=self.trained,
            past=past,
            opponents=opponents,
        )

    @property
    def some_play_untrained(self) -> bool:
        """Whether trained seats are played by others than those who learn."""
        grows = self.members is not None and self.members.population.grow is not None
        return self.pool is not None or grows

    def own_turns(self, update: int, groups: Sequence[EpisodeGroup]) -> Sequence[EpisodeGroup]:
        """The groups, without the turns of trained seats that somebody took who does not learn."""
        if not self.some_play_untrained:
            return groups
        seats = self.policies(update)
        learners = None if self.members is None else self.members.learners(update)

        def learns(turn: Turn) -> bool:
            if learners is not None and turn.agent in self.trained:
                return turn.response.policy in learners
            return turn.response.policy == seats.get(turn.agent)

        def own(episode: Episode) -> Episode:
            return dataclasses.replace(episode, turns=tuple(filter(learns, episode.turns)))

        return [
            dataclasses.replace(group, episodes=tuple(map(own, group.episodes))) for group in groups
        ]


def past_self(policy: str, update: int) -> str:
    """The name of a policy as it was before an update."""
    return f"{policy}{MARK}{update}"
