"""What several runs may cost together.

Owns the sums and the comparison with limits. Does not own the measuring (`worker`) nor what becomes
of a run for which nothing is left (`pool`).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from .jail.ledger import JUDGE
from .records import Cost, Limits


@dataclass(frozen=True)
class Over:
    """Which limit was exceeded."""

    status: Literal["cpu_limit", "wall_limit"]
    side: str
    """The program, or "" for the tests; "" for the wall limit."""
    detail: str


class Budget:
    """One `Limits` for many runs: their costs are added up, each side's processor time by itself.

    Sums do not depend on the order of the runs nor on how many run at once. Safe to use from many
    threads.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._costs: dict[Hashable, Cost] = {}

    def spend(self, run: Hashable, cost: Cost) -> None:
        """Note what a run has cost so far, in place of what was noted of it before."""
        with self._lock:
            self._costs[run] = cost

    def forget(self, run: Hashable) -> None:
        """Take back what was noted of a run that the machine, not its programs, has spoilt."""
        with self._lock:
            self._costs.pop(run, None)

    def over(self) -> Over | None:
        """A limit that was exceeded, None while there is something left."""
        with self._lock:
            costs = list(self._costs.values())
        most = self.limits
        for side in {side: None for cost in costs for side in cost.cpu}:
            if sum(cost.cpu.get(side, 0.0) for cost in costs) > most.cpu_seconds:
                who = "the tests" if side == JUDGE else side
                text = f"{who} used more than {most.cpu_seconds} s of processor time"
                return Over("cpu_limit", side, text)
        if sum(cost.wall for cost in costs) > most.wall_seconds:
            return Over("wall_limit", "", f"no verdict within {most.wall_seconds:g} s")
        return None

    @property
    def untouched(self) -> bool:
        """Whether nothing was spent yet."""
        return not self._costs
