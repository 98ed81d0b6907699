"""Who plays whom: present weights, past selves and fixed opponents.

    schedules:
      pool: {every: 20, size: 5, past: 0.4, opponents: {expert: 0.1}}

In each group (task) of an update one trained seat learns, the learner; seats take turns at that.
Every other trained seat plays with its present weights and learns too, or is played by one of its
policy's past selves, or by an opponent. Who it is follows from (seed, update, place of the task).

Another way to choose is a strategy, see `Strategy`: `strategy: my_module:Mine`, or an entry point:

    [project.entry-points."trainers.strategies"]      # in this pyproject.toml or your package's
    mine = "my_package.mine:Mine"

Pure rules; weights and policies are `experience/players.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import Field, model_validator

from llm_marl_envs.core.checks import check_maker
from llm_marl_envs.core.options import Options, Share
from llm_marl_envs.core.plugins import Registry
from llm_marl_envs.core.seeds import derive_seed

STRATEGIES = Registry("trainers.strategies", "strategy")
SAMPLED = "sampled"
MARK = "@"
"""Between a policy and the update before which a past self of it was kept: `player_0@40`."""

LineUp = Mapping[str, str]
"""Seat -> past self or opponent; seats that it leaves out play with their present weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A group that is about to be played.

    Attributes:
        seed: of everything that is drawn; a function of the run's seed, update and task.
        update: number of the update.
        learner: the trained seat whose turn it is to learn.
        seats: all trained seats.
        past: seat -> its past selves, oldest first; of earlier updates only, so at first none.
        opponents: their names, as `pool` lists them.
    """

    seed: int
    update: int
    learner: str
    seats: tuple[str, ...]
    past: Mapping[str, tuple[str, ...]]
    opponents: tuple[str, ...]


class Strategy(Protocol):
    """Who plays whom. It is made once, by its class with the `Pool`, and keeps nothing."""

    def line_up(self, match: Match) -> LineUp:
        """Who plays instead of present weights; a function of `match` alone."""
        ...


class Pool(Options):
    """Past selves and opponents, and how often they play."""

    within = "schedules, pool"
    every: int = Field(
        default=20,
        ge=1,
        description="updates between two past selves that are kept; the first is that of the "
        "beginning",
    )
    size: int = Field(
        default=5,
        ge=1,
        description="most past selves of a policy. Adapters take their own size each, `shared` and "
        "`separate` weights that of the model",
    )
    full: Literal["oldest", "random"] = Field(
        default="oldest", description="which one goes when there is a new one and no room"
    )
    past: Share = Field(
        default=0.5,
        description="the chance that a past self plays a seat beside the learner, each as likely; "
        "while there is none, present weights do. 0 keeps none",
    )
    opponents: dict[str, Share] | None = Field(
        default=None,
        description="name of a policy, as `partners:` takes it -> the chance that it plays there",
    )
    strategy: str = Field(
        default=SAMPLED,
        description="'sampled' (the above), or a name in `trainers.strategies` or 'module:Class'",
    )

    @model_validator(mode="after")
    def _chances(self) -> Pool:
        opponents = self.opponents or {}
        if self.past + sum(opponents.values()) > 1 + 1e-9:
            raise ValueError(
                f"schedules, pool: past={self.past}, opponents={opponents}: expected chances of "
                "0 to 1, together at most 1; what is left to 1 is that of present weights"
            )
        self.make_strategy()
        return self

    @property
    def keeps(self) -> bool:
        """Whether past selves are kept at all."""
        return self.past > 0 or self.strategy != SAMPLED

    def make_strategy(self) -> Strategy:
        """Who plays whom; errors as the class."""
        make = STRATEGIES.get(self.strategy)
        expected = "a class or function that takes the Pool and gives an object with line_up(match)"
        check_maker(f"strategy {self.strategy!r}", make, (self,), expected)
        made = make(self)
        if not callable(getattr(made, "line_up", None)):
            raise TypeError(f"strategy {self.strategy!r}: expected {expected}, got {made!r:.80}")
        return made

    def check(self, trained: Sequence[str], policy_of: Mapping[str, str]) -> None:
        """Refuse seats among which nobody can be replaced.

        Raises:
            ValueError: one trained seat, or a policy whose name looks like a past self's.
        """
        if len(trained) < 2:
            raise ValueError(
                f"schedules, pool: {[*trained]} is the only trained seat, and the pool plays the "
                "others; train two seats or more (without frozen= and partners= there), or leave "
                "the pool out"
            )
        marked = sorted({name for name in policy_of.values() if MARK in name})
        if marked:
            raise ValueError(
                f"schedules, pool: policies {marked}: {MARK!r} marks past selves; choose other "
                "names with policies="
            )

    def leaving(self, seed: int, policy: str, update: int, count: int) -> int:
        """Which of `count` past selves, oldest first, goes for the one of this update."""
        if self.full == "oldest":
            return 0
        return random.Random(derive_seed("pool full", seed, policy, update)).randrange(count)


class Sampled:
    """The strategy of `Pool`: every seat beside the learner draws for itself."""

    def __init__(self, pool: Pool) -> None:
        self.past = pool.past
        self.opponents = dict(pool.opponents or {})

    def line_up(self, match: Match) -> LineUp:
        """As `Strategy`."""
        rng = random.Random(match.seed)
        seated: dict[str, str] = {}
        for seat in match.seats:
            if seat == match.learner:
                continue
            chances = [self.past, *self.opponents.values()]
            left = max(0.0, 1 - math.fsum(chances))
            (drawn,) = rng.choices(["past", *self.opponents, ""], [*chances, left])
            name = drawn
            if drawn == "past":
                past = match.past.get(seat, ())
                name = rng.choice(past) if past else ""
            if name:
                seated[seat] = name
        return seated


def checked(line_up: LineUp, match: Match, strategy: str) -> dict[str, str]:
    """The line-up of a strategy.

    Raises:
        TypeError: it is no map.
        ValueError: it seats somebody who cannot play there, or leaves nobody to learn.
    """
    where = f"strategy {strategy!r}, update {match.update}"
    if not isinstance(line_up, Mapping):
        raise TypeError(f"{where}: expected a map of seats to names, got {line_up!r:.80}")
    for seat, name in line_up.items():
        possible = (*match.past.get(seat, ()), *match.opponents)
        if seat not in match.seats or name not in possible:
            raise ValueError(
                f"{where}: {name!r} cannot play {seat!r}; the seats are {[*match.seats]}, and "
                f"there it can be one of {[*possible]}"
            )
    if not set(match.seats) - set(line_up):
        raise ValueError(f"{where}: nobody is left to learn in {dict(line_up)}")
    return dict(line_up)
