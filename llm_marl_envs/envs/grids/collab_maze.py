"""# collab_maze-v0: each walker sees a part of a maze; a move is made where all name it.

## Description
Two walkers, or up to 16, stand on one place of one maze. Each sees a part of it. They talk, then
each names moves, and the moves that all name are walked. A wall ends the walk.
docs/environments/collab_maze.md has what one walker can reach, what attacks earn, and the paper's
form.

## An episode
Task `train/1`. Every cell is seen by one of the two; both see the start and the goal.

    walker_0 is told   # # . ? ? ?
                       ? . ? ? ? .
                       S . . # ? ?
                       ? ? . # ? .
                       ? . . ? . .
                       ? ? ? . G .
    walker_1 is told   ? ? ? . . .
                       # ? # . . ?
                       S ? ? ? # #
                       . # ? ? . ?
                       . ? ? . ? ?
                       . # # ? G ?

    walker_0 says      I name the way.
    walker_1 hears     walker_0 says:
                       > I name the way.
                       Speak.
    walker_1 says      Way: D D R R R D R
    walker_0 says      Answer: D D D R R R R
    walker_1 says      Answer: D D R R R D R
    both earn          0.2857

    walker_1 says      For walker_0: ???... ?#?..? S???## .#??.? .??.?? .##?G?
    walker_0 says      Answer: D D R R R D R
    walker_1 hears     walker_0 says:
                       > Answer: D D R R R D R
                       Name moves.
    walker_1 says      Answer: D D R R R D R
    both earn          1.0

First `walker_1` worked out the way, and `walker_0` named one of its own: they named the same two
moves alone. Then `walker_1` told its part, and one of them led.

## Agents
`walker_0` to `walker_<n-1>`, in this order (AEC). Who begins matters in the paper, too.

## Observations
Chat messages, append-only. First the maze as the walker sees it, with question marks for cells
that another walker sees. Then all texts of the others, quoted, and after each naming what all
named and where they stand. Each turn ends with what is to be done: "Speak." or "Name moves."

`state()` is the chats; together they hold the maze, and no way. `render_mode="html"` shows the maze
with the walk so far. A number in a cell says which walker sees it, `*` that all do.

## Actions
Texts of at most 8192 characters. In a turn of talk any text will do. To name moves takes exactly
one line `Answer: ...` with `U`, `D`, `L` and `R`, read as in `plan_path-v1`. No such line, or
several, names nothing.

The walk is the longest beginning that the moves of all walkers share: `R R D D` and `R R D R` give
`R R D`. With `moves` it is at most so long. It ends at the goal. A step into a wall or over the
edge is not made and ends the episode there.

## Rewards
All get the team's number. A naming is paid the *gain*: the score after it minus the score before.

| term | score |
|---|---|
| progress | 1 - moves left / moves from the start, 0 at least; both by shortest ways |

Shortest ways are found by search. The return is the score of the place where all stand at the end,
in [0, 1]: to go to and fro, to wait and to talk on earns nothing, and to arrive later never returns
more.

**Entries of `info`**: `success`, all are at the goal; `readable`, a text that was to name moves
did; `agreed`, how many moves all named last; `walked`, moves so far.

`bounds(task)` is exact for generated tasks. `random`: each walker names one move by lot in each
round. `team`: 1, or less where an episode has too few moves. `solo`: the best walker whom the
others follow. They say again what it tells them, so it may walk as it likes; it knows its part and
by heart all mazes of the split. A *board* is a start, a goal and who sees which cell; it has 32
mazes, put together from at most 8 parts of each walker. So a part leaves some mazes open, and the
best walk over them is found by search. The value is the mean over the mazes of a board, for the
walker that does best there. Refused are rows with `info="split"` (nobody knows which other mazes
look the same), episodes with fewer moves than that walk, and searches that are too long.

## Episode end
At the goal, at a wall or the edge, or after `rounds` rounds. Never truncated.

## Arguments
`llm-marl spec collab_maze` lists them.

The paper's form (The Collaboration Gap, arXiv 2511.02687) is `maze={"size": 6, "walls": 0.3,
"distance": 7}`, the defaults, with `rounds=15, moves=1`.

## Experts
One works out the way, by convention `first` `walker_0`, by `last` the last walker. All others tell
it their parts and name the way that it says. Where both wait, nobody walks; where both lead, they
seldom name the same.

## Tasks and licence
256 boards in `train`, 64 in `val` and `ood`, 128 in `test`, each with 32 mazes. No split has a
start and a goal with as many walls in the maze as another split, turned or mirrored, so it shares
no maze with it either. Prompts of one board are of no other in a test of four boards of each split:
each seat reads new ones in every split. `ood` has two rows and columns more and ways two moves
longer. Texts and tasks were made for this library and share its licence.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, TextAECEnv, described
from llm_marl_envs.core.options import EXPECTED, INFO, PARTS, Info, TaskOptions, tasks_field
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.envs.grids.experts import MazeExperts
from llm_marl_envs.envs.grids.map_tasks import lines_of_map, named
from llm_marl_envs.envs.grids.maps import (
    ASKED,
    FREE,
    UNREAD,
    WALL,
    distances,
    neighbour,
    read_moves,
    size_of,
)
from llm_marl_envs.envs.grids.maze_bounds import alone_on, expected_blind, score
from llm_marl_envs.envs.grids.maze_tasks import (
    MazeOptions,
    dealt_row,
    drawn,
    level_of_maze,
    procedural,
    view,
)
from llm_marl_envs.envs.grids.pictures import grid_svg

MAX_ACTION_CHARS = 8192
RULES = (
    "A maze of {size} rows and {size} columns. A dot is free, # is a wall, S is the start, G the "
    "goal.{hidden}\n{maze}"
)
HIDDEN = " A question mark is free or a wall; another walker sees which."
TOGETHER = (
    "You are {agent} of {names}. You walk together: a move is made where all of you name the same. "
    "A wall or the edge ends the walk for good."
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


class CollabMazeOptions(TaskOptions):
    """The arguments of collab_maze."""

    maze: Mapping[str, Any] | None = Field(
        default=None,
        description="the level: a map with any of these",
        json_schema_extra={EXPECTED: "a map", PARTS: MazeOptions.model_json_schema()["properties"]},
    )
    rounds: int = Field(default=1, ge=1, description="how often moves are named")
    talk: int = Field(default=1, ge=1, description="texts of each walker before that")
    moves: int | None = Field(
        default=None, ge=1, description="how many moves of a naming count; None: all"
    )
    info: Info = Field(default="split", description=INFO)
    tasks: Any = tasks_field(
        "Rows have a `map` as in `plan_path-v1`, whose cells are dealt by a hash of the row."
    )


class CollabMazeEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or too many walkers for the maze.
    """

    metadata: ClassVar[dict[str, Any]] = described("collab_maze-v0")
    Options = CollabMazeOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = CollabMazeOptions(**arguments)
        level = level_of_maze(options.maze or {})
        super().__init__(
            agents=[f"walker_{seat}" for seat in range(level.walkers)],
            source=options.opened(
                lambda split: procedural(level, split), lambda row: dealt_row(row, level)
            ),
            max_turns=options.rounds * (options.talk + 1),
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        self.level, self.info_mode = level, options.info
        self.rounds, self.talk, self.moves = options.rounds, options.talk, options.moves

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The maze as a walker sees it, and the order of turns; the first is told to speak."""
        seat = self.possible_agents.index(agent)
        maze = RULES.format(
            size=size_of(task.data["map"]),
            hidden=HIDDEN if self.divided else "",
            maze="\n".join(lines_of_map(view(task.data, seat if self.divided else None))),
        )
        together = TOGETHER.format(agent=agent, names=", ".join(self.possible_agents))
        order = ORDER.format(
            rounds=ROUNDS.format(rounds=self.rounds) if self.rounds > 1 else FIRST,
            talk=TIMES.format(talk=self.talk) if self.talk > 1 else ONCE,
        )
        most = "" if self.moves is None else MOST.format(moves=self.moves)
        lines = [maze, together, order, f"To name moves: {ASKED}{most}"]
        return "\n".join([*lines, SPEAK] if seat == 0 else lines)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """All stand at the start, and nobody has spoken."""
        self._trail: list[int] = []  # after the start
        self._scores: list[float] = []  # after each naming
        self._named: dict[str, str | None] = {}  # in this round
        self._facts: dict[str, dict[str, Any]] = {}

    def play_one(self, agent: str, action: str) -> Outcome:
        """The others hear it; when all have named moves, those that all name are walked."""
        news: dict[str, list[str]] = {seat: [] for seat in self.possible_agents}
        ended, paid = False, 0.0
        if not self._names(self._taken[agent] - 1):
            self._facts.pop(agent, None)
        else:
            self._named[agent] = read_moves(action)
            self._facts[agent] = {"readable": self._named[agent] is not None}
            if agent == self.possible_agents[-1]:
                report, ended = self._walk()
                paid = gains(self._scores)[-1]
                for seat, lines in news.items():
                    lines += [UNREAD] if self._named[seat] is None else []
                    lines += report
                self._named = {}
        following = self.next_agent(agent)
        last = ended or self._taken[following] >= self.max_turns
        news[following].append(NAME if self._names(self._taken[following]) else SPEAK)
        return Outcome(
            reward_terms={seat: {"progress": paid} for seat in self.possible_agents},
            feedback={} if last else self._texts(agent, action, news),
            ended=last,
            success=self._place() == self.task.data["goal"],
            facts=self._facts,
        )

    def _texts(self, agent: str, action: str, news: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """What each walker is told: the text that the others hear, and then the news."""
        heard = self.pass_on(agent, action, self.others(agent))
        quotations = {other: [quoted(agent, text)] for other, text in heard.items()}
        lines = {seat: [*quotations.get(seat, ()), *own] for seat, own in news.items()}
        return {seat: "\n".join(own) for seat, own in lines.items() if own}

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """All hear all; of those who act later the last text comes too late."""
        seats = self.possible_agents
        return {
            seat: {by: self.max_turns - (seats.index(by) > at) for by in self.others(seat)}
            for at, seat in enumerate(seats)
        }

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
        agreed = AGREED.format(moves=" ".join(common)) if common else APART
        return [agreed, STANDS.format(place=named(place, size_of(cells)))], stopped or place == goal

    def picture(self) -> str:
        """The maze with the walk so far; in each cell who sees it."""
        data = self.task.data
        trail = dict.fromkeys(self._trail, TRAIL)
        colours = {**trail, data["start"]: ENDS, data["goal"]: ENDS, self._place(): HERE}
        shown = [colours.get(at, COLOURS[cell]) for at, cell in enumerate(data["map"])]
        return grid_svg(list(data["seen"]), shown, size_of(data["map"]))

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
