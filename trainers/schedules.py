"""What is trained on when: the tasks and reset seeds of every update.

Everything here is a function of (seed, update), so a resumed run needs no state of it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from llm_marl_envs.policies import derive_seed


@dataclass(frozen=True, slots=True)
class TaskSchedule:
    """Visits all tasks once per epoch, in an order drawn anew for each epoch.

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
        """Updates that visit all tasks, rounded down, at least 1."""
        return max(1, (self.n_tasks or self.per_update) // self.per_update)

    def tasks(self, update: int) -> list[int | None]:
        """Task indices of an update; None where the environment has no task source."""
        if self.n_tasks is None:
            return [None] * self.per_update
        epoch, position = divmod(update, self.updates_per_epoch)
        order = list(range(self.n_tasks))
        random.Random(derive_seed("epoch", self.seed, epoch)).shuffle(order)
        first = position * self.per_update
        # A source smaller than one update is gone through again.
        return [order[(first + i) % self.n_tasks] for i in range(self.per_update)]

    def reset_seed(self, update: int, position: int) -> int:
        """The reset seed of one group: the same for its G episodes; fits 32 bits (PettingZoo)."""
        return derive_seed("reset", self.seed, update, position) % 2**32
