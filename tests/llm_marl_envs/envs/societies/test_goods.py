"""A public good: what is shared, fined and paired, and what is known, beside counting."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import pytest

from llm_marl_envs.envs.societies import goods_responses
from llm_marl_envs.envs.societies.goods import (
    Groups,
    Rules,
    budget,
    drawn,
    fined,
    group_of,
    incomes,
    pairings,
)
from llm_marl_envs.envs.societies.goods_numbers import (
    alone,
    at_random,
    deterring,
    equilibrium,
    lasting_end,
    most,
    needed,
    optimum,
)
from llm_marl_envs.envs.societies.goods_responses import best_response, meeting
from llm_marl_envs.envs.societies.goods_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PLANS,
    PUNISHER,
    SHARER,
    Mind,
    Script,
)

USUAL = Rules(4, 10, 10, Fraction(8, 5))
PAIRS = Rules(4, 10, 10, Fraction(8, 5), choose=True)
FINES = Rules(4, 10, 10, Fraction(8, 5), punish=True)
TWO = ((0, 2), (1, 3))


# -- rules ----------------------------------------------------------------------------------------
def test_what_all_give_is_shared_and_who_names_nothing_has_nothing():
    assert incomes(USUAL, USUAL.everybody, [10, 10, 10, 0]) == [12, 12, 12, 22]
    assert incomes(USUAL, USUAL.everybody, [10, 10, 10, None]) == [12, 12, 12, 0]
    assert incomes(USUAL, USUAL.everybody, [3, 0, 0, 0])[0] == 7 + Fraction(6, 5)
    assert incomes(PAIRS, TWO, [10, 10, 10, 0]) == [16, 8, 16, 18]
    assert incomes(PAIRS, ((0,), (1, 2), (3,)), [7, 5, 0, None]) == [10, 9, 14, 0]


def test_fines_are_bounded_by_a_half_on_either_side():
    earned = [Fraction(12), Fraction(12), Fraction(22), Fraction(7, 2)]
    fines = [[(2, 3)], [(2, 4), (0, 9)], [], [(0, 10**9)]]
    assert [budget(income) for income in earned] == [6, 6, 11, 1]
    assert fined(earned, fines) == [(3, 3, 6), (6, 0, 0), (0, 7, 11), (1, 0, 0)]
    zero = [Fraction(0)] * 4
    assert fined(zero, fines) == [(0, 0, 0)] * 4


def test_pay_is_never_below_nothing_and_a_unit_costs_the_same_whatever_others_do():
    rng = random.Random(0)
    for _ in range(500):
        given = [rng.choice([None, *range(11)]) for _ in range(4)]
        earned = incomes(FINES, FINES.everybody, given)
        fines = [[(o, rng.randrange(9)) for o in range(4) if o != seat] for seat in range(4)]
        pays = [
            income - taken.spent - taken.lost
            for income, taken in zip(earned, fined(earned, fines), strict=True)
        ]
        assert min(pays) >= 0
        quiet = fined(earned, [[], *fines[1:]])[0]
        units = fined(earned, fines)[0].spent
        assert pays[0] == earned[0] - quiet.lost - units


def test_pairings_are_what_drawing_gives():
    everybody = frozenset(range(4))
    cases = [
        [everybody] * 4,
        [frozenset({1}), frozenset({0, 2}), frozenset({1, 3}), frozenset({2})],
        [frozenset(), everybody, everybody, frozenset({0, 1})],
        [frozenset({1}), frozenset({2}), frozenset({0}), frozenset()],
    ]
    for case in cases:
        wishes = tuple(wish - {seat} for seat, wish in enumerate(case))
        known = pairings(wishes)
        assert sum(known.values()) == pytest.approx(1)
        rng = random.Random(1)
        counted = Counter(drawn(wishes, rng) for _ in range(4000))
        assert set(counted) == set(known)
        for groups, chance in known.items():
            assert counted[groups] / 4000 == pytest.approx(chance, abs=0.03)
    assert pairings((everybody - {0}, everybody - {1}, everybody - {2}, everybody - {3})) == {
        groups: pytest.approx(1 / 3) for groups in (((0, 1), (2, 3)), TWO, ((0, 3), (1, 2)))
    }


def test_nobody_is_paired_who_did_not_name_the_other():
    rng = random.Random(2)
    for _ in range(300):
        wishes = tuple(
            frozenset(o for o in range(6) if o != seat and rng.random() < 0.5) for seat in range(6)
        )
        groups = drawn(wishes, rng)
        assert sorted(seat for group in groups for seat in group) == [*range(6)]
        pairs = [group for group in groups if len(group) == 2]
        assert all(b in wishes[a] and a in wishes[b] for a, b in pairs)
        left = [group[0] for group in groups if len(group) == 1]
        assert not any(b in wishes[a] and a in wishes[b] for a, b in combinations(left, 2))


# -- figures by hand ------------------------------------------------------------------------------
def test_the_figures_of_the_usual_game():
    assert optimum(USUAL) == pytest.approx(160)
    assert equilibrium(USUAL) == pytest.approx(100)
    assert at_random(USUAL) == pytest.approx(130)
    assert alone(USUAL) == pytest.approx(115)
    assert most(USUAL) == pytest.approx(220)
    assert optimum(Rules(4, 3, 10, Fraction(8, 5), end=0.5)) == pytest.approx(16 * 1.75)


def test_giving_nothing_and_punishing_nobody_is_dominant():
    rules = Rules(3, 1, 3, Fraction(5, 2), punish=True)
    for others in product(range(4), repeat=2):
        pays = [incomes(rules, rules.everybody, [own, *others])[0] for own in range(4)]
        assert all(a > b for a, b in zip(pays, pays[1:], strict=False))
        for own in range(4):
            earned = incomes(rules, rules.everybody, [own, *others])
            for theirs in product(range(3), repeat=2):
                fines = [[(0, theirs[0])], [(0, theirs[1])]]
                kept = [
                    -taken.spent - taken.lost
                    for units in range(budget(earned[0]) + 1)
                    for taken in fined(earned, [[(1, units)], *fines])[:1]
                ]
                assert all(a > b for a, b in zip(kept, kept[1:], strict=False))


def test_from_which_chance_of_an_end_on_grim_seats_give():
    for rules, end in ((USUAL, Fraction(1, 2)), (PAIRS, Fraction(3, 4))):
        assert lasting_end(rules) == end
    assert lasting_end(Rules(8, 1, 10, Fraction(17, 10))) == Fraction(7, 10) / (
        Fraction(7, 10) + 1 - Fraction(17, 80)
    )
    # Likewise by dynamic programming, where the last round is far away.
    for seats, factor in ((4, "1.6"), (3, "2.2"), (2, "1.3")):
        limit = float(lasting_end(Rules(seats, 1, 10, Fraction(factor))))
        for end, gives in ((limit - 0.01, 10), (limit + 0.01, 0)):
            rules = Rules(seats, 200, 10, Fraction(factor), end=end)
            assert best_response(rules, [Script(GRIM)] * (seats - 1)).amounts[0] == gives


def test_how_much_punishment_makes_giving_pay():
    assert [deterring(FINES, punishers) for punishers in (1, 2, 3)] == [3, 2, 1]
    assert needed(FINES) == 3
    for punishers in (1, 2, 3):
        units = deterring(FINES, punishers)
        rest = [Script(SHARER)] * (3 - punishers)
        for fines, best in (
            (units, 160),
            (units - 1, 160 + 10 * (6 - 3 * punishers * (units - 1))),
        ):
            others = [*[Script(PUNISHER, fines)] * punishers, *rest]
            response = best_response(FINES, others)
            assert response.pay == pytest.approx(max(best, 160))
        others = [*[Script(PUNISHER, units)] * punishers, *rest]
        assert best_response(FINES, others).amounts == (10,) * 10
        assert meeting(FINES, [Script(GRABBER), *others])[0] < 160
    with pytest.raises(ValueError, match="punishers"):
        deterring(Rules(2, 1, 1, Fraction("1.1"), punish=True))


@pytest.mark.parametrize(("seats", "choose"), [(2, False), (4, False), (8, False), (8, True)])
def test_one_punisher_deters_where_it_can_pay_for_it(seats: int, choose: bool):
    together = 2 if choose else seats
    poor = []
    for tenths, endowment in product(range(1, 10), (*range(6, 31), *range(40, 61, 2))):
        factor = 1 + Fraction((together - 1) * tenths, 10)
        rules = Rules(seats, 1, endowment, factor, choose=choose, punish=True)
        try:
            assert deterring(rules) == needed(rules)
        except ValueError:
            poor.append((endowment, tenths))
            part = factor * (together - 1) / together
            assert needed(rules) > budget(part * endowment)
    assert poor == ([(7, 1)] if together == 2 else [])


# -- scripts --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("script", "together", "best", "amounts"),
    [
        (SHARER, 160, 220, (0,) * 10),
        (GRABBER, 100, 100, (0,) * 10),
        (GRIM, 160, 166, (*(10,) * 9, 0)),
        (FOLLOWER, 160, 167.8, (*(10,) * 8, 1, 0)),
        (PUNISHER, 160, 220, (0,) * 10),
    ],
)
def test_best_responses(script: str, together: float, best: float, amounts: tuple[int, ...]):
    assert meeting(USUAL, [Script(script)] * 4) == pytest.approx([together] * 4)
    response = best_response(USUAL, [Script(script)] * 3)
    assert response.pay == pytest.approx(best)
    assert response.amounts == amounts
    assert best_response(USUAL, [Script(script)] * 3, step=5).pay <= best + 1e-9


def test_what_scripts_do_by_hand():
    follower, grim, punisher = Script(FOLLOWER), Script(GRIM), Script(PUNISHER)
    given, all_of = [10, 4, 0, 3], USUAL.everybody
    mind = follower.heard(USUAL, (), given, all_of)
    assert [follower.gives(USUAL, mind, seat, range(4)) for seat in range(4)] == [2, 4, 5, 4]
    assert grim.heard(USUAL, (), given, all_of) == (0, 1, 1, 1)
    assert grim.gives(USUAL, (0, 1, 1, 1), 0, range(4)) == 0
    assert grim.gives(USUAL, (1, 0, 0, 0), 0, range(4)) == 10
    assert punisher.fines(FINES, given, all_of, 1) == [(2, 3), (3, 3)]
    # Who is alone could give nothing, and is neither remembered nor punished.
    groups: Groups = ((0, 1), (2,), (3,))
    assert grim.heard(PAIRS, (), given, groups) == (0, 1, 0, 0)
    assert grim.wishes(PAIRS, (0, 1, 0, 0), 2) == {0, 3}
    assert follower.heard(PAIRS, (), given, groups) == (10, 4, 10, 10)
    assert punisher.fines(PAIRS, given, groups, 3) == [(1, 1)]


def settled_by_hand(
    rules: Rules, scripts: list[Script], groups: Groups, given: list[int], own: list
) -> Fraction:
    """What seat 0 is paid for a round in which it punishes as `own` says."""
    earned = incomes(rules, groups, given)
    if not rules.punish:
        return earned[0]
    fines = [own, *(s.fines(rules, given, groups, i) for i, s in enumerate(scripts, start=1))]
    taken = fined(earned, fines)[0]
    return earned[0] - taken.spent - taken.lost


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "rules",
    [
        Rules(3, 3, 3, Fraction("1.7")),
        Rules(2, 3, 4, Fraction("1.5"), end=0.25, punish=True),
        Rules(3, 2, 4, Fraction("2.1"), punish=True),
        Rules(4, 3, 2, Fraction("1.4"), end=0.25, choose=True),
        Rules(4, 2, 2, Fraction("1.9"), choose=True, punish=True),
    ],
)
def test_best_responses_are_what_trying_everything_gives(rules: Rules, plan: str):
    """Fines of its own, too, which only cost."""
    scripts = [Script(plan)] * (rules.seats - 1)
    whole = frozenset(range(1, rules.seats))
    wanted = (
        [frozenset(names) for k in range(rules.seats) for names in combinations(sorted(whole), k)]
        if rules.choose
        else [whole]
    )

    def moved(mind: Mind, groups: Groups, left: int) -> float:
        rest = [
            script.gives(rules, mind, seat, group_of(groups, seat))
            for seat, script in enumerate(scripts, start=1)
        ]
        best = -1.0
        for amount in range(rules.endowment + 1):
            given = [amount, *rest]
            units = [[], [(1, 1)], [(1, 2), (rules.seats - 1, 1)]] if rules.punish else [[]]
            pay = max(settled_by_hand(rules, scripts, groups, given, own) for own in units)
            after = scripts[0].heard(rules, mind, given, groups)
            best = max(best, float(pay) + (1 - rules.end) * tried(after, left - 1))
        return best

    @cache
    def tried(mind: Mind, left: int) -> float:
        if not left:
            return 0.0
        worth = []
        for wish in wanted:
            lots = {rules.everybody: 1.0}
            if rules.choose:
                named = [s.wishes(rules, mind, seat) for seat, s in enumerate(scripts, start=1)]
                lots = pairings((wish, *named))
            worth.append(sum(part * moved(mind, groups, left) for groups, part in lots.items()))
        return max(worth)

    assert best_response(rules, scripts).pay == pytest.approx(tried((), rules.rounds))


def test_mixed_others_and_too_many_moves(monkeypatch: pytest.MonkeyPatch):
    others = [Script(GRIM), Script(SHARER), Script(SHARER)]
    assert best_response(USUAL, others).pay == pytest.approx(18 + 4 + 9 * (10 + 8))
    with pytest.raises(ValueError, match="others"):
        best_response(USUAL, others[1:])
    monkeypatch.setattr(goods_responses, "MOST_MOVES", 200)
    with pytest.raises(ValueError, match="amounts"):
        best_response(USUAL, [Script(FOLLOWER)] * 3)
