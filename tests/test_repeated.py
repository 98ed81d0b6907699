"""The dilemma played several times, by hand: values, best responses, gradients, naive learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.claims import repeated
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax
from llm_marl_envs.envs.games.matrix_rules import GAMES

pytestmark = pytest.mark.full  # `make test-all` runs it

DILEMMA = GAMES["prisoners_dilemma"]


def test_repeated_dilemmas_by_hand():
    def played(first: str, second: str, turns: int = 10) -> tuple[float, float]:
        strategy = repeated.dilemma_strategy
        return repeated.returns(DILEMMA, (strategy(first, 0), strategy(second, 1)), turns)

    assert played("tit_for_tat", "tit_for_tat") == (30, 30)
    assert played("tit_for_tat", "defect") == (9, 14)
    assert played("defect", "grim") == (14, 9)
    assert played("defect", "defect") == (10, 10)
    assert played("cooperate", "defect", 3) == (0, 15)
    # Discounted: 5 + 0.5 * 1 + 0.25 * 1.
    tables = (repeated.dilemma_strategy("defect", 0), repeated.dilemma_strategy("tit_for_tat", 1))
    assert repeated.returns(DILEMMA, tables, 3, 0.5)[0] == 5.75
    with pytest.raises(ValueError, match="expected one of"):
        repeated.dilemma_strategy("forgive", 0)


def test_best_responses_over_turns():
    for seat in (0, 1):
        against = {
            name: repeated.best_response(
                DILEMMA, seat, repeated.dilemma_strategy(name, 1 - seat), 10
            )
            for name in ("cooperate", "defect", "tit_for_tat")
        }
        assert {name: value for name, (_, value) in against.items()} == {
            "cooperate": 50.0,
            "defect": 10.0,
            "tit_for_tat": 32.0,  # 9 times 3, and 5 at last
        }
        plan = against["tit_for_tat"][0]
        both_cooperated = 1
        assert plan[0][0] == 0
        assert [int(turn[both_cooperated]) for turn in plan[1:]] == [0] * 8 + [1]


def test_naive_learners_defect_in_the_repeated_dilemma():
    logits = ascend(
        lambda tables: repeated.exact_gradient(DILEMMA, tables, 10),
        near_uniform([(5, 2)] * 2, starts=50),
    )
    rows, columns = map(softmax, logits)
    per_turn = [
        repeated.returns(DILEMMA, pair, 10)[0] / 10 for pair in zip(rows, columns, strict=True)
    ]
    assert max(per_turn) < 1.05


def test_the_repeated_gradient_is_the_slope():
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(1, 5, 2)) for _ in range(2)]

    def value(seat: int, tables: Any) -> float:
        return repeated.returns(DILEMMA, [softmax(one[0]) for one in tables], 4, 0.9)[seat]

    for seat, slope in enumerate(repeated.exact_gradient(DILEMMA, logits, 4, 0.9)):
        for state in range(5):
            moved = [one.copy() for one in logits]
            moved[seat][0, state, 0] += 1e-6
            found = (value(seat, moved) - value(seat, logits)) / 1e-6
            assert slope[0, state, 0] == pytest.approx(found, abs=1e-5)
