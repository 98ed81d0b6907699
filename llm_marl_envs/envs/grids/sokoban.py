"""# sokoban-v0: a tool and a planner push boxes.

## Description
`tool_0` speaks, `planner_0` pushes. The tool sees what stays: walls and targets. The planner sees
what moves: itself and the boxes (`info="split"`, the default). So neither can plan alone. What the
tool says is free text, or a Python program whose output the planner reads (`tool="python"`). A box
in a corner stays there, so a wrong push can lose the task. With several turns the planner goes on
from where everything stands.

## An episode
Task `train/18`. The planner sees question marks where the tool sees what is free (a dot), a wall or
the target.

    tool_0 is told     # # # # # #
                       # . . . # #
                       # . . . # #
                       # . # . . #
                       # . . . T #
                       # # # # # #
    planner_0 is told  # # # # # #
                       # ? ? ? ? #
                       # P ? B ? #
                       # ? ? ? ? #
                       # ? ? ? ? #
                       # # # # # #

    tool_0 says        The map: ###### #...## #...## #.#..# #...T# ######
    planner_0 hears    tool_0 says:
                       > The map: ###### #...## #...## #.#..# #...T# ######
    planner_0 says     Answer: R R U R D D
    both earn          0.0417

    planner_0 hears    Not solved.
                       You are at row 3, column 3, boxes at row 3, column 4. Move 2, R, was blocked.
    tool_0 says        I read the map out by rows. The target is at row 5, column 5.
    planner_0 says     Answer: U R D D U L L D D R R
    both earn          1.0

First the planner read the map column by column, and its second move pushed the box towards a wall.
One of twelve moves was right all the same. Then it goes on from where it stands.

With `info="full"` both see everything, as in the paper of AT-GRPO (arXiv 2510.11062). Then one seat
could do everything: measure one agent with the same tool, turns and tokens beside the team,
`make("sokoban-v0", single_seat=True, ...)`.

## Agents
`tool_0` acts first in each turn, `planner_0` second (AEC). Two seats, the paper's roles.

## Observations
Chat messages, append-only. First the map as the seat sees it. A wall surrounds every generated map,
and both see it. The planner is shown the tool's text and, with `tool="python"`, what its program
printed. After moves that do not solve the map the planner is told where it and the boxes are now,
and which move was blocked. With `info="full"` the tool is told so, too. Else it is told that the
map is not solved, and the answer.

`state()` is the two chats; together they hold the map, and no solution. `render_mode="html"` shows
the map as it is now, with the player's way.

## Actions
**The planner**: exactly one line `Answer: ...` with moves `U`, `D`, `L` and `R`, with or without
spaces, commas, quotation marks and brackets. No such line, several, or another letter is no answer,
and nothing moves. The moves end before the first that is blocked: by a wall, or by a box with a
wall or a box behind it. What follows is not played.

**The tool**: any text. With `tool="python"` the code in it, fenced or not, is a program. It runs in
the sandbox, without files and network, under the sandbox's limits (2 s of processor time). Its
standard input is the map as the tool sees it; with `info="full"` in later turns the map as it is
then. The planner reads the program, the first 2000 characters that it printed, and why it failed.
Texts are cut after 8192 characters.

## Rewards
Both agents get the team's number. A turn is paid the *gain*: the score after it minus the score
before. The score depends on where everything is, not on how it came there. So the return is the
score at the end: to push a box to and fro earns nothing, and to solve later never returns more.

| term | score |
|---|---|
| progress | 0.5 x (1 - moves left / moves from the start), 0 at least; 0 where no moves solve it |
| solved | 0.5 if every box is on a target |

Moves are those of shortest solutions, found by a search over player and boxes. So a push that locks
a box takes back all progress. The return is in [0, 1].

**Entries of `info`**: `success`, all boxes are on targets; `readable`, the planner's text has an
answer, or the tool's program printed something and did not fail; `walked`, moves so far; `placed`,
boxes that are on targets.

`bounds(task)` is exact with `info="full"`: one random move in each turn; 1, for one seat may do
everything; 1. With `info="split"` it raises `ValueError`: the best play of a seat alone is a search
over its moves and all maps that agree with what it saw, too many to count. So there is no
cooperation index. docs/environments/sokoban.md has what a seat alone was seen to reach.

## Episode end
When all boxes are on targets, or after `turns` turns. A position without a solution does not end
it. Never truncated.

## Arguments
`llm-marl spec sokoban` lists them.

The attribute `sandbox` says where programs run: the process-wide pool unless it is set. A run file
of the form of the paper's authors, for a GPU and not run yet: `benchmarks/gpu/sokoban.yaml`.

## Tasks and licence
A split has maps of its own, 256 in `train`, 64 in `val` and `ood`, 128 in `test`, each with one set
of targets and 32 starts, no box on a target. A search back from the solved positions verifies that
each start has a solution, and how long it is. No map with its targets of a split is a map of
another that was turned or mirrored. Small maps come more than once: 6x6 has 113 different ones in
`train`, 24 in `val`, 50 in `test`, if turned and mirrored ones count as one. `ood` has larger maps,
7x7 or 9x9, and longer solutions: prompts that neither seat has read. In the other splits the tool's
prompts are new; the planner's are not. Texts and tasks were made for this library and share its
licence.

**Not comparable with the paper's numbers.** Prompts, the format of answers, pay and maps are this
library's own. The code of the authors ignores moves that are blocked and plays on, ends where the
map is solved, pays an answer 1 for that and else 0, and draws rooms by a random walk.

A program that looks at a clock or is stopped by a limit of time may do something else when it is
run again; all else replays exactly.

## Version history
- v0: first version.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.checks import check_whole
from llm_marl_envs.core.environment import described
from llm_marl_envs.core.options import tasks_field
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.base import PLANNER, TOOL, Judged, ToolOptions
from llm_marl_envs.envs.grids.box_tasks import (
    LEVELS,
    marks_of,
    procedural,
    start_of,
    task_of_row,
    with_targets,
)
from llm_marl_envs.envs.grids.boxes import Position, expected_blind, played, score_terms
from llm_marl_envs.envs.grids.experts import BoxExperts
from llm_marl_envs.envs.grids.map_env import MapEnv
from llm_marl_envs.envs.grids.map_tasks import marked, named
from llm_marl_envs.envs.grids.maps import ASKED, FREE, UNREAD, WALL, read_moves, size_of
from llm_marl_envs.envs.grids.pictures import grid_svg

RULES = (
    "Sokoban on {size} rows and {size} columns. A dot is free, # is a wall, T a target, B a box, P "
    "the player; * is a box and + the player on a target. The player pushes a box by walking into "
    "it, one at a time, and cannot pull. All boxes must be on targets.{hidden}\n{map}"
)
HIDDEN = {
    TOOL: " planner_0 alone sees the player and the boxes.",
    PLANNER: " A question mark is free, a wall or a target, and the player and the boxes may be on "
    "targets; tool_0 alone sees which.",
}
FORM = f"{ASKED} They end before a move that is blocked."
UNSOLVED = "Not solved."
STANDS = "You are at {player}, boxes at {boxes}."
STOPPED = "Move {number}, {move}, was blocked."
COLOURS = {FREE: "#ffffff", WALL: "#444444"}
TRAIL, AIM, HERE = "#dbe9ff", "#ffe9c7", "#7fc97f"


class SokobanOptions(ToolOptions):
    """The arguments of sokoban."""

    level: Literal["6x6", "8x8"] = Field(
        default="6x6",
        description="'6x6' is the size that the code of the paper's authors names; the walls "
        "around are counted. Shortest solutions have at least 5 or 10 moves",
    )
    boxes: int | None = Field(
        default=None,
        ge=1,
        description="how many; None takes 1 or 2. At most 2 or 3; the paper's have 1",
    )
    tasks: Any = tasks_field(
        "Rows have a `map`, a list of lines or a text of lines with `.` (free), `#`, `T` (target), "
        "`B` (box), `P` (player), `*` (box on a target), `+` (player on a target). A row that has "
        "no solution, or more than 600 000 positions to search, is refused."
    )
    turns: int = Field(
        default=2,
        ge=1,
        description="K; the form of the paper's authors is info='full', tool='python', turns=5",
    )


class SokobanEnv(MapEnv[Position]):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("sokoban-v0")
    Options = SokobanOptions
    asks, hidden, answers = RULES, HIDDEN, FORM

    def __init__(self, **arguments: Any) -> None:
        options = SokobanOptions(**arguments)
        level = LEVELS[options.level]
        count = level.boxes if options.boxes is None else options.boxes
        check_whole("boxes", count, 1, level.most_boxes)
        source = options.opened(lambda split: procedural(options.level, split, count), task_of_row)
        super().__init__(
            options,
            source=source,
            generated="whole" not in source[0].data,
            turns=options.turns,
        )

    # -- the map ----------------------------------------------------------------------------------
    def begins(self, task: Task) -> Position:
        """As `MapEnv.begins`: the player and the boxes."""
        return start_of(task)

    def whole(self, task: Task, state: Position) -> str:
        """As `MapEnv.whole`."""
        return marked(task.data["map"], marks_of(task.data["targets"], state))

    def part(self, task: Task, agent: str) -> str:
        """As `MapEnv.part`: what stays, or what moves."""
        cells = task.data["map"]
        if agent == TOOL:
            return with_targets(cells, task.data["targets"])
        size = size_of(cells)
        edge = (0, size - 1)
        hidden = "".join(
            WALL if at // size in edge or at % size in edge else "?" for at in range(len(cells))
        )
        return marked(hidden, marks_of((), start_of(task)))

    def blind(self, task: Task) -> float:
        """As `MapEnv.blind`."""
        cells, targets = task.data["map"], task.data["targets"]
        return expected_blind(cells, targets, start_of(task), self.max_turns)

    # -- the episode ------------------------------------------------------------------------------
    def judge(self, action: str) -> Judged:
        """As `GridEnv.judge`; the moves go on from where the last ones ended."""
        cells, targets = self.task.data["map"], self.task.data["targets"]
        moves = read_moves(action)
        positions = played(cells, self._trail[-1], moves or "")
        self._trail += positions[1:]
        now, done = positions[-1], len(positions) - 1
        news = [self._standing(now)]
        if moves is None:
            news.append(UNREAD)
        elif done < len(moves):
            news.append(STOPPED.format(number=done + 1, move=moves[done]))
        facts = {
            "walked": len(self._trail) - 1,
            "placed": len(set(now.boxes) & set(targets)),
        }
        heard = self.news("\n".join([UNSOLVED, " ".join(news)]), UNSOLVED)
        terms = score_terms(cells, targets, start_of(self.task), now)
        return Judged(terms, now.boxes == targets, moves is not None, heard, facts)

    def _standing(self, position: Position) -> str:
        """A position in words."""
        size = size_of(self.task.data["map"])
        boxes = " and ".join(named(box, size) for box in position.boxes)
        return STANDS.format(player=named(position.player, size), boxes=boxes)

    def picture(self) -> str:
        """The map as it is now, with the targets and the player's way."""
        cells, targets = self.task.data["map"], self.task.data["targets"]
        marks = marks_of(targets, self._trail[-1])
        colours = [COLOURS[cell] for cell in cells]
        for position in self._trail:
            colours[position.player] = TRAIL
        for target in targets:
            colours[target] = AIM
        for box in set(self._trail[-1].boxes) & set(targets):
            colours[box] = HERE
        texts = [marks.get(at, "") for at in range(len(cells))]
        return grid_svg(texts, colours, size_of(cells))

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> BoxExperts:
        """A tool that reads out walls and targets, a planner that searches."""
        return BoxExperts(self.divided, self.tool == "python")
