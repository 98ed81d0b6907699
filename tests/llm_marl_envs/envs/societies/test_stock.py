"""A shared stock: what is dealt and what is known of it, beside counting and figures by hand."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import factorial

import numpy as np
import pytest

from llm_marl_envs.envs.societies import stock_responses
from llm_marl_envs.envs.societies.stock import Rules, dealt, insatiable, parts
from llm_marl_envs.envs.societies.stock_numbers import (
    alone,
    at_random,
    equilibrium,
    highest,
    is_overuse,
    optimum,
    plan,
    sharing_lasts,
)
from llm_marl_envs.envs.societies.stock_responses import best_response, meeting
from llm_marl_envs.envs.societies.stock_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PLANS,
    SHARER,
    Script,
)

GOVSIM = Rules(5, 12, 100)
HARM = Rules(5, 12, 100, inverse=True)
SMALL = [
    Rules(2, 3, 10),
    Rules(3, 3, 12),
    Rules(2, 3, 10, end=0.25),
    Rules(2, 3, 10, inverse=True),
    Rules(3, 2, 10, end=0.5, inverse=True),
]


# -- rules ----------------------------------------------------------------------------------------
def one_by_one(named: list[int], stock: int, order: list[int]) -> tuple[int, ...]:
    """The rule in words, unit by unit."""
    got = [0] * len(named)
    while stock and any(a < b for a, b in zip(got, named, strict=True)):
        for seat in order:
            if stock and got[seat] < named[seat]:
                got[seat], stock = got[seat] + 1, stock - 1
    return tuple(got)


def test_what_is_dealt_is_what_dealing_unit_by_unit_gives():
    rng = random.Random(0)
    for _ in range(300):
        n, stock = rng.randint(2, 4), rng.randint(0, 20)
        named = [rng.randint(0, stock) for _ in range(n)]
        orders = [list(order) for order in permutations(range(n))]
        assert dealt(named, stock, orders[0]) == one_by_one(named, stock, orders[0])
        for own in range(stock + 1):
            got = [one_by_one([own, *named[1:]], stock, order)[0] for order in orders]
            mean = Fraction(sum(got), factorial(n))
            assert min(Fraction(own), insatiable(named[1:], stock)) == mean


def test_huge_amounts_are_dealt_at_once():
    assert dealt([10**9, 10**9, 3], 100, [1, 0, 2]) == (48, 49, 3)


def test_growth_and_collapse():
    assert [GOVSIM.grown(left) for left in (0, 4, 5, 50, 51, 100)] == [
        None,
        None,
        10,
        100,
        100,
        100,
    ]
    assert (HARM.strength, HARM.inflow) == (20, 40)
    assert [HARM.grown(left) for left in (0, 30, 31)] == [40, 100, None]
    for rules, stock in product((GOVSIM, HARM), range(101)):
        enough = rules.enough(stock)
        after = rules.grown(stock - enough)
        worse = rules.grown(stock - enough + 1) if rules.inverse else None
        if rules.inverse and stock >= rules.inflow:
            assert after is not None
            assert after <= stock
            assert worse is None or worse > stock
        elif not rules.inverse and stock >= 10:
            assert after is not None
            assert after >= stock
            assert (rules.grown(stock - enough - 1) or 0) < stock


def test_units_that_cannot_be_divided_go_round():
    assert [parts(7, 3, month) for month in (1, 2, 3)] == [(2, 3, 2), (2, 2, 3), (3, 2, 2)]
    assert sum(parts(50, 8, 3)) == 50


# -- the figures of the paper's game --------------------------------------------------------------
def test_the_optimum_is_130_a_seat_and_grabbing_at_once_is_20():
    assert optimum(GOVSIM, 100) == 130
    assert plan(GOVSIM).totals[:, 100].tolist() == [50] * 11 + [100]
    assert alone(GOVSIM, 100) == 130
    only = equilibrium(GOVSIM)
    assert only.only
    assert only.values[0, 100] == pytest.approx(20)
    assert meeting(GOVSIM, 100, [Script(GRABBER)] * 5) == [20] * 5


def test_the_known_end_unravels_from_month_11():
    best = best_response(GOVSIM, 100, Script(GRIM))
    assert best.pay == 10 * 10 + 60
    assert best.amounts == (10,) * 10 + (60,)
    assert meeting(GOVSIM, 100, [Script(GRIM)] * 5) == [130] * 5  # 10 + 20 in the last two months


def test_with_grim_punishment_sharing_lasts_up_to_a_sixth():
    sixth = Fraction(1, 6)
    assert sharing_lasts(GOVSIM, sixth)
    assert not sharing_lasts(GOVSIM, sixth + Fraction(1, 10**12))
    two, third = Rules(2, 12, 100), Fraction(1, 3)
    assert sharing_lasts(two, third)
    assert not sharing_lasts(two, third + Fraction(1, 10**12))
    # Likewise by dynamic programming, where the last month is far away.
    for end, gains in ((0.15, False), (0.18, True)):
        rules = Rules(5, 60, 100, end=end)
        kept = meeting(rules, 100, [Script(GRIM)] * 5)[0]
        assert (best_response(rules, 100, Script(GRIM)).amounts[0] > 10) is gains
        assert kept == pytest.approx(10 / end, rel=1e-3)
    with pytest.raises(ValueError, match="capacity"):
        sharing_lasts(Rules(8, 12, 100), sixth)


@pytest.mark.parametrize(
    ("script", "together", "best"),
    [(SHARER, 130, 310), (GRABBER, 20, 20), (GRIM, 130, 160), (FOLLOWER, 120, 195)],
)
def test_best_responses(script: str, together: float, best: float):
    assert meeting(GOVSIM, 100, [Script(script)] * 5) == [together] * 5
    assert best_response(GOVSIM, 100, Script(script)).pay == pytest.approx(best)
    assert best_response(GOVSIM, 100, Script(script), step=5).pay <= best + 1e-9


def test_best_responses_to_a_harm():
    assert optimum(HARM, 50) == 156
    assert [best_response(HARM, 50, Script(plan)).pay for plan in (SHARER, GRABBER, GRIM)] == [
        233,
        20,
        157,
    ]


def test_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stock_responses, "MOST_STATES", 50)
    assert best_response(GOVSIM, 100, Script(GRABBER)).pay == 20
    with pytest.raises(ValueError, match="states"):
        best_response(GOVSIM, 100, Script(FOLLOWER))


# -- beside counting ------------------------------------------------------------------------------
def all_named(rules: Rules, stock: int, month: int, named: tuple[int, ...]) -> tuple[float, int]:
    """Expected pay of seat 0 in a month, and the stock after it, -1 where it is over."""
    orders = [*permutations(range(rules.seats))]
    got = float(np.mean([dealt(named, stock, order)[0] for order in orders]))
    after = rules.grown(max(0, stock - sum(named)))
    return rules.pay(got), -1 if after is None or month == rules.months else after


def counted(rules: Rules, stock: int, month: int = 1) -> tuple[float, float]:
    """The social optimum and what random amounts earn, mean over seats, by all joint amounts."""
    best, total, amounts = 0.0, 0.0, range(rules.most(stock) + 1)
    joint = [*product(amounts, repeat=rules.seats)]
    later = {}
    for named in joint:
        seats = [named[s:] + named[:s] for s in range(rules.seats)]
        paid, afters = zip(*(all_named(rules, stock, month, one) for one in seats), strict=True)
        if afters[0] not in later:
            ended = afters[0] < 0
            later[afters[0]] = (0.0, 0.0) if ended else counted(rules, afters[0], month + 1)
        more = later[afters[0]]
        best = max(best, float(np.mean(paid)) + (1 - rules.end) * more[0])
        total += float(np.mean(paid)) + (1 - rules.end) * more[1]
    return best, total / len(joint)


@pytest.mark.parametrize("rules", SMALL[:1] + SMALL[2:4])
def test_optimum_and_random_are_what_counting_gives(rules: Rules):
    best, mean = counted(rules, 8)
    assert optimum(rules, 8) == pytest.approx(best)
    assert at_random(rules)[8] == pytest.approx(mean)


@pytest.mark.parametrize("inverse", [False, True])
def test_the_range_is_that_of_the_plans_of_all_tasks(inverse: bool):
    """Equal in the usual form; of a harm not below it. It takes no plan, so it is quick."""
    for capacity, months, end in product((10, 13, 50), (1, 2, 3, 12), (0.0, 0.1, 1 / 3, 0.5)):
        rules = Rules(3, months, capacity, end, inverse)
        stocks = range(capacity // 4 if inverse else 5, capacity // 2 + 1)
        pairs = np.array([(stock, capacity) for stock in stocks])
        certain = replace(rules, end=0.0)
        most = [
            months * rules.strength if inverse else 3 * optimum(certain, stock) for stock in stocks
        ]
        exact = max(one / optimum(rules, stock) for one, stock in zip(most, stocks, strict=True))
        found = highest(rules, pairs)
        assert found == pytest.approx(exact) or (inverse and exact < found < 1.5 * exact)
    begun = time.process_time()
    highest(Rules(5, 400, 0, 0.5, inverse), np.array([(c // 2, c) for c in range(10, 1001)] * 9))
    everything = time.process_time() - begun
    begun = time.process_time()
    plan.__wrapped__(Rules(5, 40, 300, 0.5, inverse))
    assert everything < 10 * (time.process_time() - begun)


@pytest.mark.parametrize("rules", SMALL[:3])
@pytest.mark.parametrize("best", [True, False])
def test_nobody_gains_by_leaving_an_equilibrium(rules: Rules, best: bool):
    """Whatever it does in later months, too: seat 0 is answered by dynamic programming."""
    found = equilibrium(rules, best)

    def response(stock: int, month: int) -> float:
        others = [int(found.amounts[month - 1, stock])] * (rules.seats - 1)
        paid = []
        for own in range(rules.most(stock) + 1):
            pay, after = all_named(rules, stock, month, (own, *others))
            paid.append(pay + (0 if after < 0 else (1 - rules.end) * response(after, month + 1)))
        return max(paid)

    for stock in range(rules.capacity + 1):
        assert response(stock, 1) == pytest.approx(found.values[0, stock])


@pytest.mark.parametrize("seats", [3, 4, 6, 7, 8])
def test_of_three_seats_or_more_all_equilibria_grab_at_once(seats: int):
    for best in (True, False):
        only = equilibrium(Rules(seats, 12, 100), best)
        assert only.only
        assert only.values[0, 100] == pytest.approx(100 / seats)


def test_equilibria_of_two_seats_pay_more_and_less():
    rules = Rules(2, 12, 100)
    high, low = equilibrium(rules), equilibrium(rules, best=False)
    assert (high.only, low.only) == (False, False)
    assert (high.values[0, 100], low.values[0, 100]) == (325, 50)
    assert optimum(rules, 100) == 325


def test_a_month_without_an_equilibrium_is_refused():
    with pytest.raises(ValueError, match="no pure equilibrium"):
        equilibrium(HARM)


@pytest.mark.parametrize("script", PLANS)
@pytest.mark.parametrize("rules", [SMALL[1], SMALL[2], SMALL[4]])
def test_best_responses_are_what_trying_everything_gives(rules: Rules, script: str):
    one = Script(script)

    def tried(stock: int, month: int, mind: int) -> float:
        others = [one.named(rules, month, stock, mind, seat) for seat in range(1, rules.seats)]
        paid = []
        for own in range(rules.most(stock) + 1):
            pay, after = all_named(rules, stock, month, (own, *others))
            heard = int(one.heard(rules, month, stock, mind, [own, *others[1:]]))
            later = 0 if after < 0 else (1 - rules.end) * tried(after, month + 1, heard)
            paid.append(pay + later)
        return max(paid)

    assert best_response(rules, 8, one).pay == pytest.approx(tried(8, 1, 0))


def test_the_social_optimum_is_never_over_use():
    for rules, month, stock in product((GOVSIM, HARM), (1, 6, 11, 12), range(0, 101, 7)):
        total = int(plan(rules).totals[month - 1, stock])
        assert not any(is_overuse(rules, month, stock, own) for own in parts(total, 5, month))
    assert [is_overuse(GOVSIM, 1, 100, own) for own in (10, 11)] == [False, True]
    assert [is_overuse(GOVSIM, 12, 100, own) for own in (20, 21)] == [False, True]
    assert [is_overuse(HARM, 1, 50, own) for own in (8, 9)] == [True, False]
