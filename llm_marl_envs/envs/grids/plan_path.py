"""# plan_path-v1: a tool and a planner find the way on one map.

## Description
`tool_0` speaks, `planner_0` walks. The tool sees the walls, the planner sees the start and the goal
(`info="split"`, the default), so neither can plan alone. What the tool says is free text, or a
Python program whose output the planner reads (`tool="python"`). With several turns the planner goes
on from where it stands, unless it has walked into a wall: then it is out (`info="split"` alone).

## An episode
Task `train/3`. The planner sees question marks where the tool sees what is free (a dot) or a wall.

    tool_0 is told     . # . . .
                       . . . . .
                       . . # . #
                       # . # . #
                       . . . . .
    planner_0 is told  ? ? G ? ?
                       ? ? ? ? ?
                       ? ? ? ? ?
                       ? ? ? ? ?
                       ? S ? ? ?

    tool_0 says        The map: .#... ..... ..#.# #.#.# .....
    planner_0 hears    tool_0 says:
                       > The map: .#... ..... ..#.# #.#.# .....
    planner_0 says     Answer: U U U U R
    both earn          0.3

    planner_0 says     Answer: U U U R U
    both earn          1.0

First the planner read the map column by column: its fourth move led into a wall, and it came three
of five moves nearer. Row by row it arrives. With several turns the first walk would have been its
last: of a divided map, who walks into a wall is out.

With `info="full"` both see everything, as in the paper of AT-GRPO (arXiv 2510.11062). Then one seat
could do everything: measure one agent with the same tool, turns and tokens beside the team,
`make("plan_path-v1", single_seat=True, ...)`.

## Agents
`tool_0` acts first in each turn, `planner_0` second (AEC). Two seats, the paper's roles.

## Observations
Chat messages, append-only. First the map as the seat sees it. The planner is shown the tool's text
and, with `tool="python"`, what its program printed. After a walk that does not end at the goal the
planner is told where it ended. With `info="full"` it is also told which move led into a wall or
over the edge, and so is the tool. Else the tool is told the answer alone: if it knew where the
planner stands, it could send it from place to place.

`state()` is the two chats; together they hold the map, and no way. `render_mode="html"` shows the
map with the walk so far.

## Actions
**The planner**: exactly one line `Answer: ...` with moves `U`, `D`, `L` and `R`, with or without
spaces, commas, quotation marks and brackets. No such line, several, or another letter is no answer,
and nobody moves. The walk ends before the first wall or edge; what follows is not walked, and with
`info="split"` the episode is over. To pass the goal and walk on is not to arrive. So no long list
of moves finds the goal by luck, and no planner feels its way along the walls.

**The tool**: any text. With `tool="python"` the code in it, fenced or not, is a program. It runs in
the sandbox, without files and network, under the sandbox's limits (2 s of processor time). Its
standard input is the map as the tool sees it; with `info="full"` in later turns the map as it is
then, `S` where the planner stands. The planner reads the program and the first 2000 characters that
it printed, and why it failed. Texts are cut after 8192 characters.

## Rewards
Both agents get the team's number. A turn is paid the *gain*: the score after it minus the score
before. So the return is the score of the place where the planner ends: who walks away and comes
back earns nothing by it, and to arrive later never returns more.

| term | score |
|---|---|
| progress | 0.5 x (1 - moves left / moves from the start), 0 at least; both by shortest ways |
| arrived | 0.5 at the goal |

Shortest ways are found by search. The return is in [0, 1].

**Entries of `info`**: `success`, the planner is at the goal; `readable`, its text has an answer, or
the tool's program printed something and did not fail; `walked`, moves so far.

`bounds(task)` is exact with `info="full"`: one random move in each turn; 1, for one seat may do
everything; 1. With `info="split"` it raises `ValueError`: the best walk of a seat alone is a search
over walks and all maps that agree with what it saw, too many to count. So there is no cooperation
index. docs/environments/plan_path.md has what a seat alone was seen to reach.

## Episode end
At the goal, after `turns` turns, or, with `info="split"`, at the first wall. Never truncated.

## Arguments
`llm-marl spec plan_path` lists them.

The attribute `sandbox` says where programs run: the process-wide pool unless it is set. A run file
of the paper's form, for a GPU and not run yet: `benchmarks/gpu/plan_path.yaml`.

## Tasks and licence
A split has maps of its own, 256 in `train`, 64 in `val` and `ood`, 128 in `test`, each with 32
pairs of a start and a goal. No map of a split is a map of another that was turned or mirrored.
`ood` has larger maps, 7x7 or 14x14, and longer ways: prompts that neither seat has read. In the
other splits the tool's prompts are new; the planner's, a start and a goal, are not. Texts and tasks
were made for this library and share its licence.

**Not comparable with the paper's numbers.** Prompts, the format of answers, pay and maps are this
library's own. The authors' code ignores moves into walls and walks on, and pays each move.

A program that looks at a clock or is stopped by a limit of time may do something else when it is
run again; all else replays exactly.

## Version history
- v1: with `info="split"` a walk into a wall ends the episode, and the prompt of several turns says
  so. In v0 the planner was told which move met a wall and went on. One that took note of walls
  arrived alone in 0.65 of tasks with 2 turns, 0.84 with 3 and 0.98 with 5 (5x5). With one turn
  nothing has changed but the name, so what was measured with one turn stands.
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
from llm_marl_envs.envs.grids.experts import MapExperts
from llm_marl_envs.envs.grids.map_env import MapEnv
from llm_marl_envs.envs.grids.map_tasks import (
    GOAL,
    LEVELS,
    START,
    marked,
    named,
    procedural,
    task_of_row,
)
from llm_marl_envs.envs.grids.maps import (
    ASKED,
    FREE,
    UNREAD,
    WALL,
    expected_blind,
    read_moves,
    score_terms,
    size_of,
    walk,
)
from llm_marl_envs.envs.grids.pictures import grid_svg

RULES = (
    "A map of {size} rows and {size} columns. A dot is free, # is a wall, S is the start, G the "
    "goal.{hidden}\n{map}"
)
HIDDEN = {
    TOOL: " planner_0 alone sees S and G.",
    PLANNER: " A question mark is free or a wall; tool_0 alone sees which.",
}
FORM = f"{ASKED} A walk ends before a wall; it must end at the goal."
OUT = " Who walks into a wall has no further turn."
MISSED = "Not at the goal."
STANDS = "You are at {place}, not at the goal."
STOPPED = " Move {number}, {move}, led into a wall."
COLOURS = {FREE: "#ffffff", WALL: "#444444"}
TRAIL, ENDS, HERE = "#c9efc9", "#ffe9c7", "#7fc97f"


class PlanPathOptions(ToolOptions):
    """The arguments of plan_path."""

    level: Literal["5x5", "10x10"] = Field(
        default="5x5",
        description="'10x10' is the paper's size with the wall share of its authors' code, 0.22",
    )
    distance: int | None = Field(
        default=None,
        ge=1,
        description="moves of the shortest way, at least; None takes 4 or 6. At most 6 or 12",
    )
    tasks: Any = tasks_field(
        "Rows have a `map`, a list of lines or a text of lines with `.`, `#`, one `S` and one `G`."
    )
    turns: int = Field(
        default=1, ge=1, description="K; the paper's form is info='full', tool='python', turns=5"
    )


class PlanPathEnv(MapEnv[int]):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("plan_path-v1")
    Options = PlanPathOptions
    asks, hidden, answers = RULES, HIDDEN, FORM

    def __init__(self, **arguments: Any) -> None:
        options = PlanPathOptions(**arguments)
        level = LEVELS[options.level]
        least = level.least if options.distance is None else options.distance
        check_whole("distance", least, 1, level.most)
        source = options.opened(lambda split: procedural(options.level, split, least), task_of_row)
        super().__init__(
            options,
            source=source,
            generated="whole" not in source[0].data,
            turns=options.turns,
        )

    # -- the map ----------------------------------------------------------------------------------
    def begins(self, task: Task) -> int:
        """As `MapEnv.begins`: the place of the planner."""
        return task.data["start"]

    def whole(self, task: Task, state: int) -> str:
        """As `MapEnv.whole`; S is where the planner stands."""
        return marked(task.data["map"], {state: START, task.data["goal"]: GOAL})

    def part(self, task: Task, agent: str) -> str:
        """As `MapEnv.part`: the walls, or start and goal."""
        cells, ends = task.data["map"], {task.data["start"]: START, task.data["goal"]: GOAL}
        return cells if agent == TOOL else marked("?" * len(cells), ends)

    def blind(self, task: Task) -> float:
        """As `MapEnv.blind`."""
        return expected_blind(
            task.data["map"], task.data["start"], task.data["goal"], self.max_turns
        )

    def form(self, task: Task) -> str:
        """As `GridEnv.form`."""
        return super().form(task) + OUT * (self.divided and self.max_turns > 1)

    # -- the episode ------------------------------------------------------------------------------
    def judge(self, action: str) -> Judged:
        """As `GridEnv.judge`; the walk goes on from where the last one ended."""
        cells, start, goal = (self.task.data[key] for key in ("map", "start", "goal"))
        moves = read_moves(action)
        places = walk(cells, self._trail[-1], moves or "")
        self._trail += places[1:]
        place, done = places[-1], len(places) - 1
        news = UNREAD if moves is None else ""
        if place != goal:
            news = " ".join(filter(None, [news, STANDS.format(place=named(place, size_of(cells)))]))
            if moves is not None and done < len(moves):
                news += STOPPED.format(number=done + 1, move=moves[done])
        terms = score_terms(cells, start, goal, place)
        facts = {"walked": len(self._trail) - 1}
        heard = self.news(news, MISSED)
        # Who was told of walls one by one would find the way without the tool.
        over = self.divided and moves is not None and done < len(moves)
        return Judged(terms, place == goal, moves is not None, heard, facts, over)

    def picture(self) -> str:
        """The map, with start, goal and the walk so far."""
        data = self.task.data
        texts = {data["start"]: START, data["goal"]: GOAL}
        colours = [COLOURS[cell] for cell in data["map"]]
        for place in self._trail:
            colours[place] = TRAIL
        for place in texts:
            colours[place] = ENDS
        colours[self._trail[-1]] = HERE
        cells = [texts.get(at, "") for at in range(len(data["map"]))]
        return grid_svg(cells, colours, size_of(data["map"]))

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> MapExperts:
        """A tool that reads out the map, a planner that searches it."""
        return MapExperts(self.divided, self.tool == "python")
