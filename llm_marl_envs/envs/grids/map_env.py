"""The environment that maps are in: a planner moves on a map, and goes on from where it stands.

Owns what seats are shown of a map, and the way so far. What moves do, and what they are worth, are
those of the environments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic

from llm_marl_envs.core.environment import Bounds
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.base import PLANNER, TOOL, GridEnv
from llm_marl_envs.envs.grids.map_tasks import lines_of_map
from llm_marl_envs.envs.grids.maps import State, size_of

READS = "Your next program reads the map as it is now."


class MapEnv(GridEnv, Generic[State]):
    """A map; where what moves stands is a `State`. Arguments as in `GridEnv`.

    Attributes:
        asks: what is to be done, with places for `size`, `hidden` and `map`.
        hidden: what each seat of a divided task is told that it does not see.
        answers: what the planner's answer looks like.
    """

    asks: ClassVar[str]
    hidden: ClassVar[Mapping[str, str]]
    answers: ClassVar[str]

    # -- what an environment provides -------------------------------------------------------------
    @abstractmethod
    def begins(self, task: Task) -> State:
        """Where everything stands at first."""

    @abstractmethod
    def whole(self, task: Task, state: State) -> str:
        """The map with everything on it."""

    @abstractmethod
    def part(self, task: Task, agent: str) -> str:
        """The map as a seat of a divided task sees it."""

    @abstractmethod
    def blind(self, task: Task) -> float:
        """The expected return of one random move in each turn."""

    # -- texts ------------------------------------------------------------------------------------
    def rules(self, task: Task, agent: str) -> str:
        """As `GridEnv.rules`."""
        cells = self.part(task, agent) if self.divided else self.whole(task, self.begins(task))
        return self.asks.format(
            size=size_of(cells),
            hidden=self.hidden[agent] if self.divided else "",
            map="\n".join(lines_of_map(cells)),
        )

    def given(self, task: Task) -> str:
        """As `GridEnv.given`; who sees everything sees it as it is now."""
        cells = self.part(task, TOOL) if self.divided else self.whole(task, self._trail[-1])
        return "\n".join(lines_of_map(cells)) + "\n"

    def form(self, task: Task) -> str:
        """As `GridEnv.form`."""
        return self.answers

    def news(self, text: str, missed: str) -> dict[str, str]:
        """What each seat is told where the episode goes on.

        Args:
            text: where everything stands. Of a divided task the planner alone is told: a tool that
                knew it could send the planner from place to place.
            missed: that it is not solved.
        """
        heard = {PLANNER: text, TOOL: missed if self.divided else text}
        if self.tool == "python" and not self.divided:
            heard[TOOL] += f"\n{READS}"
        return heard

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Everything stands where the task says."""
        super().begin_episode()
        self._trail: list[State] = [self.begins(self.task)]

    def bounds(self, task: Task) -> Bounds:
        """With `info="full"`: one random move in each turn; one seat may do everything; 1.

        Raises:
            ValueError: with `info="split"`. The best play of a seat alone is a search over moves
                and all maps that agree with what it saw, for which there is no exact way here.
        """
        if self.divided:
            raise ValueError(
                f"task {task.id!r}: no exact bound is known for a seat that sees a part of a map; "
                "info='full' has bounds"
            )
        return Bounds(random=self.blind(task), solo=1.0, team=1.0)
