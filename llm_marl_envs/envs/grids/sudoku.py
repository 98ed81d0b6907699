"""# sudoku-v0: a tool and a planner fill in one grid.

## Description
`tool_0` speaks, `planner_0` answers. Each sees half of the givens (`info="split"`, the default), so
neither can solve the grid alone. What the tool says is free text, or a Python program whose output
the planner reads (`tool="python"`). The answer of the planner counts for both. With several turns
both hear what came of it and try again.

## An episode
Task `train/3`. A dot is to be filled in, a question mark is a digit that the other sees.

    tool_0 is told     ? . . .
                       2 ? ? 1
                       . . . 4
                       ? . 1 .
    planner_0 is told  1 . . .
                       ? 4 3 ?
                       . . . ?
                       4 . ? .

    tool_0 says        My digits: 2 1 4 1
    planner_0 hears    tool_0 says:
                       > My digits: 2 1 4 1
    planner_0 says     Answer: 3 2 4 3 1 4 2 3
    both earn          0.3125

    tool_0 hears       planner_0 says:
                       > Answer: 3 2 4 3 1 4 2 3
                       Not solved.
    tool_0 says        I read my digits out by rows: 2 and 1, then 4, then 1.
    planner_0 says     Answer: 3 4 2 3 1 2 2 3
    both earn          1.0

The planner first read the list column by column: five of eight digits were right all the same.

With `info="full"` both see all givens, as in the paper of AT-GRPO (arXiv 2510.11062). Then one seat
could do everything: measure one agent with the same tool, turns and tokens beside the team,
`make("sudoku-v0", single_seat=True, ...)`.

## Agents
`tool_0` acts first in each turn, `planner_0` second (AEC). Two seats, the paper's roles.

## Observations
Chat messages, append-only. First the rules and the grid as the seat sees it. The planner is shown
the tool's text and, with `tool="python"`, what its program printed. After an answer that does not
solve the grid both are told so, and which rows, columns and boxes repeat a digit: among the
answered cells alone, and the givens that both see. So this tells no seat a given of the other's.

`state()` is the two chats; together they hold every given, and no solution. `render_mode="html"`
shows the grid: givens in the colour of who sees them, the last answer's digits by whether they are
right.

## Actions
**The planner**: exactly one line `Answer: ...`, with as many digits as there are dots, row by row;
or the whole grid, of which the dots alone are looked at. Commas, slashes, bars and brackets count
as spaces, a dot or question mark leaves a cell open. No such line, several, or another number of
digits is no answer. A quoted line answers nothing. Texts are cut after 8192 characters.

**The tool**: any text. With `tool="python"` the code in it, fenced or not, is a program. It runs in
the sandbox, without files and network, under the sandbox's limits (2 s of processor time). Its
standard input is the grid as the tool sees it. The planner reads the program and the first 2000
characters that it printed, and why it failed.

## Rewards
Both agents get the team's number. A turn is paid the *gain*: its score minus the score of the turn
before. So the return is the score of the last answer, and to solve later never returns more.

| term | score |
|---|---|
| cells | 0.5 x share of the empty cells with the right digit |
| solved | 0.5 if all are right |

No answer scores 0, also after a better one. The return is in [0, 1].

**Entries of `info`**: `success`, the grid is solved; `readable`, the planner's text has an answer,
or the tool's program printed something and did not fail.

`bounds(task)`: random digits; the better seat alone; 1. With `info="split"` the second is exact for
generated grids of size 4 and up to 3 turns, by counting the solutions that agree with what a seat
sees (`grids/sudoku_bounds.py`). Else `bounds` raises `ValueError`: solutions of larger grids are
too many to count. With `info="full"` one seat may do everything, so it is 1.
docs/environments/sudoku.md has the means of all splits.

## Episode end
When an answer is right, or after `turns` turns. Never truncated.

## Arguments
`llm-marl spec sudoku` lists them.

The attribute `sandbox` says where programs run: the process-wide pool unless it is set. A run file
of the paper's form, for a GPU and not run yet: `benchmarks/gpu/sudoku.yaml`.

## Tasks and licence
Every generated puzzle has exactly one solution, which a solver verifies. The places of the empty
cells decide the split, by a number that symmetric puzzles share: turned, mirrored or transposed
grids, other orders of rows, columns or bands, other digits. So no puzzle of one split is another's
in disguise. `ood` has the next larger size, 6x6, 9x9 or 12x12: prompts that neither seat has read.

Size 4 has every grid that a layout of empty cells allows, so that solutions can be counted. There
the givens are divided so that they tell a seat little; larger grids are divided by lot. Texts and
tasks were made for this library and share its licence.

**Not comparable with the paper's numbers.** Prompts, the format of answers, pay and puzzles are
this library's own. The authors' code fills its puzzles by lot, so they need not have one solution,
and pays bonuses for digits and rules beside the solution.

A program that looks at a clock or is stopped by a limit of time may do something else when it is
run again; all else replays exactly.

## Version history
- v0: first version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.answers import answer_lines
from llm_marl_envs.core.checks import check_whole
from llm_marl_envs.core.environment import Bounds, described
from llm_marl_envs.core.options import tasks_field
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.base import PLANNER, SEATS, TOOL, GridEnv, Judged, ToolOptions
from llm_marl_envs.envs.grids.experts import SudokuExperts
from llm_marl_envs.envs.grids.pictures import grid_svg
from llm_marl_envs.envs.grids.sudoku_bounds import (
    better_alone,
    expected_blind,
    score_terms,
    view_of,
)
from llm_marl_envs.envs.grids.sudoku_rules import Grid, repeats
from llm_marl_envs.envs.grids.sudoku_tasks import (
    BOTH,
    LEVELS,
    blank_cells,
    procedural,
    puzzle_of,
    seen_by,
    shape_of,
    task_of_row,
)

RULES = (
    "Sudoku: each row, each column and each box of {height} rows and {width} columns holds 1 to "
    "{size}, each once. A dot is a cell to fill in.{hidden}\n{grid}"
)
HIDDEN = " A question mark is a digit that {other} alone sees."
FORM = (
    "End with one line: Answer: and then the {blanks} digits for the dots, row by row, or the "
    "whole grid row by row; spaces between them."
)
UNREAD = "Not solved: no answer line with {blanks} or {cells} digits was found."
UNSOLVED = "Not solved."
REPEATS = "Not solved: digits repeat in {units}."
OTHER = {TOOL: PLANNER, PLANNER: TOOL}
DIGIT = re.compile(r"[0-9]{1,2}|[._?]")
SEPARATORS = re.compile(r"[\s,;/|\[\]()]+")
FULL_STOP = re.compile(r"(?<=[0-9\])])\.\s*$")
"""At the end of a sentence; a dot of its own is a cell that stays open."""
MAX_ANSWER_CHARS = 2000
COLOURS = {0: "#dbe9ff", 1: "#ffe9c7", BOTH: "#eeeeee"}
RIGHT, WRONG, OPEN = "#c9efc9", "#f6c4c4", "#ffffff"


class SudokuOptions(ToolOptions):
    """The arguments of sudoku."""

    level: Literal["4x4", "6x6", "9x9"] = Field(
        default="4x4", description="the paper has 4x4; its authors' generator also larger ones"
    )
    blanks: int | None = Field(
        default=None,
        description="how many cells are empty; None takes 8, 12 or 30. At most 9, 20 or 48",
    )
    tasks: Any = tasks_field(
        "Rows have a `puzzle`, a list of lines or a text of lines with digits and dots, exactly "
        "one solution."
    )
    turns: int = Field(
        default=2, ge=1, description="K; the paper's form is info='full', tool='python', turns=5"
    )


class SudokuEnv(GridEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("sudoku-v0")
    Options = SudokuOptions

    def __init__(self, **arguments: Any) -> None:
        options = SudokuOptions(**arguments)
        level = LEVELS[options.level]
        blanks = level.blanks if options.blanks is None else options.blanks
        check_whole("blanks", blanks, level.fewest, level.most)
        source = options.opened(lambda split: procedural(options.level, split, blanks), task_of_row)
        super().__init__(
            options,
            source=source,
            generated=BOTH not in source[0].data["owners"],
            turns=options.turns,
        )

    # -- texts ------------------------------------------------------------------------------------
    def rules(self, task: Task, agent: str) -> str:
        """As `GridEnv.rules`."""
        shape = shape_of(task)
        return RULES.format(
            height=shape.height,
            width=shape.width,
            size=shape.size,
            hidden=HIDDEN.format(other=OTHER[agent]) if self.divided else "",
            grid=self._shown(task, agent),
        )

    def given(self, task: Task) -> str:
        """As `GridEnv.given`."""
        return self._shown(task, TOOL) + "\n"

    def form(self, task: Task) -> str:
        """As `GridEnv.form`."""
        return FORM.format(blanks=len(blank_cells(task)))

    def _shown(self, task: Task, agent: str) -> str:
        """The grid in lines; dots for empty cells, question marks for the other's givens."""
        own = seen_by(task, SEATS.index(agent) if self.divided else None)
        texts = [
            str(digit) if digit else "?" if filled else "."
            for digit, filled in zip(own, puzzle_of(task), strict=True)
        ]
        size = task.data["size"]
        return "\n".join(" ".join(texts[at : at + size]) for at in range(0, size**2, size))

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """No answer yet."""
        super().begin_episode()
        self._digits: Grid | None = None

    def judge(self, action: str) -> Judged:
        """As `GridEnv.judge`.

        What is said of repeated digits is seen in the answer, and in what both see: it tells nobody
        a given.
        """
        shape, blanks = shape_of(self.task), blank_cells(self.task)
        digits = read_digits(action, blanks, shape.size)
        self._digits = digits
        right = [self.task.data["solution"][at] for at in blanks]
        terms = score_terms(digits or [0] * len(blanks), right)
        if digits is None:
            news = UNREAD.format(blanks=len(blanks), cells=shape.size**2)
        else:
            seen = [0] * shape.size**2 if self.divided else list(puzzle_of(self.task))
            for at, digit in zip(blanks, digits, strict=True):
                seen[at] = digit
            units = repeats(seen, shape)
            news = REPEATS.format(units=", ".join(units)) if units else UNSOLVED
        return Judged(terms, digits == tuple(right), digits is not None, dict.fromkeys(SEATS, news))

    def picture(self) -> str:
        """The grid: givens in the colour of who sees them, the last answer's digits by right."""
        data, shape = self.task.data, shape_of(self.task)
        shown = dict(zip(blank_cells(self.task), self._digits or (), strict=False))
        texts, colours = [], []
        for at, (owner, digit) in enumerate(zip(data["owners"], data["solution"], strict=True)):
            if at in blank_cells(self.task):
                texts.append(str(shown.get(at) or ""))
                colours.append(OPEN if at not in shown else RIGHT if shown[at] == digit else WRONG)
            else:
                texts.append(str(digit))
                colours.append(COLOURS[owner if self.divided else BOTH])
        return grid_svg(texts, colours, shape.size, (shape.height, shape.width))

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> SudokuExperts:
        """A tool that reads out its digits, a planner that solves."""
        return SudokuExperts(self.divided, self.tool == "python")

    def bounds(self, task: Task) -> Bounds:
        """Exact: digits at random; the best that the better seat can do alone; a team that tells.

        With `info="split"` they are known for generated grids of size 4 and up to 3 turns
        (`grids/sudoku_bounds.py`). With `info="full"` one seat may do everything.

        Raises:
            ValueError: larger grids, more turns, or rows, with `info="split"`.
        """
        blanks, size = blank_cells(task), task.data["size"]
        random = expected_blind(size, len(blanks), self.max_turns)
        if not self.divided:
            return Bounds(random=random, solo=1.0, team=1.0)
        if size != 4 or BOTH in task.data["owners"]:
            raise ValueError(
                "bounds with info='split' are known for generated grids of size 4, whose solutions "
                f"can be counted, not for task {task.id!r} of size {size}"
            )
        alone = better_alone(task.split, len(blanks), self.max_turns)
        solo = alone.values.get(view_of(task, alone.seat))
        if solo is None:
            raise ValueError(f"task {task.id!r}: bounds are known for the tasks of the splits")
        return Bounds(random=random, solo=solo, team=1.0)


def read_digits(text: str, blanks: Sequence[int], size: int) -> Grid | None:
    """The digits of the empty cells in an answer; 0 for one that is left open or no digit.

    Exactly one line answers. It holds as many digits as there are empty cells, or a whole grid, of
    which the empty cells are looked at. Commas, slashes, bars and brackets count as spaces, and a
    full stop behind the last digit is none of them.

    Args:
        text: any.
        blanks: the empty cells, in reading order.
        size: of the grid.

    Returns:
        None where there is no such line, or more than one.
    """
    lines = list(islice(answer_lines(text), 2))
    if len(lines) != 1 or len(lines[0]) > MAX_ANSWER_CHARS:
        return None
    words = SEPARATORS.sub(" ", FULL_STOP.sub("", lines[0])).split()
    if not all(DIGIT.fullmatch(word) for word in words):
        return None
    if len(words) == size**2:
        words = [words[at] for at in blanks]
    if len(words) != len(blanks):
        return None
    digits = (int(word) if word.isdecimal() else 0 for word in words)
    return tuple(digit if digit <= size else 0 for digit in digits)
