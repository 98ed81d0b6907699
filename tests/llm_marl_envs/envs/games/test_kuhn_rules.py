"""Kuhn poker: payoffs of all hands, the known equilibria, best responses, the exact gradient."""

from __future__ import annotations

import numpy as np
import pytest

from llm_marl_envs.envs.games import kuhn_rules as kuhn
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax

JACK, QUEEN, KING = range(3)
RANDOM, FOLD, SHOUT = np.full(6, 0.5), np.zeros(6), np.ones(6)
P, B = False, True


@pytest.mark.parametrize(
    ("deal", "history", "won"),
    [
        ((KING, JACK), (P, P), 1),
        ((JACK, QUEEN), (P, P), -1),
        ((JACK, KING), (B, P), 1),  # a bluff that the second believes
        ((KING, JACK), (P, B, P), -1),
        ((KING, QUEEN), (B, B), 2),
        ((QUEEN, KING), (B, B), -2),
        ((QUEEN, JACK), (P, B, B), 2),
        ((JACK, KING), (P, B, B), -2),
    ],
)
def test_payoffs_by_hand(deal: tuple[int, int], history: tuple[bool, ...], won: float):
    assert kuhn.payoff(deal, history) == won


def test_the_tree():
    assert len(kuhn.LEAVES) == 6 * 5
    assert [kuhn.acting(h) for h in ((), (P,), (B,), (P, B))] == [0, 1, 1, 0]
    assert [kuhn.acting(h) for h in ((P, P), (B, P), (B, B), (P, B, P), (P, B, B))] == [None] * 5
    assert kuhn.situation(QUEEN, ()) == kuhn.situation(QUEEN, (P,)) == 1
    assert kuhn.situation(KING, (P, B)) == 5
    assert sum(kuhn.WINS) == pytest.approx(0)  # no seat is favoured by the cards
    with pytest.raises(ValueError, match="not over"):
        kuhn.payoff((0, 1), (P, B))
    for bets in (kuhn.PURE[17], RANDOM):  # each deal ends in exactly one leaf
        total = (kuhn.reach(0, bets) * kuhn.reach(1, bets)).sum()
        assert total == pytest.approx(6)


@pytest.mark.parametrize("alpha", [0, 0.1, 0.25, 1 / 3])
def test_the_family_of_equilibria(alpha: float):
    first, second = kuhn.equilibrium(alpha)
    assert kuhn.value(first, second) == pytest.approx(kuhn.VALUE)
    assert pytest.approx(-1 / 18) == kuhn.VALUE
    assert kuhn.exploitability(first, second) == pytest.approx(0, abs=1e-12)
    worse = first.copy()
    worse[KING] -= 0.2 if alpha > 0.1 else -0.2  # no longer three times the bluffs
    assert kuhn.exploitability(worse, second) > 0.001


def test_no_equilibrium_beyond():
    for alpha in (-0.1, 0.34):
        with pytest.raises(ValueError, match="expected 0 to 1/3"):
            kuhn.equilibrium(alpha)


def test_exploitability_by_hand():
    # NashConv 11/12, as OpenSpiel gives it for the uniform policy.
    assert kuhn.exploitability(RANDOM, RANDOM) == pytest.approx(11 / 24)
    assert kuhn.best_response(0, RANDOM)[1] == pytest.approx(1 / 2)
    assert kuhn.best_response(1, RANDOM)[1] == pytest.approx(5 / 12)
    # Who always passes loses the ante to any bet: 1 in either seat.
    assert kuhn.exploitability(FOLD, FOLD) == pytest.approx(1)
    # Against one who always bets: fold the jack (-1), call the king (2), the queen is even (0).
    assert kuhn.best_response(1, SHOUT)[1] == pytest.approx(1 / 3)
    assert kuhn.best_response(1, SHOUT)[0][[3, 5]].tolist() == [0, 1]
    for wrong in ([0.5] * 5, [2.0] * 6, [-0.1] * 6, [float("nan")] * 6):
        with pytest.raises(ValueError, match="6 probabilities of betting"):
            kuhn.best_response(0, np.array(wrong))


def test_the_gradient_is_the_slope():
    logits = [np.random.default_rng(seat).normal(size=(1, 6, 2)) for seat in range(2)]

    def expected(seat: int, tables: list[np.ndarray]) -> float:
        first, second = (softmax(one)[0, :, 1] for one in tables)
        return float(kuhn.value(first, second)) * (1 - 2 * seat)

    for seat, slope in enumerate(kuhn.exact_gradient(logits)):
        for place in range(6):
            for action in range(2):
                moved = [one.copy() for one in logits]
                moved[seat][0, place, action] += 1e-6
                found = (expected(seat, moved) - expected(seat, logits)) / 1e-6
                assert slope[0, place, action] == pytest.approx(found, abs=1e-5)


def test_the_exact_gradient_circles():
    found = {}
    for updates in (0, 100, 400):
        logits = ascend(kuhn.exact_gradient, near_uniform([(6, 2)] * 2, starts=20), updates)
        tables = [softmax(one)[..., 1] for one in logits]
        found[updates] = [kuhn.exploitability(*pair) for pair in zip(*tables, strict=True)]
    assert np.mean(found[0]) == pytest.approx(11 / 24, abs=0.02)
    assert max(found[100]) < 0.2
    assert min(found[400]) > 0.2
