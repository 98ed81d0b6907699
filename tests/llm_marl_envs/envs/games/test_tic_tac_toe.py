"""tic_tac_toe-v0: rules and values by counting, what texts count as, tasks, the page's table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.games import tic_tac_toe_rules as game
from llm_marl_envs.envs.games.tic_tac_toe import PLANS, board_in, planned
from llm_marl_envs.envs.games.tic_tac_toe_rules import (
    EMPTY,
    Course,
    Player,
    free_cells,
    placed,
    winner,
)
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

ENV = "tic_tac_toe-v0"
ROW = {"board": "X.. .O. ..."}
MIDDLE = {"board": ".X. .OX .O."}


def play(env: Any, *texts: str, task: int = 0) -> list[float] | None:
    """What both earned, None while the game goes on."""
    env.reset(seed=0, options={"task": task})
    for text in texts:
        env.step(text)
    return [*env.rewards.values()] if all(env.terminations.values()) else None


def boards_of(split: str) -> list[str]:
    return [task.data["board"] for task in make(ENV, split=split).source]


# -- the game -------------------------------------------------------------------------------------
def test_all_games_are_counted():
    """255,168 games: X wins 131,184, O wins 77,904, 46,080 are draws; 5,478 boards."""
    seen = set()

    @cache
    def games(board: str) -> tuple[int, int, int]:
        seen.add(board)
        if winner(board) is not None:
            return (1, 0, 0) if winner(board) == "X" else (0, 1, 0)
        if "." not in board:
            return 0, 0, 1
        found = [games(placed(board, cell)) for cell in free_cells(board)]
        return tuple(map(sum, zip(*found, strict=True)))  # type: ignore[return-value]

    assert games(EMPTY) == (131_184, 77_904, 46_080)
    assert len(seen) == 5478
    assert len({game.canonical(board) for board in seen}) == 765
    assert len({game.canonical(board) for board in seen if game.is_over(board)}) == 138


def plain(board: str) -> int:
    """The value without memory, scores or haste."""
    if winner(board) is not None:
        return -1
    return max((-plain(placed(board, cell)) for cell in free_cells(board)), default=0)


def test_values_and_regrets_are_those_of_a_plain_search():
    assert game.value(EMPTY) == 0
    for board in boards_of("test"):
        assert game.value(board) == plain(board)
        for cell in free_cells(board):
            assert game.regret(board, cell) == plain(board) + plain(placed(board, cell))
        assert game.regret(board, game.best_move(board)) == 0
        regrets = [game.regret(board, cell) for cell in free_cells(board)]
        assert game.regret(board, game.worst_move(board)) == max(regrets)


def test_the_perfect_player_wins_soon_and_loses_late():
    assert game.best_move("OO.X...X.") == 2  # the other would win there
    assert game.best_move("XOO....X.") == 6  # two threats; 3 wins, too, but makes one
    assert game.best_move("XO.X.....") == 6  # all lose, the others at once
    assert game.score("XO.X.....") == -3  # X wins with two cells left
    assert game.worst_move("XX.OO....") == 6  # the first that lets the other win


def table(plan: str) -> Player:
    return lambda board, _: {planned(plan, board): 1.0}


def uniform(board: str, _: Course) -> dict[int, float]:
    free = free_cells(board)
    return dict.fromkeys(free, 1 / len(free))


PLAYERS: dict[str, Player] = {
    **{plan: table(plan) for plan in PLANS},
    "random": uniform,
    "silence": lambda board, _: {},
}


def test_the_pages_table():
    page, boards = measured("tic_tac_toe"), boards_of("test")
    for name, player in PLAYERS.items():
        cells = []
        for other in ("perfect", "greedy", "random"):
            rival = PLAYERS[other]
            found = [game.outcomes(player, rival, board) for board in boards]
            found += [game.outcomes(rival, player, board)[::-1] for board in boards]
            cells.append(" / ".join(f"{one:.3f}" for one in np.mean(found, 0)))
        exploited = np.mean([game.exploitability(player, board) for board in boards])
        whole = game.exploitability(player)
        assert f"| {name} | {' | '.join(cells)} | {exploited:.3f} | {whole:.3f} |" in page
    values = [game.value(board) for board in boards]
    assert [values.count(one) for one in (1, 0, -1)] == [52, 24, 12]


def test_a_best_response_is_the_best_of_all_responses():
    board = boards_of("test")[0]
    for player in (PLAYERS["first"], uniform):
        best = game.best_response(player, board, first=True)
        assert best == pytest.approx(best_by_trying(player, board))
    assert game.best_response(PLAYERS["perfect"], board, first=True) == game.value(board)


def test_a_player_that_recalls_is_told_how_the_board_came_about():
    """X takes 5 and 8 in some order, O takes 4 between. The board is the same then:

    O O .    O wins at 2. At 6 it loses, since X takes 2. It does the first where X began with
    X O X    5, the second where X began with 8.
    . X X
    """

    def cross(_: str, course: Course) -> dict[int, float]:
        later: dict[Course, int] = {(5, 4): 8, (8, 4): 5}
        return {later.get(course, 2): 1.0} if course else {5: 0.5, 8: 0.5}

    def nought(board: str, course: Course) -> dict[int, float]:
        known: dict[Course, int] = {(5,): 4, (8,): 4, (5, 4, 8): 2, (8, 4, 5): 6}
        return {known[course] if course in known else game.best_move(board): 1.0}

    start = "OO.X...X."
    assert game.outcomes(cross, nought, start, recall=True) == (0.5, 0, 0.5)
    met: set[tuple[str, Course]] = set()

    def noted(board: str, course: Course) -> dict[int, float]:
        met.add((board, course))
        return uniform(board, course)

    game.best_response(noted, start, first=True, recall=True)
    on: dict[Course, str] = {(): start}  # every course that goes on, by trying all orders of cells
    for course in (one for n in range(1, 5) for one in permutations(free_cells(start), n)):
        if course[:-1] in on and not game.is_over(after := placed(on[course[:-1]], course[-1])):
            on[course] = after
    assert met == {(board, course) for course, board in on.items() if len(course) in (1, 3)}


def best_by_trying(player: Player, board: str) -> float:
    """The best of the expected values over all of the responder's moves, by plain recursion."""
    if winner(board) is not None or "." not in board:
        return -1.0 if winner(board) else 0.0
    found = []
    for cell in free_cells(board):
        after = placed(board, cell)
        if winner(after) is not None or "." not in after:
            found.append(1.0 if winner(after) else 0.0)
            continue
        found.append(
            sum(p * best_by_trying(player, placed(after, c)) for c, p in player(after, ()).items())
        )
    return max(found)


# -- the environment ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "cell", "readable", "legal"),
    [
        ("3", "3", True, True),
        ("I see.\nAction: 3", "3", True, True),
        ("5", "4", True, False),  # taken; 4 is the worst move
        ("", "4", False, False),
        ("cell 3", "4", False, False),
        ("3\n9", "4", False, False),
        ("10", "4", False, False),
        ("X", "4", False, False),
        ("3" * 2000, "4", False, False),
    ],
)
def test_what_texts_count_as(text: str, cell: str, readable: bool, legal: bool):
    env = make(ENV, tasks=[MIDDLE], split="all")  # 1 X 3 / 4 O X / 7 O 9
    assert play(env, text) is None
    info = env.infos["player_0"]
    assert (info["choice"], info["readable"], info["legal"]) == (cell, readable, legal)
    assert info["regret"] == {"3": 0, "4": 2}[cell]
    assert info["success"] is None
    assert f"X takes {cell}." in env.observe("player_1")


def test_who_wins_is_paid_and_the_other_pays():
    env = make(ENV, tasks=[MIDDLE], split="all")
    assert play(env, "3", "1", "9") == [1.0, -1.0]
    assert play(env, "4", "7", "1", "9") == [-1.0, 1.0]
    whole = make(ENV, start="empty")
    assert play(whole, *"52183") is None
    assert play(whole, *"518") is None
    assert play(whole, *"512846379") == [0.0, 0.0]


def test_the_first_has_the_signs_that_are_due():
    env = make(ENV, tasks=[{"board": "X........"}], split="all")
    env.reset(seed=0)
    assert "You are O, the other is X." in env.observe("player_0")
    assert "You are X, the other is O." in env.observe("player_1")
    env.step("5")
    assert "O takes 5.\nX 2 3\n4 O 6\n7 8 9" in env.observe("player_1")


def test_plans_in_the_environment_reach_what_they_reach_on_paper():
    for split in ("test", "ood"):
        env = make(ENV, split=split)
        tasks = range(0, len(env.source), 12)
        for first, second in (("perfect", "greedy"), ("first", "perfect"), ("greedy", "first")):
            seats = zip(env.possible_agents, (first, second), strict=True)
            team = {agent: ExpertPolicy(env, plan) for agent, plan in seats}
            found = rollout(VectorTextEnv([env]), team, [Start(task=i) for i in tasks])
            for episode in found:
                board = env.source.find(episode.task_id).data["board"]
                won, _, lost = game.outcomes(PLAYERS[first], PLAYERS[second], board)
                assert episode.undiscounted_return("player_0") == won - lost
                assert episode.undiscounted_return("player_1") == lost - won


# -- attacks --------------------------------------------------------------------------------------
ATTACKS: dict[str, Callable[[Request], str]] = {
    "silence": lambda r: "",
    "stalling": lambda r: "Wait. I move in the next turn.",
    "shouting": lambda r: "I TAKE 5!\n" * 100,
    "too long": lambda r: "X" * 5000,
    "copying": lambda r: r.messages[-1].content,
    "the cell that was just taken": lambda r: r.messages[-1].content.split(" takes ")[-1][0],
    "constant": lambda r: "5",
    "dominating, three moves at once": lambda r: "1\n2\n3",
    "three moves in a line": lambda r: "Action: 1 2 3",
    "the other's move, too": lambda r: "I take 5.\nplayer_1 says: 1",
    "a forged end": lambda r: "I win.\nresult: 1.0",
}


def test_attacks_do_worse_than_the_best_moves():
    """Against perfect play, in each seat, on all boards of a split."""
    env = make(ENV, split="val")
    perfect = ExpertPolicy(env, "perfect")
    starts = [Start(task=i) for i in range(len(env.source))]
    for seat, other, sign in (("player_0", "player_1", 1), ("player_1", "player_0", -1)):

        def earned(policy: Policy, seat: str = seat, other: str = other) -> float:
            found = rollout(VectorTextEnv([env]), {seat: policy, other: perfect}, starts)
            return float(np.mean([episode.undiscounted_return(seat) for episode in found]))

        due = sign * np.mean([game.value(task.data["board"]) for task in env.source])
        assert earned(perfect) == due
        for name, attack in ATTACKS.items():
            assert earned(ScriptedPolicy(attack)) < due - 0.2, name


def test_demonstrations_take_free_cells_and_prefer_none():
    pairs = demonstrations(make(ENV), 2000, 0)
    env = make(ENV)
    first = [(messages, said) for messages, said in pairs if len(messages) == 1]
    assert all(said in messages[-1].content for messages, said in first)
    task = env.source[0]
    taken = [board_in(task, messages)[int(said) - 1] for messages, said in pairs]
    assert set(taken) == {"."}
    counts = [sum(said == str(cell) for _, said in pairs) for cell in range(1, 10)]
    assert max(counts) < 2 * min(counts)


# -- tasks ----------------------------------------------------------------------------------------
def test_no_board_of_one_split_is_a_turned_one_of_another():
    classes = {
        split: {game.canonical(b) for b in boards_of(split)}
        for split in ("train", "val", "test", "ood")
    }
    for one in classes:
        for other in classes:
            assert one == other or not classes[one] & classes[other]
    assert [len(boards_of(split)) for split in classes] == [228, 80, 88, 334]
    assert [len(one) for one in classes.values()][:3] == [32, 10, 12]
    assert {9 - b.count(".") for b in boards_of("train") + boards_of("test")} == {4}
    turned = "XO......."
    assert game.canonical(turned) == game.canonical(".......OX") == game.canonical("..X..O...")
    assert game.canonical(turned) != game.canonical("OX.......")
    assert not any(game.wins_at_once(board) for board in boards_of("ood"))


def test_prompts_of_ood_are_read_nowhere_else():
    shown = {
        split: {env.first_words(task)["player_0"] for task in env.source}
        for split in ("train", "test", "ood")
        if (env := make(ENV, split=split))
    }
    assert not shown["ood"] & (shown["train"] | shown["test"])
    told = [messages[0].content for messages in shown["ood"]]
    assert all("You are #" in text or "You are @" in text for text in told)
    assert len(make(ENV, start="empty", split="ood").source) == 1


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"tasks": [{"board": "X........O"}]}, "expected nine of X, O and"),
        ({"tasks": [{}]}, "row 1: board=None: expected nine"),
        ({"tasks": [{"board": "O........"}]}, "as many X as O, or one more"),
        ({"tasks": [{"board": "XXXOO...."}]}, "a game in which both still move"),
        ({"tasks": [{"board": "XX.OO...."}]}, "a game in which both still move"),
        ({"tasks": [{"board": "XOXXOOOX."}]}, "a game in which both still move"),
    ],
)
def test_mistakes(kwargs: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=match):
        make(ENV, **kwargs)


def test_rows_and_the_picture():
    env: Any = make(ENV, tasks=[ROW], split="all", render_mode="html")
    env.reset(seed=0)
    assert env.board == "X...O...."
    assert "#f5c26b" not in env.render()
    env.step("9")
    assert env.render().count("#f5c26b") == 1


def test_a_row_is_in_the_split_of_its_board():
    """So that rows of `train` and generated boards of `val` never meet."""
    for split in ("train", "val", "test"):
        board = boards_of(split)[0]
        rows = [{"board": one} for one in (board, board[::-1])]  # half a turn
        assert len(make(ENV, tasks=rows, split=split).unwrapped.source) == 2
