"""# collab_maze-v0: each walker sees a part of a maze; a move is made where all name it.

Its page follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from llm_marl_envs.checks import refuse_other
from llm_marl_envs.core import INFOS, Bounds, Outcome, TextAECEnv, described, gains
from llm_marl_envs.deliberation.briefs import check_whole
from llm_marl_envs.deliberation.statements import quoted
from llm_marl_envs.grids.map_tasks import lines_of_map, named
from llm_marl_envs.grids.maps import FREE, WALL, distances, neighbour, size_of
from llm_marl_envs.grids.maze_bounds import alone_on, expected_blind, score
from llm_marl_envs.grids.maze_experts import MazeExperts
from llm_marl_envs.grids.maze_tasks import (
    SEATS,
    SIZES,
    Level,
    check_cells,
    dealt_row,
    drawn,
    procedural,
    view,
)
from llm_marl_envs.grids.moves import ASKED, UNREAD, read_moves
from llm_marl_envs.grids.pictures import grid_html
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import Row, Task, TaskSource, open_tasks

MAX_ACTION_CHARS = 8192
RULES = (
    "A maze of {size} rows and {size} columns. A dot is free, # is a wall, S is the start, G the "
    "goal.{hidden}\n{maze}"
)
HIDDEN = " A question mark is free or a wall; another walker sees which."
TOGETHER = (
    "You are {agent} of {names}. You walk together: a move is made where all of you name the same. "
    "A wall or the edge ends the walk."
)
ORDER = "{rounds}each speaks {talk}, then each names moves. All hear each text."
ONCE, TIMES = "once", "{talk} times"
FIRST, ROUNDS = "First ", "There are {rounds} rounds: first "
MOST = " At most {moves} at once."
SPEAK, NAME = "Speak.", "Name moves."
AGREED, APART = "All of you name {moves}.", "You do not name the same move."
STANDS = "You are at {place}."
COLOURS = {FREE: "#ffffff", WALL: "#777777"}
TRAIL, ENDS, HERE = "#c9efc9", "#ffe9c7", "#7fc97f"


class CollabMazeEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or too many walkers for the maze.
    """

    metadata: ClassVar[dict[str, Any]] = described("collab_maze-v0")
    reward_range = (0.0, 1.0)

    def __init__(
        self,
        *,
        walkers: int = 2,
        size: int = 6,
        walls: float = 0.3,
        distance: int | None = None,
        shared: float = 0.0,
        rounds: int = 1,
        talk: int = 1,
        moves: int | None = None,
        info: str = "split",
        tasks: str | Path | Sequence[Row] | TaskSource | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        level = _level(walkers, size, walls, distance, shared)
        check_whole("rounds", rounds, 1)
        check_whole("talk", talk, 1)
        if moves is not None:
            check_whole("moves", moves, 1)
        refuse_other("info", info, INFOS)
        super().__init__(
            agents=[f"walker_{seat}" for seat in range(walkers)],
            source=open_tasks(
                tasks,
                split=split,
                procedural=lambda one: procedural(level, one),
                from_row=lambda row: dealt_row(row, level),
            ),
            max_turns=rounds * (talk + 1),
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=render_mode,
        )
        self.level, self.rounds, self.talk, self.moves = level, rounds, talk, moves
        self.info_mode = info
        self._begin_walk()

    @property
    def divided(self) -> bool:
        """Whether each walker sees its own part alone; else all see everything."""
        return self.info_mode == "split"

    # -- texts ------------------------------------------------------------------------------------
    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """One user message per walker; the first is told to speak."""
        order = ORDER.format(
            rounds=ROUNDS.format(rounds=self.rounds) if self.rounds > 1 else FIRST,
            talk=TIMES.format(talk=self.talk) if self.talk > 1 else ONCE,
        )
        most = "" if self.moves is None else MOST.format(moves=self.moves)
        names = ", ".join(self.possible_agents)
        told = {}
        for seat, agent in enumerate(self.possible_agents):
            maze = RULES.format(
                size=size_of(task.data["map"]),
                hidden=HIDDEN if self.divided else "",
                maze="\n".join(lines_of_map(view(task.data, seat if self.divided else None))),
            )
            together = TOGETHER.format(agent=agent, names=names)
            lines = [maze, together, order, f"To name moves: {ASKED}{most}"]
            lines += [SPEAK] if seat == 0 else []
            told[agent] = (Message("user", "\n".join(lines)),)
        return told

    # -- the episode ------------------------------------------------------------------------------
    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """As `TextAECEnv.reset`."""
        super().reset(seed=seed, options=options)
        self._begin_walk()

    def _begin_walk(self) -> None:
        self._trail: list[int] = []  # after the start
        self._scores: list[float] = []  # after each naming
        self._named: dict[str, str | None] = {}  # in this round
        self._facts: dict[str, dict[str, Any]] = {}

    def play_one(self, agent: str, action: str) -> Outcome:
        """The others hear it; when all have named moves, those that all name are walked."""
        heard = {other: [quoted(agent, action)] for other in self.possible_agents if other != agent}
        news: dict[str, list[str]] = {agent: [], **heard}
        ended, paid = False, 0.0
        if self._names(self._taken[agent] - 1):
            self._named[agent] = read_moves(action)
            self._facts[agent] = {"readable": self._named[agent] is not None}
            if agent == self.possible_agents[-1]:
                said, ended = self._walk()
                paid = gains(self._scores)[-1]
                for seat, lines in news.items():
                    lines += [UNREAD] if self._named[seat] is None else []
                    lines += said
                self._named = {}
        following = self.next_agent(agent)
        last = ended or self._taken[following] >= self.max_turns
        news[following].append(NAME if self._names(self._taken[following]) else SPEAK)
        return Outcome(
            reward_terms={seat: {"progress": paid} for seat in self.possible_agents},
            feedback={}
            if last
            else {seat: "\n".join(lines) for seat, lines in news.items() if lines},
            ended=last,
            success=self._place() == self.task.data["goal"],
            facts=self._facts,
        )

    def _names(self, turn: int) -> bool:
        """Whether moves are named in this turn; else a walker speaks."""
        return turn % (self.talk + 1) == self.talk

    def _place(self) -> int:
        return self._trail[-1] if self._trail else self.task.data["start"]

    def _walk(self) -> tuple[list[str], bool]:
        """Walk what all have named: what they are told, and whether the episode ends."""
        cells, start, goal = (self.task.data[key] for key in ("map", "start", "goal"))
        same = takewhile(
            lambda several: len(set(several)) == 1,
            zip(*(moves or "" for moves in self._named.values()), strict=False),
        )
        common = [several[0] for several in same][: self.moves]
        stopped = False
        for move in common:
            following = neighbour(cells, self._place(), move)
            if following is None:
                stopped = True
                break
            self._trail.append(following)
            if following == goal:
                break
        place = self._place()
        self._scores.append(score(distances(cells, goal), start, place))
        for facts in self._facts.values():
            facts.update(agreed=len(common), walked=len(self._trail))
        told = AGREED.format(moves=" ".join(common)) if common else APART
        return [told, STANDS.format(place=named(place, size_of(cells)))], stopped or place == goal

    def picture(self) -> str:
        """The maze with the walk so far; in each cell who sees it."""
        data = self.task.data
        trail = dict.fromkeys(self._trail, TRAIL)
        colours = {**trail, data["start"]: ENDS, data["goal"]: ENDS, self._place(): HERE}
        shown = [colours.get(at, COLOURS[cell]) for at, cell in enumerate(data["map"])]
        return grid_html(list(data["seen"]), shown, size_of(data["map"]))

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> MazeExperts:
        """Walkers who tell their parts, and one who works out the way."""
        return MazeExperts(self.possible_agents, self.divided, self.talk)

    def clusters(self, task: Task) -> tuple[str, ...]:
        """Its board: the tasks of a board share the parts that walkers see."""
        return (f"board {task.data['board']}",) if "board" in task.data else ()

    def bounds(self, task: Task) -> Bounds:
        """Exact: random moves; the best walker whom the others follow, on this board; a team.

        Raises:
            ValueError: with `info="split"` for rows, where the search for the best lone walk is too
                long, and where that walk has more moves than an episode.
        """
        data = task.data
        most = self.rounds * (len(data["map"]) if self.moves is None else self.moves)
        left = distances(data["map"], data["goal"])[data["start"]]
        team = min(1.0, most / left)
        random = expected_blind(data, len(self.possible_agents), self.rounds)
        if not self.divided:
            return Bounds(random=random, solo=team, team=team)
        if "board" not in data or data not in drawn(self.level, task.split, data["board"]):
            raise ValueError(
                f"task {task.id!r}: bounds with info='split' are known for generated tasks, whose "
                "boards say which other mazes look the same; rows have none"
            )
        solo, longest = alone_on(self.level, task.split, data["board"])
        if longest > most:
            raise ValueError(
                f"task {task.id!r}: the best walk alone has {longest} moves and an episode has "
                f"{most}; use more rounds or moves"
            )
        return Bounds(random=random, solo=solo, team=team)


def _level(walkers: int, size: int, walls: float, distance: int | None, shared: float) -> Level:
    """The level of the arguments; raises `ValueError` where one is out of range."""
    check_whole("walkers", walkers, 2, len(SEATS))
    check_whole("size", size, SIZES[0], SIZES[-1])
    least = size + 1 if distance is None else distance
    check_whole("distance", least, 1, 2 * size - 2)
    for name, value, low, high in (("walls", walls, 0.1, 0.4), ("shared", shared, 0.0, 0.9)):
        if not low <= value <= high:
            raise ValueError(f"{name}={value!r}: expected a number from {low:g} to {high:g}")
    level = Level(size, float(walls), least, walkers, float(shared))
    check_cells(level)
    return level
