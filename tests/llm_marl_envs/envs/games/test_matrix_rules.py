"""Matrix games: payoffs and equilibria by hand, gradients against differences, tasks of splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from llm_marl_envs.envs.games.instances import instances
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax
from llm_marl_envs.envs.games.matrix_rules import (
    GAMES,
    best_joint_actions,
    best_response,
    exact_gradient,
    landscape,
    paid,
    pure_equilibria,
    read_game,
    rescaled,
    worst_answers,
)
from llm_marl_envs.envs.games.scales import task_scales

DILEMMA = GAMES["prisoners_dilemma"]


# -- what is known --------------------------------------------------------------------------------
def test_payoffs_and_equilibria_by_hand():
    known = {
        "climbing": (11, [(0, 0), (1, 1)]),
        "penalty": (10, [(0, 0), (1, 1), (2, 2)]),
        "risky": (5, [(0, 0), (1, 1), (2, 2)]),
        "stag_hunt": (4, [(0, 0), (1, 1)]),
        "prisoners_dilemma": (3, [(1, 1)]),
    }
    assert set(known) == set(GAMES)
    for name, (best, equilibria) in known.items():
        game = GAMES[name]
        assert game.expected.mean(0).max() == game.expected.mean(0)[0, 0] == best
        assert pure_equilibria(game) == equilibria
        assert best_joint_actions(game)[0] == (0, 0)
    assert best_joint_actions(GAMES["penalty"]) == [(0, 0), (2, 2)]
    assert GAMES["climbing"].expected[0].tolist() == [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
    assert GAMES["penalty"].expected[1].tolist() == [[10, 0, -30], [0, 2, 0], [-30, 0, 10]]
    assert GAMES["risky"].cells[1][1] == ((14, 14), (-10, -10))
    assert GAMES["risky"].expected[:, 1, 1].tolist() == [2, 2]
    assert [one for one, game in GAMES.items() if game.chance] == ["risky"]
    assert [one for one, game in GAMES.items() if not game.common] == [
        "stag_hunt",
        "prisoners_dilemma",
    ]
    temptation, reward, punishment, sucker = (
        DILEMMA.expected[0][c] for c in ((1, 0), (0, 0), (1, 1), (0, 1))
    )
    assert temptation > reward > punishment > sucker
    assert 2 * reward > temptation + sucker  # so that taking turns is no better than cooperating


def test_best_responses_by_hand():
    climbing = GAMES["climbing"]
    assert best_response(climbing, 0, [1, 0, 0]) == (0, 11.0)
    # (11 - 30 + 0) / 3, (-30 + 7 + 6) / 3, 5 / 3
    assert best_response(climbing, 0, [1 / 3] * 3) == (2, pytest.approx(5 / 3))
    assert best_response(climbing, 1, [0, 1, 0]) == (1, 7.0)
    assert best_response(DILEMMA, 1, [0.5, 0.5]) == (1, 3.0)
    for wrong in ([1, 0], [1, 1, 0], [2, -1, 0]):
        with pytest.raises(ValueError, match="3 probabilities that sum to 1"):
            best_response(climbing, 0, wrong)


def test_who_chooses_nothing_plays_the_worst_answer():
    climbing = GAMES["climbing"]
    assert [worst_answers(climbing, (None, j)) for j in range(3)] == [(1, 0), (0, 1), (0, 2)]
    assert worst_answers(climbing, (2, None)) == (2, 0)
    assert worst_answers(climbing, (None, None)) == (0, 1)
    assert worst_answers(climbing, (2, 1)) == (2, 1)
    assert [worst_answers(DILEMMA, (None, j)) for j in range(2)] == [(0, 0), (0, 1)]
    assert [worst_answers(DILEMMA, (i, None)) for i in range(2)] == [(0, 0), (1, 0)]
    assert worst_answers(DILEMMA, (None, None)) == (1, 1)


def test_who_chooses_nothing_is_paid_the_least_of_the_table():
    for game in GAMES.values():
        least = [min(pair[seat] for pair in game.outcomes) for seat in (0, 1)]
        for own in range(game.shape[0]):
            mine, theirs = paid(game, (None, own), lambda n: 0)
            answers = [cell[0] for cell in (row[own] for row in game.cells)]
            assert mine == least[0] <= min(pair[0] for pair in answers)
            assert game.common or theirs in [pair[1] for pair in answers]
            assert not game.common or theirs == mine
        assert [*paid(game, (None, None), lambda n: 0)] == least
    assert paid(DILEMMA, (None, 0), lambda n: 0) == (0, 3)
    assert paid(DILEMMA, (1, None), lambda n: 0) == (5, 0)
    assert paid(DILEMMA, (None, None), lambda n: 0) == (0, 0)
    assert paid(GAMES["risky"], (None, 0), lambda n: 0) == (-10, -10)
    assert [paid(GAMES["risky"], (1, 1), lambda n, at=at: at)[0] for at in (0, 1)] == [14, -10]
    zero_sum = read_game([[[1, -1], [-2, 2]], [[-1, 1], [3, -3]]])
    assert paid(zero_sum, (None, 0), lambda n: 0) == (-2, 1)  # the other: as after its worst word


def test_where_the_exact_gradient_ends():
    """Of the tabular facts: 6 in climbing, 2 in penalty, the optimum from none of 200 starts."""
    ends = {name: landscape(game) for name, game in GAMES.items()}
    assert ends["climbing"].ends == {("b", "c"): 200}
    assert ends["climbing"].value == pytest.approx(6.0, abs=0.05)
    assert ends["penalty"].ends == {("b", "b"): 200}
    assert ends["penalty"].value == pytest.approx(2.0, abs=0.05)
    assert ends["risky"].ends == {("safe", "safe"): 200}
    assert ends["stag_hunt"].ends == {("hare", "hare"): 200}
    assert ends["prisoners_dilemma"].ends == {("defect", "defect"): 200}
    logits = near_uniform([(3,), (3,)])
    plain = ascend(
        lambda tables: exact_gradient(GAMES["climbing"], tables), logits, 400, 0.1, "plain"
    )
    assert [set(softmax(one).argmax(-1).tolist()) for one in plain] == [{1}, {2}]


def test_the_first_step_of_adam_by_hand():
    """Its size is the rate, its sign the gradient's."""
    stepped = ascend(lambda _: [np.array([[3.0, -0.5]])], [np.zeros((1, 2))], 1, 0.05)
    assert stepped[0] == pytest.approx(np.array([[0.05, -0.05]]), abs=1e-6)
    plain = ascend(lambda _: [np.array([[3.0, -0.5]])], [np.zeros((1, 2))], 2, 0.05, "plain")
    assert plain[0] == pytest.approx(np.array([[0.3, -0.05]]))


@pytest.mark.parametrize("game", [GAMES["climbing"], read_game([[[1, 2], 0, 3], [4, [5, 0], 6]])])
def test_the_gradient_is_the_slope(game: Any):
    logits = near_uniform([(n,) for n in game.shape], starts=2)

    def value(seat: int, tables: Any) -> Any:
        rows, columns = map(softmax, tables)
        return np.einsum("si,sj,ij->s", rows, columns, game.expected[seat])

    for seat, slope in enumerate(exact_gradient(game, logits)):
        for action in range(game.shape[seat]):
            moved = [one.copy() for one in logits]
            moved[seat][:, action] += 1e-6
            found = (value(seat, moved) - value(seat, logits)) / 1e-6
            assert slope[:, action] == pytest.approx(found, abs=1e-4)


# -- tables and tasks -----------------------------------------------------------------------------
def test_tables_that_are_no_games():
    for wrong in (None, 3, [], [[1, 2]], [[1], [2]], [[1, 2], [3]], [[1] * 9] * 2, ["ab", "cd"]):
        with pytest.raises(ValueError, match=r"payoffs=|cell"):
            read_game(wrong)
    for cell in ("a", None, [1], [1, 2, 3], float("nan"), True, {"either": []}, {"or": [1]}):
        with pytest.raises(ValueError, match=r"expected a number, a pair|expected \{.either"):
            read_game([[1, 2], [3, cell]])
    with pytest.raises(ValueError, match="nothing to choose"):
        read_game([[1, 1], [1, 1]])


def test_a_tables_cells():
    game = read_game([[1, [2, 3]], [{"either": [4, [5, 6]]}, 0]])
    assert game.cells == ((((1, 1),), ((2, 3),)), (((4, 4), (5, 6)), ((0, 0),)))
    assert game.expected[:, 1, 0].tolist() == [4.5, 5.0]
    assert rescaled(game, (10, 1)).cells[0][1] == ((20, 3),)


def words_table(task: Any) -> Any:
    """What each pair of words pays: what the task asks, whatever it is called."""
    game, orders = task.data["game"], task.data["orders"]
    return tuple(tuple(game.cells[r][c] for c in orders[1]) for r in orders[0])


@pytest.mark.parametrize("name", GAMES)
def test_no_table_is_in_two_splits(name: str):
    found: list[Any] = []
    for split in ("train", "val", "test", "ood"):
        tasks = instances(GAMES[name], split, task_scales([0.1, 1, 10], 2))
        found += [words_table(task) for task in tasks]
    assert len(set(found)) == len(found)
    first = instances(GAMES[name], "train", task_scales([1], 2))
    assert len(first) == 1
    assert words_table(first[0]) == GAMES[name].cells


def test_scales_take_turns():
    tasks = instances(GAMES["climbing"], "train", task_scales([(0.01, 0.03), (10, 30)] * 2, 2))
    assert [round(task.data["game"].expected[0].max(), 6) for task in tasks] == [0.11, 110.0] * 2
    assert [round(task.data["game"].expected[1].max(), 6) for task in tasks] == [0.33, 330.0] * 2
    assert len({task.data["orders"] for task in tasks}) == 4
    with pytest.raises(ValueError, match="has 4 different tables"):
        instances(GAMES["stag_hunt"], "train", task_scales([1] * 5, 2))
