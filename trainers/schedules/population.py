"""A population: policies that change seats by lot, as many as the seats of a role, or more.

    schedules:
      population: {every: 1}             # one policy for each seat; all of them play
      population: {size: 6}              # six for each role; a lot in each group, others rest
      population: {size: 6, grow: 20}    # every 20 updates the oldest stops, and one more learns

A role is what stands before a seat's number. Everything follows from (seed, update, place of the
task, role), so nothing of it is kept in a checkpoint. Pure rules by name; the weights behind the
names are made at the start (`weights/team_model.py`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from pydantic import Field, model_validator

from llm_marl_envs.core.options import Options
from llm_marl_envs.core.seeds import derive_seed


class Population(Options):
    """Policies change seats by lot, among the seats of one role.

    With speaker_0, speaker_1, listener_0 and listener_1, where each listener hears one speaker,
    every speaker comes to talk to every listener, and no two can agree on a language of their own.
    A saved team and an evaluation have the seats of the beginning.
    """

    within = "schedules, population"
    every: int = Field(default=1, ge=1, description="updates between two draws")
    size: int | None = Field(
        default=None,
        ge=2,
        description="policies of each role, more than its seats: who plays is drawn for each "
        "group, the others rest. None: one for each seat. Needs `weights: adapters`",
    )
    grow: int | None = Field(
        default=None,
        ge=1,
        description="updates after which in each role the oldest learner stops learning and plays "
        "on as it is, and a new one begins, until `size` have begun. None: all learn from the "
        "beginning",
    )

    @model_validator(mode="after")
    def _grows_to_a_size(self) -> Population:
        if self.grow is not None and self.size is None:
            raise ValueError(
                f"schedules, population: grow={self.grow} without size; expected the number of "
                "policies of each role at the end, as in {size: 6, grow: 20}"
            )
        return self

    def check(self, trained: Sequence[str], policy_of: Mapping[str, str]) -> None:
        """Refuse seats among which there is nothing to draw.

        Raises:
            ValueError: no two policies for one role, or several seats with one policy, or a size
                below the seats of a role.
        """
        policies = [policy_of[agent] for agent in trained]
        counts = [len(seats) for seats in roles_of(trained).values()]
        most = max(counts, default=0)
        if self.size is not None and (most > self.size or min(counts) == self.size):
            raise ValueError(
                f"schedules, population: size={self.size} for the trained seats {[*trained]}; "
                "expected more policies than a role has seats, or no size"
            )
        if (most < 2 and self.size is None) or len(set(policies)) < len(policies):
            raise ValueError(
                f"schedules, population: the trained seats {[*trained]} play with {policies}; "
                "expected two seats or more of one role, such as speaker_0 and speaker_1, or a "
                "size above their number, and for each a policy of its own (weights: adapters or "
                "separate)"
            )

    def seats(
        self, update: int, trained: Sequence[str], policy_of: Mapping[str, str], seed: int
    ) -> dict[str, str]:
        """The policy of each agent in an update, where there are as many as seats."""
        seated = dict(policy_of)
        for role, seats in roles_of(trained).items() if self.size is None else ():
            own = [policy_of[agent] for agent in seats]
            drawn = derive_seed("population", seed, update // self.every, role)
            random.Random(drawn).shuffle(own)
            seated |= zip(seats, own, strict=True)
        return seated


class Members:
    """The policies of a population that is larger than its seats, role by role.

    Args:
        population: its settings, with a size.
        trained: the seats that are drawn for.
        policy_of: agent -> policy, of all seats that these weights play; the first learners.
        taken: further names that no policy can have, those of other seats.

    Attributes:
        roles: role -> its seats.
        named: role -> its policies, those of the seats first.
    """

    def __init__(
        self,
        population: Population,
        trained: Sequence[str],
        policy_of: Mapping[str, str],
        taken: Sequence[str] = (),
    ) -> None:
        assert population.size is not None
        self.population = population
        self.roles = roles_of(trained)
        used = {*policy_of, *policy_of.values(), *taken}
        self.named: dict[str, list[str]] = {}
        for role, seats in self.roles.items():
            own, number = [policy_of[seat] for seat in seats], 0
            while len(own) < population.size:
                name = f"{role}_{number}"
                if name not in used:
                    own.append(name)
                number += 1
            self.named[role] = own

    @property
    def resting(self) -> list[str]:
        """The policies that have no seat in the beginning."""
        return [name for role, own in self.named.items() for name in own[len(self.roles[role]) :]]

    def stage(self, update: int, role: str) -> int:
        """How many learners of a role have stopped."""
        if self.population.grow is None:
            return 0
        more = len(self.named[role]) - len(self.roles[role])
        return min(update // self.population.grow, more)

    def learning(self, update: int, role: str) -> list[str]:
        """The policies of a role that learn in an update, oldest first."""
        first, own = self.stage(update, role), self.named[role]
        if self.population.grow is None:
            return own
        return own[first : first + len(self.roles[role])]

    def learners(self, update: int) -> set[str]:
        """All policies that learn in an update, where they play."""
        return {name for role in self.roles for name in self.learning(update, role)}

    def line_up(self, update: int, place: int, per_update: int, seed: int) -> dict[str, str]:
        """Seat -> policy, of every trained seat in one group.

        No policy has two seats. Where some have stopped learning, roles take turns: in each group
        one of them has a learner for sure, so no group is played for nothing.

        Args:
            update: number of the update.
            place: of the group in the update.
            per_update: groups of an update.
            seed: of the run.
        """
        draw = update // self.population.every
        turn = [*self.roles][(draw * per_update + place) % len(self.roles)]
        seated: dict[str, str] = {}
        for role, seats in self.roles.items():
            rng = random.Random(derive_seed("population", seed, draw, place, role))
            begun = self.named[role][: self.stage(update, role)] + self.learning(update, role)
            sure = [rng.choice(self.learning(update, role))] if role == turn else []
            others = [name for name in begun if name not in sure]
            drawn = sure + rng.sample(others, len(seats) - len(sure))
            rng.shuffle(drawn)
            seated |= zip(seats, drawn, strict=True)
        return seated


def roles_of(agents: Sequence[str]) -> dict[str, list[str]]:
    """Role -> its agents, in seat order; a name without `_` is a role of its own."""
    roles: dict[str, list[str]] = {}
    for agent in agents:
        roles.setdefault(agent.rpartition("_")[0] or agent, []).append(agent)
    return roles
