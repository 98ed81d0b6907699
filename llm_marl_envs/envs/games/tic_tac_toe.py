r"""# tic_tac_toe-v0: three in a row, for self-play.

## Description
Two players take cells of a board in turn. Who has three in a line wins. A game begins in the middle
by default, with two stones of each on the board, so that there are many tasks and disjoint splits.
With `start="empty"` it is the game as everybody knows it.

The game is so small that everything about it is known: the perfect player is a scripted policy, and
what each move gives away is exact.

Nothing is divided here, and nobody cooperates: both see the whole board, and what one wins the
other loses. It is for learning from play against oneself, against past selves and against scripted
opponents.

docs/environments/tic_tac_toe.md has what players reach against one another, and self-play.

## An episode
Task `train/0`.

    player_0 is told   You are X, the other is O. Who has three in a line wins:
                       across, down or diagonal.
                       1 2 O
                       4 5 X
                       7 O X
    player_1 is told   You are O, the other is X.

    player_0 says      5
    player_1 hears     X takes 5.
                       1 2 O
                       4 X X
                       7 O X
    player_1 says      I must stop a row.
                       Action: 1
    player_0 says      4
    player_0 earns     1.0
    player_1 earns     -1.0

    player_0 says      I take the middle, cell 5!
    player_1 hears     X takes 1.
                       X 2 O
                       4 5 X
                       7 O X
    player_1 says      5
    player_0 says      7
    player_1 says      2
    player_0 earns     -1.0
    player_1 earns     1.0

In the second ending the text of `player_0` is no move, so it counts as its worst one.

## Agents
`player_0` moves first, `player_1` second (AEC). X moves first in the game, so on boards with more X
than O (in `ood`) `player_0` has O.

`expert:perfect` gives nothing away. `expert:greedy` wins if it can, blocks if it must, and else
takes the first free cell. `expert:first` takes the first free cell.

## Observations
Chat messages, append-only: the rules and the board, whose free cells have names; after each move
who took what, and the board.

## Actions
The name of a free cell, read as in `matrix_game-v1`: exactly one line of the text is the name
alone, or behind `Action:`.

Any other text, and a cell that is taken, count as the worst move there is. Why not as a loss: a
game that ends before the other has moved pays it for nothing that it did, and a beginner would
never see a second move. Why not as a random move: then silence plays like random cells, which wins
or draws 0.245 of the games against perfect play instead of 0.051.

Silence, stalling, shouting, an echo, the cell that was just taken, the same cell always, several
moves at once and forged results: a test plays them against perfect play, in both seats, on all
boards of `val`. Each earns at least 0.2 less than the best moves. What any player can lose is its
exploitability, which docs/environments/tic_tac_toe.md has.

## Rewards
| term | value |
|---|---|
| result | at the end: 1 for who has won, -1 for the other, 0 for a draw |

The sum is 0, so train on own rewards (`credit="own"`).

**Entries of `info`**, of a seat's last move: `readable`, the text names a cell; `legal`, the cell
was free; `choice`, the cell that was taken; `regret`, how much less the move is worth than the best
one, 0, 1 or 2, under perfect play from there on. `success` is None: nobody solves anything.
`bounds` knows none: the team's mean is always 0.

## Episode end
With three in a line, or when no cell is free. Never truncated. Both seats move at least once: a
board on which the next move could win is no task.

## Arguments
`llm-marl spec tic_tac_toe` lists them.

There is no larger board: perfect play is exact here because all 5478 positions can be searched.

## Tasks and licence
Two stones of each lie on the boards of `train` (228), `val` (80) and `test` (88). Boards that
turning or mirroring makes of one another are all in one split; up to that there are 32, 10 and 12.
A game of `train` never comes to a board of `test`: it begins with as many stones. Later in the game
boards do meet: of 294 boards with five stones or more to which games of `test` can come, 265 (not
counting turned ones) can be met in `train`, too. `ood` has other signs (`#`, `@`), letters for
cells, and 0 to 3 stones: prompts that nobody has read, and longer games. Texts and tasks share the
library's licence.

With `start="empty"` each split has one task, the same but for the words of `ood`.

## Version history
- v0: first version.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.actions import read_action
from llm_marl_envs.core.environment import Outcome, TextAECEnv, TextEnv, described
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.rendering import Cell, table_svg
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import (
    ListSource,
    Row,
    Task,
    hash_of,
    split_of_row,
)
from llm_marl_envs.envs.games import tic_tac_toe_rules as tictactoe
from llm_marl_envs.envs.games.experts import GameExperts
from llm_marl_envs.envs.games.tic_tac_toe_rules import (
    EMPTY,
    FREE,
    MARKS,
    Board,
    free_cells,
    placed,
    to_move,
    winner,
)

SEATS = ("player_0", "player_1")
STONES = {"ood": (0, 1, 2, 3)}
"""How many stones lie on the starting boards of a split; elsewhere `USUAL_STONES`."""
USUAL_STONES = (4,)
SHARES = (("train", 0.5), ("val", 0.3), ("test", 0.2))
"""Of the 54 boards that differ in more than a turn or a mirror; a tenth for `val` would be two."""
LABELS = {"ood": "abcdefghi"}
USUAL_LABELS = "123456789"
SIGNS = {"ood": "#@"}
"""What marks a stone of who moved first in the game, and of the other."""
PERFECT, GREEDY, FIRST = PLANS = ("perfect", "greedy", "first")
NEW = "#f5c26b"
"""Colour of the last stone in a picture."""

RULES = (
    "Tic-tac-toe. You are {own}, the other is {other}. Who has three in a line wins: across, down "
    "or diagonal.\n{board}\nIn your turn answer with one line: the cell, one of those not taken."
)
MOVED = "{sign} takes {cell}.\n{board}"


class TicTacToeOptions(TaskOptions):
    """The arguments of tic_tac_toe."""

    start: Literal["middle", "empty"] = Field(
        default="middle", description="boards in the middle of a game, or the empty one"
    )
    tasks: Any = tasks_field("Rows have a `board`, nine of `X`, `O` and `.` in reading order.")


class TicTacToeEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an unknown split or start, or a row that is no board to begin with.
    """

    metadata: ClassVar[dict[str, Any]] = described("tic_tac_toe-v0")
    Options = TicTacToeOptions
    reward_range = (-1.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = TicTacToeOptions(**arguments)
        source = options.opened(lambda split: starting_boards(split, options.start), board_of_row)
        super().__init__(
            agents=SEATS,
            source=source,
            max_turns=max((task.data["board"].count(FREE) + 1) // 2 for task in source),
            render_mode=options.render_mode,
        )

    def experts(self) -> TicTacToeExperts:
        """The perfect player, and weaker ones."""
        return TicTacToeExperts()

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """The board that the task begins with."""
        self.board: Board = self.task.data["board"]
        self._last: int | None = None
        self._facts: dict[str, dict[str, Any]] = {}  # of each seat's last move

    def brief(self, task: Task, agent: str) -> str:
        """The rules and the board."""
        board, signs = task.data["board"], task.data["signs"]
        own = (MARKS.index(to_move(board)) + SEATS.index(agent)) % 2
        return RULES.format(own=signs[own], other=signs[1 - own], board=shown_board(task, board))

    def play_one(self, agent: str, action: str) -> Outcome:
        """One move; the game is paid at its end."""
        before, labels = self.board, self.task.data["labels"]
        free = free_cells(before)
        label = read_action(action, labels)
        cell = labels.index(label) if label is not None else None
        legal = cell in free
        if cell is None or not legal:
            cell = tictactoe.worst_move(before)
        self.board, self._last = placed(before, cell), cell
        self._facts[agent] = {
            "readable": label is not None,
            "legal": legal,
            "choice": labels[cell],
            "regret": tictactoe.regret(before, cell),
        }
        other = SEATS[1 - SEATS.index(agent)]
        if tictactoe.is_over(self.board):
            won = float(winner(self.board) is not None)  # of who has moved
            return Outcome(
                reward_terms={agent: {"result": won}, other: {"result": -won}},
                ended=True,
                facts=dict(self._facts),
            )
        sign = self.task.data["signs"][MARKS.index(to_move(before))]
        moved = MOVED.format(sign=sign, cell=labels[cell], board=shown_board(self.task, self.board))
        return Outcome(
            reward_terms={}, feedback=dict.fromkeys(SEATS, moved), facts=dict(self._facts)
        )

    def picture(self) -> str:
        """The board; the last stone is coloured."""
        cells = [Cell("" if mark == FREE else mark) for mark in self.board]
        if self._last is not None:
            cells[self._last] = Cell(self.board[self._last], NEW)
        return table_svg("board", [cells[row : row + 3] for row in (0, 3, 6)])


class TicTacToeExperts(GameExperts):
    """The perfect player; one that wins or blocks if it can; one that takes the first free cell."""

    fixed = PLANS

    def legal(self, task: Task, agent: str) -> Sequence[str]:
        """The names of all cells."""
        return task.data["labels"]

    def at_random(self, env: TextEnv, agent: str, rng: random.Random) -> str:
        """A free cell."""
        board = board_in(env.task, env.chat(agent))
        return env.task.data["labels"][rng.choice(free_cells(board))]

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The move of a plan on the board that was shown last."""
        if convention not in PLANS:
            raise ValueError(f"plan {convention!r}: expected one of {PLANS}")
        return task.data["labels"][planned(convention, board_in(task, messages))]

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The plan whose first move of `player_0` this is, if it is of one plan alone."""
        board, label = task.data["board"], read_action(action, task.data["labels"])
        plans = [plan for plan in PLANS if task.data["labels"][planned(plan, board)] == label]
        return plans[0] if agent == SEATS[0] and len(plans) == 1 else None


def planned(plan: str, board: Board) -> int:
    """The cell that a plan takes.

    Args:
        plan: "perfect": the best there is. "greedy": a cell that wins, else one with which the
            other would win, else the first free one. "first": the first free one.
        board: with a free cell.
    """
    free = free_cells(board)
    if plan == PERFECT:
        return tictactoe.best_move(board)
    if plan == GREEDY:
        own = to_move(board)
        for mark in (own, MARKS.replace(own, "")):
            for cell in free:
                if winner(board[:cell] + mark + board[cell + 1 :]) is not None:
                    return cell
    return free[0]


# -- boards and texts -----------------------------------------------------------------------------
def shown_board(task: Task, board: Board) -> str:
    """Three lines; free cells show their names."""
    named = dict(zip(MARKS, task.data["signs"], strict=True))
    cells = [named.get(mark, task.data["labels"][cell]) for cell, mark in enumerate(board)]
    return "\n".join(" ".join(cells[row : row + 3]) for row in (0, 3, 6))


def board_in(task: Task, messages: Sequence[Message]) -> Board:
    """The board that was shown last; the starting one where none was."""
    named = dict(zip(task.data["signs"], MARKS, strict=True))
    for message in reversed([message for message in messages if message.role == "user"]):
        rows = [line.split(" ") for line in message.content.split("\n")]
        cells = [cell for row in rows if list(map(len, row)) == [1, 1, 1] for cell in row]
        if len(cells) == 9:
            return "".join(named.get(cell, FREE) for cell in cells)
    return task.data["board"]


@lru_cache(maxsize=8)
def starting_boards(split: str, start: str) -> ListSource:
    """The tasks of a split; of boards that turning or mirroring makes equal, all are in one."""
    words = {
        "labels": LABELS.get(split, USUAL_LABELS),
        "signs": SIGNS.get(split, MARKS),
    }
    if start == "empty":
        return ListSource([Task(f"{split}/0", split, {"board": EMPTY, **words})], split)
    starts = [
        board
        for stones in STONES.get(split, USUAL_STONES)
        for board in tictactoe.boards(stones)
        if split == "ood" or split_of_board(board) == split
    ]
    random.Random(hash_of(f"tic_tac_toe/{split}")).shuffle(starts)
    tasks = [Task(f"{split}/{n}", split, {"board": b, **words}) for n, b in enumerate(starts)]
    return ListSource(tasks, split)


def board_of_row(row: Row) -> Task:
    """The task of a row: `board`, nine of `X`, `O` and `.`, perhaps in lines; `id`, `split`.

    Raises:
        ValueError: no such board, not as many stones of each as there can be, or one on which the
            game is over, or ends with the next move.
    """
    entry = row.get("board")
    board = "".join(entry.split()) if isinstance(entry, str) else ""
    if len(board) != 9 or set(board) - {*MARKS, FREE}:
        raise ValueError(
            f"board={entry!r:.100}: expected nine of {MARKS[0]}, {MARKS[1]} and {FREE}"
        )
    if board.count(MARKS[0]) - board.count(MARKS[1]) not in (0, 1):
        raise ValueError(
            f"board={entry!r:.100}: expected as many X as O, or one more, since X moves first"
        )
    if tictactoe.is_over(board) or tictactoe.wins_at_once(board) or board.count(FREE) < 2:
        raise ValueError(
            f"board={entry!r:.100}: expected a game in which both still move, whatever the next "
            "move is"
        )
    name = str(row.get("id") or f"row-{hash_of(board):016x}")
    words = {"labels": USUAL_LABELS, "signs": MARKS}
    return Task(name, split_of_board(board, row), {"board": board, **words})


def split_of_board(board: Board, row: Row = MappingProxyType({})) -> str:
    """The split of a board, the same for all that turning and mirroring make of it.

    A row may name its own.
    """
    return split_of_row(row, tictactoe.canonical(board), SHARES)
