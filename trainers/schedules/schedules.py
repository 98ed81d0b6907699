"""What is trained on when: tasks, reset seeds, and the schedules that a run file asks for.

    schedules:
      exchange: {every: 5}                                  # policies change seats, in turn
      population: {every: 1}                                # the same by lot (`population.py`)
      in_turn: {every: 10, order: [[helper_0], [main_0]]}   # who learns
      horizon: {every: 100, turns: [1, 2, 4]}               # how long episodes are
      difficulty: {lowest: 0.1, highest: 0.9}               # which groups count
      pool: {every: 20, past: 0.4}                          # who plays beside a learner
      sequential: {}                                        # policies learn one after the other

Everything here is a function of (seed, update) or of the episodes of one update, so a resumed run
needs no state of it, except the past selves of a pool (`pool.py`, `experience/players.py`). An
update is one rollout, whatever `num_iterations` makes of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from llm_marl_envs.core.checks import check_types, refuse_unknown
from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.options import EXPECTED, Options, Share
from llm_marl_envs.core.records import EpisodeGroup
from llm_marl_envs.core.seeds import epoch_order, update_seed
from llm_marl_envs.core.specs import env_arguments
from llm_marl_envs.wrappers.single_seat import SingleSeat
from trainers.schedules.pool import Pool
from trainers.schedules.population import Population


@dataclass(frozen=True, slots=True)
class TaskSchedule:
    """Visits every task once per epoch, in an order drawn anew for each epoch.

    An epoch ends where its tasks end, in the middle of an update too: the next one fills the rest.

    Attributes:
        n_tasks: size of the task source; None for an environment that has none, whose groups
            differ by their reset seed alone.
        per_update: P, tasks of one update.
        seed: the run's seed.
    """

    n_tasks: int | None
    per_update: int
    seed: int

    @property
    def updates_per_epoch(self) -> int:
        """Updates that visit all tasks, rounded up."""
        return -(-(self.n_tasks or self.per_update) // self.per_update)

    def tasks(self, update: int) -> list[int | None]:
        """Task indices of an update; None where the environment has no task source."""
        if self.n_tasks is None:
            return [None] * self.per_update
        visits = range(update * self.per_update, (update + 1) * self.per_update)
        orders = {
            epoch: epoch_order(self.seed, epoch, self.n_tasks)
            for epoch in {v // self.n_tasks for v in visits}
        }
        return [orders[v // self.n_tasks][v % self.n_tasks] for v in visits]

    def reset_seed(self, update: int, position: int) -> int:
        """The seed of one group, from which its episodes' reset seeds follow; fits 32 bits."""
        return update_seed(self.seed, update, position)


Seats = Annotated[list[str], Field(min_length=1)]
Every = Annotated[int, Field(ge=1)]
"""So many updates."""


class Exchange(Options):
    """Policies move on by one seat every so many updates (CORY, NeurIPS 2024).

    CORY writes both models and loads them crosswise, which loses the optimiser's moments. Here they
    stay with their weights. A saved team and an evaluation have the seats of the beginning.
    """

    within = "schedules, exchange"
    every: Every = Field(default=5, description="updates between two exchanges")

    def check(self, trained: Sequence[str], policy_of: Mapping[str, str]) -> None:
        """Refuse seats that have nothing to exchange.

        Raises:
            ValueError: one trained seat, or several with one policy.
        """
        policies = [policy_of[agent] for agent in trained]
        if len(policies) < 2 or len(set(policies)) < len(policies):
            raise ValueError(
                f"schedules, exchange: the trained seats {[*trained]} play with {policies}; "
                "expected two seats or more, each with a policy of its own (weights: adapters or "
                "separate)"
            )

    def seats(
        self, update: int, trained: Sequence[str], policy_of: Mapping[str, str]
    ) -> dict[str, str]:
        """The policy of each agent in an update."""
        own = [policy_of[agent] for agent in trained]
        first = update // self.every % len(own)
        return {**policy_of, **dict(zip(trained, own[first:] + own[:first], strict=True))}


class InTurn(Options):
    """Only some agents learn in an update: round-robin, or a leader alone (MLPO)."""

    within = "schedules, in_turn"
    every: Every = Field(default=1, description="updates of one turn")
    order: Annotated[list[Seats], Field(min_length=1)] | None = Field(
        default=None,
        description="the agents that learn, turn by turn, then from the beginning; None: each "
        "trained agent alone, in seat order. [[main_0]] trains one seat alone, also where several "
        "share their weights",
        json_schema_extra={EXPECTED: "lists of agents, as in [[helper_0], [main_0]]"},
    )

    def check(self, trained: Sequence[str]) -> None:
        """Refuse agents that are not trained.

        Raises:
            ValueError: names them.
        """
        unknown = sorted({agent for each in self.order or () for agent in each} - set(trained))
        if unknown:
            raise ValueError(
                f"schedules, in_turn, order: {unknown} are not trained; expected some of "
                f"{[*trained]}"
            )

    def learners(self, update: int, trained: Sequence[str]) -> tuple[str, ...]:
        """The agents that learn in an update."""
        order = self.order or [[agent] for agent in trained]
        return tuple(order[update // self.every % len(order)])


class Horizon(Options):
    """Episodes grow longer in steps; the last length stays (ScalingInter-RL, arXiv 2509.08755).

    The environment itself has fewer turns, so that prompts and payments are those of an episode of
    that length. Evaluations keep their own.
    """

    within = "schedules, horizon"
    turns: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] = Field(
        description="most turns per agent, step by step"
    )
    every: Every = Field(default=100, description="updates of one step")

    def check(self, env: Any) -> None:
        """Refuse an environment whose turns cannot be set, or that has fewer.

        Raises:
            ValueError: says which, and what to do.
        """
        inner = getattr(env, "unwrapped", env)
        if not isinstance(inner, TextEnv) or isinstance(inner, SingleSeat):
            raise ValueError(
                f"schedules, horizon: the turns of {type(inner).__name__} cannot be set; expected "
                "an environment of this library, not behind single_seat"
            )
        taken = inspect.signature(type(inner)).parameters
        passed_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
        by_default = taken["turns"].default if "turns" in taken else inner.max_turns
        turns = env_arguments(inner).get("turns", by_default)
        wrong = inner.spec is not None and turns != inner.max_turns
        if wrong or not ("turns" in taken or passed_on):
            raise ValueError(
                f"schedules, horizon: an episode of {type(inner).__name__} does not have as many "
                "turns as its argument `turns` says, so it cannot be cut; leave the horizon out"
            )
        if max(self.turns) > inner.max_turns:
            raise ValueError(
                f"schedules, horizon, turns={self.turns}: the environment has {inner.max_turns} "
                f"turns; set env_kwargs: {{turns: {max(self.turns)}}}"
            )

    def at(self, update: int) -> int:
        """Most turns per agent in an update."""
        return self.turns[min(update // self.every, len(self.turns) - 1)]


class Difficulty(Options):
    """Groups that succeed too often or too seldom are not trained on.

    They stay in the divisor of the loss: what is left out makes the step shorter, not the others
    weigh more. Nothing is sampled in their place.
    """

    within = "schedules, difficulty"
    lowest: Share = Field(
        default=0.0,
        description="share of a group's episodes that succeed; a group below it is left out",
    )
    highest: Share = Field(
        default=1.0, description="as `lowest`, a group above it. MLPO leaves out 0.75 and more"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Difficulty:
        if self.lowest > self.highest:
            raise ValueError(
                f"schedules, difficulty: lowest={self.lowest}, highest={self.highest}: expected "
                "0 <= lowest <= highest <= 1"
            )
        return self

    def keeps(self, group: EpisodeGroup) -> bool:
        """Whether a group is trained on.

        Raises:
            ValueError: its environment does not say what succeeds.
        """
        played = group.roots.living  # what branches come to was not asked for by the task
        solved = [episode.success for _, episode in played if episode.success is not None]
        if played and not solved:
            raise ValueError(
                f"schedules, difficulty: {group.episodes[0].env_id} does not say whether an "
                "episode succeeded (info['success']); leave difficulty out"
            )
        return bool(solved) and self.lowest <= sum(solved) / len(solved) <= self.highest


class Sequential(Options):
    """Policies learn one after the other from one rollout (HAPPO, `experience/sequential.py`)."""

    within = "schedules, sequential"
    clip: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="the ratio of what earlier policies said is held in [1 - clip, 1 + clip] "
        "(A2PO); None, as in the paper: it is not",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """The schedules of a run; None for each that it does without."""

    exchange: Exchange | None = None
    population: Population | None = None
    in_turn: InTurn | None = None
    horizon: Horizon | None = None
    difficulty: Difficulty | None = None
    pool: Pool | None = None
    sequential: Sequential | None = None

    def check(self, env: Any, trained: Sequence[str], policy_of: Mapping[str, str]) -> None:
        """Refuse a run that cannot follow them.

        Raises:
            ValueError: what does not fit, and what to do.
        """
        if self.exchange is not None:
            self.exchange.check(trained, policy_of)
        if self.population is not None:
            self.population.check(trained, policy_of)
        moving = [name for name in ("exchange", "population") if getattr(self, name) is not None]
        if len(moving) > 1:
            raise ValueError(
                "schedules: exchange and population both say who sits where; expected one of them"
            )
        if self.in_turn is not None:
            self.in_turn.check(trained)
        if self.horizon is not None:
            self.horizon.check(env)
        if self.pool is not None and moving:
            raise ValueError(
                f"schedules: with {moving[0]} a seat's past selves would be another policy's; "
                f"expected pool or {moving[0]}, not both"
            )
        if self.pool is not None:
            self.pool.check(trained, policy_of)
        larger = self.population is not None and self.population.size is not None
        if larger and self.sequential is not None:
            raise ValueError(
                "schedules: with a size of the population other policies play in each group, so "
                "there is no one order of them for sequential; expected one of the two"
            )

    def seats(
        self, update: int, trained: Sequence[str], policy_of: Mapping[str, str], seed: int
    ) -> dict[str, str]:
        """The policy of each agent in an update of the run with this seed."""
        if self.exchange is not None:
            return self.exchange.seats(update, trained, policy_of)
        if self.population is not None:
            return self.population.seats(update, trained, policy_of, seed)
        return dict(policy_of)

    def learners(self, update: int, trained: Sequence[str]) -> tuple[str, ...]:
        """The trained agents that may learn in an update."""
        return tuple(trained) if self.in_turn is None else self.in_turn.learners(update, trained)

    def trained_on(
        self, update: int, groups: Sequence[EpisodeGroup], trained: Sequence[str]
    ) -> np.ndarray:
        """bool, (P, 1, A, 1): which agents learn from which groups."""
        learners = self.learners(update, trained)
        agents = np.array([agent in learners for agent in trained])
        kept = [self.difficulty is None or self.difficulty.keeps(group) for group in groups]
        return np.array(kept, dtype=bool)[:, None, None, None] & agents[:, None]

    def logged(self, update: int, groups: Sequence[EpisodeGroup]) -> dict[str, float]:
        """What an update's log says of them."""
        log = {}
        if self.horizon is not None:
            log["schedule/turns"] = float(self.horizon.at(update))
        if self.difficulty is not None:
            kept = [self.difficulty.keeps(group) for group in groups]
            log["schedule/kept"] = sum(kept) / len(kept)
        return log


KINDS = {
    "exchange": Exchange,
    "population": Population,
    "in_turn": InTurn,
    "horizon": Horizon,
    "difficulty": Difficulty,
    "pool": Pool,
    "sequential": Sequential,
}


def make_schedules(chosen: Mapping[str, Any] | None) -> Schedules:
    """The schedules that a run asks for: name -> settings.

    Raises:
        ValueError: an unknown schedule or setting, or one out of range.
        TypeError: a setting of the wrong type.
    """
    chosen = chosen or {}
    refuse_unknown("schedules", chosen, KINDS)
    check_types("schedules", chosen, dict.fromkeys(chosen, dict[str, Any]))
    return Schedules(**{name: KINDS[name](**settings) for name, settings in chosen.items()})


def settings_of(schedules: Schedules) -> dict[str, Any] | None:
    """What `make_schedules` makes these of, nothing left out."""
    made = ((name, getattr(schedules, name)) for name in KINDS)
    return {name: kind.model_dump() for name, kind in made if kind is not None} or None
