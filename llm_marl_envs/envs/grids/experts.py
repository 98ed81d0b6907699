"""Scripted experts of grids: who sees something tells it, who answers works it out.

A tool reads out what it sees and a planner answers. Where a grid is divided it can be read out by
rows or by columns. Nothing in the text says which, so a planner that reads it the other way walks
on a map that is transposed, pushes boxes to places where no target is, and puts digits where they
do not belong.

Walkers of a maze tell their parts, one works out the way, all name it. There are two conventions,
which say who works it out. `first`: `walker_0`, which hears the others' parts and names the way;
the others repeat it. `last`: the last walker, which tells the way while all still talk. Where
walkers follow different ones, both tell or both wait.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in
from llm_marl_envs.envs.grids.base import TOOL
from llm_marl_envs.envs.grids.box_tasks import TARGET, start_of, with_targets
from llm_marl_envs.envs.grids.boxes import MOST_POSITIONS, Position, positions_of, shortest_solution
from llm_marl_envs.envs.grids.map_tasks import marked, places_in
from llm_marl_envs.envs.grids.maps import FREE, WALL, read_moves, shortest_way, size_of
from llm_marl_envs.envs.grids.maze_tasks import HIDDEN, view
from llm_marl_envs.envs.grids.sudoku_rules import solve
from llm_marl_envs.envs.grids.sudoku_tasks import BOTH, blank_cells, puzzle_of, seen_by, shape_of

ORDERS = ("rows", "columns")
PRINT = "```python\nprint({text!r})\n```"
MAP, DIGITS = "The map: ", "My digits: "
STANDING = "You are at "
LOST = "U"
"""What a planner answers that sees no solution on the map that it understood."""
LEADERS = ("first", "last")
LEAD = "I name the way."
PART = "For {leader}: {lines}"
TOLD = re.compile(r"For walker_[0-9]+: ([.#?SG ]+)")
WAY = "Way: {moves}"
WAIT = "I wait for the way."
SAID = re.compile(r"Way: ([UDLR ]+)")


class GridExperts(ListeningExperts):
    """A tool that reads out its part and a planner that understands it as its convention says.

    Args:
        divided: whether each sees its own part alone.
        program: whether the tool writes a program.
    """

    def __init__(self, divided: bool, program: bool) -> None:
        self.divided, self.program = divided, program
        self.fixed = ORDERS if divided else ORDERS[:1]

    @abstractmethod
    def told(self, task: Task, convention: str) -> str:
        """What the tool reads out, one line."""

    @abstractmethod
    def found(self, task: Task, convention: str, messages: Sequence[Message]) -> Sequence[object]:
        """The words of the planner's answer, by what it sees and what it was told last."""

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """What the tool reads out, or prints; the planner's answer."""
        if convention not in self.fixed:
            raise ValueError(f"convention {convention!r:.200}: expected one of {self.fixed}")
        if agent == TOOL:
            return self._reading(task, convention)
        return answer(self.found(task, convention, messages))

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order in which the tool read out its part; of the planner nothing is known."""
        orders = self.fixed if agent == TOOL else ()
        matches = [order for order in orders if self._reading(task, order) == action]
        return matches[0] if len(matches) == 1 else None

    def _reading(self, task: Task, convention: str) -> str:
        text = self.told(task, convention)
        return PRINT.format(text=text) if self.program else text


class MapExperts(GridExperts):
    """A tool that reads out the map and a planner that puts it together."""

    def shown(self, task: Task) -> str:
        """The map as the tool of a divided task sees it."""
        return task.data["map"]

    def way(self, task: Task, cells: str, messages: Sequence[Message]) -> str:
        """The moves from where the planner stands, on the map as it understood it."""
        place, goal = standing(task, messages), task.data["goal"]
        free = FREE * len(cells)
        return shortest_way(cells, place, goal) or shortest_way(free, place, goal) or ""

    def told(self, task: Task, convention: str) -> str:
        """As `GridExperts.told`: the map, a word for each line."""
        cells = self.shown(task)
        cells = cells if convention == "rows" else transposed(cells)
        size = size_of(cells)
        return MAP + " ".join(cells[at : at + size] for at in range(0, len(cells), size))

    def found(self, task: Task, convention: str, messages: Sequence[Message]) -> str:
        """As `GridExperts.found`: a shortest way."""
        cells = self.shown(task)
        if self.divided:
            heard = last_told(messages, QUOTE + MAP).replace(" ", "")
            cells = heard if len(heard) == len(cells) else FREE * len(cells)
        if convention == "columns":
            cells = transposed(cells)
        return self.way(task, cells, messages)


class BoxExperts(MapExperts):
    """A tool that reads out walls and targets, and a planner that searches for a solution."""

    def shown(self, task: Task) -> str:
        """As `MapExperts.shown`."""
        return with_targets(task.data["map"], task.data["targets"])

    def way(self, task: Task, cells: str, messages: Sequence[Message]) -> str:
        """As `MapExperts.way`; where the player and the boxes are is taken for free."""
        targets = tuple(place for place, cell in enumerate(cells) if cell == TARGET)
        places = places_told(task, messages)
        position = Position(places[0], tuple(places[1:])) if places else start_of(task)
        board = "".join(FREE if cell in FREE + TARGET else WALL for cell in cells)
        board = marked(board, dict.fromkeys((position.player, *position.boxes), FREE))
        if len(targets) != len(position.boxes):
            return LOST
        if positions_of(board, len(targets)) > MOST_POSITIONS:  # the tool told of few walls
            return LOST
        return shortest_solution(board, targets, position) or LOST


class SudokuExperts(GridExperts):
    """A tool that reads out its digits and a planner that puts them where its convention says."""

    def told(self, task: Task, convention: str) -> str:
        """As `GridExperts.told`: the tool's digits, in order."""
        own = seen_by(task, 0)
        return DIGITS + " ".join(str(own[at]) for at in ordered(task, convention))

    def found(self, task: Task, convention: str, messages: Sequence[Message]) -> list[int]:
        """As `GridExperts.found`: the digits of the empty cells."""
        shape, own = shape_of(task), seen_by(task, 1)
        digits = list(own) if self.divided else list(puzzle_of(task))
        for at, digit in zip(ordered(task, convention), heard(messages), strict=False):
            digits[at] = digit
        solution = solve(digits, shape) or solve(own, shape)
        return [solution[0][at] for at in blank_cells(task)]


def ordered(task: Task, convention: str) -> list[int]:
    """The cells of the tool's own givens, by rows or by columns."""
    size = task.data["size"]
    cells = [at for at, owner in enumerate(task.data["owners"]) if owner in (0, BOTH)]
    return cells if convention == "rows" else sorted(cells, key=lambda at: (at % size, at))


def heard(messages: Sequence[Message]) -> list[int]:
    """The digits in the last list that the planner was told of; none where it heard none."""
    words = last_told(messages, QUOTE + DIGITS).split()
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []


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
            raise ValueError(f"convention {convention!r:.200}: expected one of {LEADERS}")
        leader = self._leader(convention)
        spoken = sum(message.role == "assistant" for message in messages)
        if spoken % (self.talk + 1) < self.talk:
            if agent != leader:
                return self._part(task, agent, leader)
            return LEAD if convention == LEADERS[0] else self._way(task, agent, messages)
        if agent == leader:
            return answer(self._shortest(task, agent, messages))
        heard = statements_in(messages).get(leader, [""])[-1]
        match = SAID.search(heard)
        moves = match[1].replace(" ", "") if match else read_moves(heard)
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
        return WAY.format(moves=" ".join(self._shortest(task, agent, messages)))

    def _shortest(self, task: Task, agent: str, messages: Sequence[Message]) -> str:
        """A shortest way on all that was seen and heard; hidden cells pass for free."""
        cells = list(self._seen(task, agent))
        for texts in statements_in(messages).values():
            for text in texts:
                part = TOLD.search(text)
                letters = part[1].replace(" ", "") if part else ""
                if len(letters) == len(cells):
                    marks = {at: cell for at, cell in enumerate(letters) if cell != HIDDEN}
                    cells = [marks.get(at, cell) for at, cell in enumerate(cells)]
        walls = {at: WALL for at, cell in enumerate(cells) if cell == WALL}
        place, goal = standing(task, messages), task.data["goal"]
        for marks in (walls, {}):
            way = shortest_way(marked(FREE * len(cells), marks), place, goal)
            if way:
                return way
        return ""


def last_told(messages: Sequence[Message], beginning: str) -> str:
    """The rest of the last line that begins so, of what a seat was told; "" where none does.

    What the seat said itself does not count.
    """
    contents = [message.content for message in messages if message.role == "user"]
    lines = [line for content in contents for line in content.split("\n")]
    matches = [line for line in lines if line.startswith(beginning)]
    return matches[-1].removeprefix(beginning) if matches else ""


def transposed(cells: str) -> str:
    """A map with rows for columns."""
    size = size_of(cells)
    return "".join(cells[at % size * size + at // size] for at in range(len(cells)))


def answer(words: Sequence[object]) -> str:
    """The documented format."""
    return f"Answer: {' '.join(map(str, words))}"


def places_told(task: Task, messages: Sequence[Message]) -> list[int]:
    """Where all that moves stands on a map, as the planner was told last; [] where never."""
    return places_in(last_told(messages, STANDING), size_of(task.data["map"]))


def standing(task: Task, messages: Sequence[Message]) -> int:
    """Where all stand, as was told last; the start where nothing was told."""
    places = places_told(task, messages)
    return places[0] if places else task.data["start"]
