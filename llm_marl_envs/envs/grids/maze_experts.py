"""Scripted walkers: those who see a part of a maze tell it, one works out the way, all name it.

There are two conventions, which say who works it out. `first`: `walker_0`, which hears the others'
parts and names the way; the others repeat it. `last`: the last walker, which tells the way while
all still talk. Where walkers follow different ones, both tell or both wait.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in
from llm_marl_envs.envs.grids.map_tasks import marked
from llm_marl_envs.envs.grids.maps import FREE, WALL, shortest_way, size_of
from llm_marl_envs.envs.grids.maze_tasks import HIDDEN, view
from llm_marl_envs.envs.grids.moves import read_moves

LEADERS = ("first", "last")
LEAD = "I name the way."
PART = "For {leader}: {lines}"
TOLD = re.compile(r"For walker_[0-9]+: ([.#?SG ]+)")
WAY = "Way: {moves}"
WAIT = "I wait for the way."
SAID = re.compile(r"Way: ([UDLR ]+)")
STANDING = re.compile(r"^You are at row ([0-9]+), column ([0-9]+)", re.MULTILINE)


class MazeExperts(ListeningExperts):
    """The walkers of `collab_maze-v0`.

    Args:
        agents: in seat order.
        divided: whether each sees a part alone.
        talk: texts before each naming.
    """

    fixed = LEADERS

    def __init__(self, agents: Sequence[str], divided: bool, talk: int) -> None:
        self.agents, self.divided, self.talk = list(agents), divided, talk

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """A part, a way, or moves that are named."""
        if convention not in LEADERS:
            raise ValueError(f"convention {convention!r}: expected one of {LEADERS}")
        leader = self._leader(convention)
        spoken = sum(one.role == "assistant" for one in messages)
        if spoken % (self.talk + 1) < self.talk:
            if agent != leader:
                return self._part(task, agent, leader)
            return LEAD if convention == LEADERS[0] else self._way(task, agent, messages)
        if agent == leader:
            return answer(self._found(task, agent, messages))
        heard = statements_in(messages).get(leader, [""])[-1]
        found = SAID.search(heard)
        moves = found[1].replace(" ", "") if found else read_moves(heard)
        return WAIT if moves is None else answer(moves)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """Who is to work out the way, as a first text says it."""
        for convention in LEADERS:
            leader = self._leader(convention)
            if agent != leader and action == self._part(task, agent, leader):
                return convention
        if agent == self.agents[0] and action == LEAD:
            return LEADERS[0]
        return LEADERS[1] if agent == self.agents[-1] and SAID.fullmatch(action) else None

    def _leader(self, convention: str) -> str:
        return self.agents[0 if convention == LEADERS[0] else -1]

    def _seen(self, task: Task, agent: str) -> str:
        return view(task.data, self.agents.index(agent) if self.divided else None)

    def _part(self, task: Task, agent: str, leader: str) -> str:
        cells = self._seen(task, agent)
        size = size_of(cells)
        lines = [cells[at : at + size] for at in range(0, len(cells), size)]
        return PART.format(leader=leader, lines=" ".join(lines))

    def _way(self, task: Task, agent: str, messages: Sequence[Message]) -> str:
        return WAY.format(moves=" ".join(self._found(task, agent, messages)))

    def _found(self, task: Task, agent: str, messages: Sequence[Message]) -> str:
        """A shortest way on all that was seen and heard; hidden cells pass for free."""
        cells = list(self._seen(task, agent))
        for texts in statements_in(messages).values():
            for text in texts:
                part = TOLD.search(text)
                said = part[1].replace(" ", "") if part else ""
                if len(said) == len(cells):
                    known = {at: one for at, one in enumerate(said) if one != HIDDEN}
                    cells = [known.get(at, one) for at, one in enumerate(cells)]
        walls = {at: WALL for at, one in enumerate(cells) if one == WALL}
        place, goal = standing(task, messages), task.data["goal"]
        for known in (walls, {}):
            way = shortest_way(marked(FREE * len(cells), known), place, goal)
            if way:
                return way
        return ""


def answer(moves: str) -> str:
    """The documented format."""
    return f"Answer: {' '.join(moves)}"


def standing(task: Task, messages: Sequence[Message]) -> int:
    """Where all stand, as was told last; the start where nothing was told."""
    told = [found for one in messages for found in STANDING.findall(one.content)]
    if not told:
        return task.data["start"]
    row, column = map(int, told[-1])
    return (row - 1) * size_of(task.data["map"]) + column - 1
