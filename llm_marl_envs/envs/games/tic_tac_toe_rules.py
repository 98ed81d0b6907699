"""Tic-tac-toe: rules, exact values, symmetries, starting positions, best responses.

A board is nine characters in reading order: `X`, `O`, and `.` for a free cell. X moves first, so
whose turn it is follows from the board. Values are of the player who is to move: 1 it wins, 0 a
draw, -1 it loses, if both play perfectly. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import combinations

Board = str
Course = tuple[int, ...]
"""The cells that were taken since a game began, in order."""
Player = Callable[[Board, Course], Mapping[int, float]]
"""A table of a player: cell -> probability. What is missing to 1 is its worst move.

The course is () in a calculation where players need not recall it.
"""
MARKS = "XO"
FREE = "."
EMPTY = FREE * 9
LINES = (
    (0, 1, 2),
    (3, 4, 5),
    (6, 7, 8),
    (0, 3, 6),
    (1, 4, 7),
    (2, 5, 8),
    (0, 4, 8),
    (2, 4, 6),
)
TURN = (6, 3, 0, 7, 4, 1, 8, 5, 2)
"""A quarter turn: cell k of the turned board is this cell of the board."""
MIRROR = (2, 1, 0, 5, 4, 3, 8, 7, 6)


# -- rules ----------------------------------------------------------------------------------------
def free_cells(board: Board) -> list[int]:
    """The cells that may be taken."""
    return [cell for cell, mark in enumerate(board) if mark == FREE]


def to_move(board: Board) -> str:
    """X or O."""
    return MARKS[board.count(MARKS[0]) > board.count(MARKS[1])]


def placed(board: Board, cell: int) -> Board:
    """The board after a move."""
    return board[:cell] + to_move(board) + board[cell + 1 :]


@cache
def winner(board: Board) -> str | None:
    """Whose three stand in a line."""
    for a, b, c in LINES:
        if board[a] != FREE and board[a] == board[b] == board[c]:
            return board[a]
    return None


def is_over(board: Board) -> bool:
    """Whether somebody has won, or no cell is free."""
    return winner(board) is not None or FREE not in board


# -- perfect play ---------------------------------------------------------------------------------
@cache
def score(board: Board) -> int:
    """As `value`, more the sooner a win and less the sooner a loss."""
    if winner(board) is not None:  # of who moved last
        return -1 - board.count(FREE)
    return max((move_score(board, cell) for cell in free_cells(board)), default=0)


def move_score(board: Board, cell: int) -> int:
    """The score of who moves there."""
    return -score(placed(board, cell))


def value(board: Board) -> int:
    """1, 0 or -1 for who is to move."""
    return _sign(score(board))


def regret(board: Board, cell: int) -> int:
    """What a move gives away: 0, 1 or 2."""
    return value(board) - _sign(move_score(board, cell))


def best_move(board: Board) -> int:
    """A move with the best score: of equals the first."""
    return max(free_cells(board), key=lambda cell: move_score(board, cell))


def worst_move(board: Board) -> int:
    """A move with the worst score: of equals the first."""
    return min(free_cells(board), key=lambda cell: move_score(board, cell))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


# -- players against players ----------------------------------------------------------------------
def chances_of(player: Player, board: Board, course: Course) -> dict[int, float]:
    """The chance of each move; what a table leaves out is its worst move."""
    chances = dict(player(board, course))
    worst = worst_move(board)
    chances[worst] = chances.get(worst, 0.0) + 1 - sum(chances.values())
    return chances


def outcomes(
    first: Player, second: Player, board: Board, *, recall: bool = False
) -> tuple[float, float, float]:
    """The chances that who moves first wins, draws and loses, exactly.

    Args:
        first: the table of who moves first.
        second: of the other.
        board: where they begin.
        recall: players are told the course, too. Then courses are told apart that lead to one
            board: from the empty board 549,946 positions in place of 5,478.
    """

    @cache
    def expected(board: Board, course: Course, mine: bool) -> tuple[float, float, float]:
        """From this board on; `mine`: it is the turn of `first`."""
        if winner(board) is not None:
            return (0.0, 0.0, 1.0) if mine else (1.0, 0.0, 0.0)  # of who is not to move
        if FREE not in board:
            return 0.0, 1.0, 0.0
        branches = [
            (chance, expected(placed(board, cell), (*course, cell) if recall else (), not mine))
            for cell, chance in chances_of(first if mine else second, board, course).items()
            if chance
        ]
        won, drawn, lost = (sum(chance * odds[k] for chance, odds in branches) for k in range(3))
        return won, drawn, lost

    return expected(board, (), True)


def best_response(player: Player, board: Board, *, first: bool, recall: bool = False) -> float:
    """What a best responder to a player expects from a board, in values.

    Args:
        player: the table that it plays against.
        board: where they begin.
        first: whether the responder moves first.
        recall: as in `outcomes`.
    """

    @cache
    def expected(board: Board, course: Course, mine: bool) -> float:
        """From this board on; `mine`: it is the responder's turn."""
        if winner(board) is not None:
            return -1.0 if mine else 1.0  # won by who is not to move
        if FREE not in board:
            return 0.0
        if mine:
            chances = dict.fromkeys(free_cells(board), 1.0)
        else:
            chances = chances_of(player, board, course)
        values = [
            chance * expected(placed(board, cell), (*course, cell) if recall else (), not mine)
            for cell, chance in chances.items()
            if chance
        ]
        return max(values) if mine else sum(values)

    return expected(board, (), first)


def exploitability(player: Player, board: Board = EMPTY, *, recall: bool = False) -> float:
    """What a best responder wins beyond perfect play, mean over who moves first: 0 to 2.

    It is 0 exactly where no play against the player does better than against a perfect one.
    `recall` is as in `outcomes`.
    """
    perfect = value(board)
    gains = (
        best_response(player, board, first=True, recall=recall) - perfect,
        best_response(player, board, first=False, recall=recall) + perfect,
    )
    return sum(gains) / 2


# -- starting positions ---------------------------------------------------------------------------
def canonical(board: Board) -> Board:
    """The same for all boards that turning and mirroring make of one another."""
    images = []
    for image in (board, "".join(board[cell] for cell in MIRROR)):
        for _ in range(4):
            image = "".join(image[cell] for cell in TURN)
            images.append(image)
    return min(images)


def wins_at_once(board: Board) -> bool:
    """Whether who is to move can end the game with this move."""
    return any(winner(placed(board, cell)) is not None for cell in free_cells(board))


def boards(stones: int) -> list[Board]:
    """Every board with so many stones on which the game goes on for two moves at least."""
    positions = []
    for cells in combinations(range(9), stones):
        for crosses in combinations(cells, (stones + 1) // 2):
            marks = [FREE] * 9
            for cell in cells:
                marks[cell] = MARKS[cell not in crosses]
            board = "".join(marks)
            if not is_over(board) and not wins_at_once(board):
                positions.append(board)
    return positions
