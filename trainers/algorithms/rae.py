r"""RAE: a running baseline for each role, from self-play (SPIRAL, arXiv 2506.24119).

Formula: A_i,k^g = R_i,k^g - b[environment, role of i]. After every episode

    b <- (1 - rate) * b + rate * R_i^g,

with R_i^g the return of the whole episode, from the agent's first turn on. b starts at 0 and is
read *before* the episode moves it. Episodes follow each other task by task, in the order in which
they were planned; failed ones are left out.

Comparison group: none. The G episodes of a task share a reset seed, and b is made of all earlier
episodes of that role, of other tasks and updates too.

Degenerate case: `roles: seat` keeps one baseline for each agent. A return that never changes gives
advantages that go to 0 by (1 - rate) an episode, not 0 at once.

The baseline does not depend on the episode that it judges, so the expected gradient is exact with
any rate and any start; what a wrong baseline costs is variance. In a zero-sum game the seats' means
differ (who begins wins more often), so one baseline for both would cost more.

Deviations from the paper:

1. Turn k is credited with the return from turn k on, where the paper gives all turns the outcome of
   the game. It is the same where only the end pays and discount=1. With a discount the paper weighs
   the whole difference by gamma^(turns to the end), here b is not weighed.
2. Where several seats of one role play in one episode, all read b before any of them moves it: in a
   zero-sum game the return of one is minus that of the other, so the gradient would be biased.
3. A checkpoint keeps the baselines, so that a resumed run does not warm up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from trainers.algorithms.base import AdvantageInputs, Algorithm
from trainers.algorithms.relations import Kind, Relation
from trainers.algorithms.roles import RoleSettings


class RAESettings(RoleSettings):
    """Settings of `rae`."""

    within = "rae"
    rate: float = Field(
        default=0.05, gt=0, le=1, description="weight of the newest episode in a baseline"
    )


class RAE(Algorithm):
    """Return minus a running mean of its role; see the module's docstring."""

    name = "rae"
    Settings = RAESettings
    settings: RAESettings
    declares = (
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="always: any rate, any start, seats that share a role",
        ),
    )

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        self.baselines: dict[str, float] = {}

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse seats without roles, see `RoleSettings.check`."""
        self.settings.check(self.name, env, trained)

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        earned = inputs.episode_returns
        acted = np.asarray(inputs.alive.any(axis=-1))
        advantages = np.zeros_like(inputs.returns)
        for task, episode in np.ndindex(*acted.shape[:2]):
            seats = [seat for seat, did in enumerate(acted[task, episode].tolist()) if did]
            keys = {seat: self._key(inputs, task, seat) for seat in seats}
            for seat in seats:
                past = self.baselines.get(keys[seat], 0.0)
                advantages[task, episode, seat] = inputs.returns[task, episode, seat] - past
            for seat in seats:
                past = self.baselines.get(keys[seat], 0.0)
                new = float(earned[task, episode, seat])
                self.baselines[keys[seat]] = past + self.settings.rate * (new - past)
        return np.where(inputs.alive, advantages, 0.0)

    def _key(self, inputs: AdvantageInputs, task: int, seat: int) -> str:
        env_id = inputs.groups[task].episodes[0].env_id if inputs.groups else ""
        return f"{env_id}/{self.settings.role(inputs.agents[seat])}"

    def state_dict(self) -> dict[str, Any]:
        """The baselines."""
        return {"baselines": dict(self.baselines)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the baselines."""
        self.baselines = dict(state["baselines"])
