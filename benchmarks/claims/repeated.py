"""A matrix game played several times by seats that remember the last joint action.

State 0 is the beginning; state 1 + i K1 + j is the joint action (i, j) of the turn before. A table
holds a seat's probabilities, (states, K). Exact values, gradients and best responses by dynamic
programming over the turns. Shapes: S tables at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.envs.games.landscape import softmax
from llm_marl_envs.envs.games.matrix_rules import DILEMMA, MatrixGame


def states(game: MatrixGame) -> int:
    """How many states a memory of one turn has."""
    return 1 + game.shape[0] * game.shape[1]


def dilemma_strategy(name: str, seat: int) -> NDArray[np.float64]:
    """The table (5, 2) of a strategy in the dilemma: cooperate, defect, tit_for_tat or grim.

    `grim` remembers one turn only: it cooperates after mutual cooperation. That is the same play,
    for it has defected itself ever since.

    Raises:
        ValueError: no such strategy.
    """
    joint = [(i, j) for i in range(2) for j in range(2)]
    rules = {
        "cooperate": lambda own, other: 0,
        "defect": lambda own, other: 1,
        "tit_for_tat": lambda own, other: other,
        "grim": max,
    }
    if name not in rules:
        raise ValueError(f"strategy {name!r}: expected one of {[*rules]}")
    chosen = [DILEMMA.index("defect") if name == "defect" else 0]
    chosen += [rules[name](*(pair if seat == 0 else pair[::-1])) for pair in joint]
    return np.eye(2)[chosen]


def returns(
    game: MatrixGame, tables: Sequence[NDArray[Any]], turns: int, discount: float = 1.0
) -> tuple[float, float]:
    """What each seat expects of all turns, discounted."""
    values = [np.zeros(states(game)), np.zeros(states(game))]
    for _ in range(turns):
        joint = np.einsum("si,sj->sij", tables[0], tables[1])
        values = [
            (joint * _ahead(game, seat, value, discount)).sum((-1, -2))
            for seat, value in enumerate(values)
        ]
    return float(values[0][0]), float(values[1][0])


def _ahead(
    game: MatrixGame, seat: int, value: NDArray[Any], discount: float
) -> NDArray[np.float64]:
    """(..., 1, K0, K1): pay of a joint action and the value of the state that it leads to."""
    following = value[..., 1:].reshape(*value.shape[:-1], 1, *game.shape)
    return game.expected[seat] + discount * following


def exact_gradient(
    game: MatrixGame, logits: Sequence[NDArray[Any]], turns: int, discount: float = 1.0
) -> list[NDArray[Any]]:
    """Of each seat's expected return, in its own logits.

    Args:
        game: K0 times K1.
        logits: (S, states, K0) and (S, states, K1).
        turns: how often it is played.
        discount: of each further turn.
    """
    tables = [softmax(one) for one in logits]
    joint = np.einsum("...i,...j->...ij", *tables)  # (S, states, K0, K1)
    found = []
    for seat, own in enumerate(tables):
        value = np.zeros(joint.shape[:2])
        per_turn = []  # of the last turn first: advantage of each action, (S, states, K)
        for _ in range(turns):
            ahead = _ahead(game, seat, value, discount)
            taken = "...ij,...j->...i" if seat == 0 else "...ij,...i->...j"
            each = np.einsum(taken, np.broadcast_to(ahead, joint.shape), tables[1 - seat])
            value = (own * each).sum(-1)
            per_turn.append(own * (each - value[..., None]))
        visits = np.zeros(joint.shape[:2])
        visits[:, 0] = 1.0
        slope = np.zeros_like(own)
        for advantage in reversed(per_turn):
            slope += visits[..., None] * advantage
            reached = discount * np.einsum("ns,nsij->nij", visits, joint)
            visits = np.concatenate([np.zeros((len(own), 1)), reached.reshape(len(own), -1)], 1)
        found.append(slope)
    return found


def best_response(
    game: MatrixGame, seat: int, other: NDArray[Any], turns: int, discount: float = 1.0
) -> tuple[NDArray[np.int64], float]:
    """The best answer to a table of the other seat, and what it expects.

    Returns:
        (turns, states) actions, the first turn first, and the expected return.
    """
    value = np.zeros(states(game))
    plan = []
    for _ in range(turns):
        ahead = np.broadcast_to(_ahead(game, seat, value, discount), (states(game), *game.shape))
        each = np.einsum("sij,sj->si" if seat == 0 else "sij,si->sj", ahead, other)
        value = each.max(-1)
        plan.append(each.argmax(-1))
    return np.array(plan[::-1]), float(value[0])
