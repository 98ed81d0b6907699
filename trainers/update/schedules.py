"""What is trained on when: the tasks and reset seeds of every update.

Everything here is a function of (seed, update), so a resumed run needs no state of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_marl_envs.seeds import epoch_order, update_seed


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
        """The reset seed of one group: the same for its G episodes; fits 32 bits (PettingZoo)."""
        return update_seed(self.seed, update, position)
