"""Giving: rules, reputation and what is known of it, beside counting and figures by hand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest

from llm_marl_envs.envs.games.motives import dilemma, pays_of, pure_equilibria
from llm_marl_envs.envs.societies import gift_responses
from llm_marl_envs.envs.societies.gift_numbers import (
    alone,
    at_random,
    equilibrium,
    gain_of_keeping,
    giving_lasts,
    optimum,
)
from llm_marl_envs.envs.societies.gift_responses import Society, best_response, meeting
from llm_marl_envs.envs.societies.gift_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PLANS,
    PUNISHER,
    SCORER,
    SHARER,
    STANDER,
    Script,
)
from llm_marl_envs.envs.societies.gifts import (
    Deed,
    Giving,
    Meetings,
    Rules,
    meetings,
    settled,
    spoilt,
)
from llm_marl_envs.envs.societies.reputation import (
    IMAGE_SCORING,
    STANDING,
    STERN,
    all_norms,
    is_generous,
)

DRAW = 3
SIX = Rules(6, 6)
THRESHOLD = (17 - 33**0.5) / 16
"""Of the chance of an end, with a factor of 2: 8 d^2 + d = 1 for the chance d to go on."""


def society(rules: Rules, *plans: str, depth: int = 1, share: Fraction = Fraction(1)) -> Society:
    """Seats by their plans; one plan for all."""
    names = plans * rules.seats if len(plans) == 1 else plans
    to = meetings(DRAW, rules.seats, rules.rounds)
    return Society(rules, to, [Script(name, share) for name in names], depth)


def one_beside(rules: Rules, own: str, other: str, depth: int = 1) -> float:
    return meeting(society(rules, own, *(other,) * (rules.seats - 1), depth=depth))[0]


def strangers(rounds: int) -> Meetings:
    """Meetings of 2 ** rounds seats in which no gift comes back to its giver."""
    n = 2**rounds
    return tuple(tuple((seat + 2**number) % n for seat in range(n)) for number in range(rounds))


# -- rules ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("seats", range(2, 13))
def test_everybody_gives_to_one_and_gets_from_one(seats: int):
    for draw in range(20):
        rows = meetings(draw, seats, 8)
        assert rows == meetings(draw, seats, 8)
        for to in rows:
            assert sorted(to) == list(range(seats))
            assert all(seat != other for seat, other in enumerate(to))
        for before, to in zip(rows, rows[1:], strict=False):
            met = [{before[seat], before.index(seat)} for seat in range(seats)]
            if seats > 2:
                assert all(before[seat] != to[seat] for seat in range(seats))
            if seats > 3:
                assert all(to[seat] not in met[seat] for seat in range(seats))
    assert len({meetings(draw, seats, 8) for draw in range(20)}) > (10 if seats > 3 else 0)


def test_a_round_by_hand():
    rules, to = Rules(4, 3, punish=True), (1, 2, 3, 0)
    deeds = [Deed(4, 10), Deed(0, 8, spent=3), Deed(5, 5), spoilt(11)]
    # 0 gives 4 to 1; 1 takes 6 from 2, which has nothing left; 2 gives 5 to 3; 3 loses 2 of 11.
    assert settled(rules, [10, 8, 5, 11], deeds, to) == (6, 13, 0, 19)
    deeds[2] = Deed(1, 5)
    assert settled(rules, [10, 8, 5, 11], deeds, to) == (6, 13, 0, 11)
    rich = [Deed(0, 10), Deed(0, 8, spent=3), Deed(0, 50), Deed(0, 11)]
    assert settled(rules, [10, 8, 50, 11], rich, to) == (10, 5, 44, 11)


def test_what_is_shown_goes_on_with_whom_it_was_done_to():
    game = Giving(Rules(3, 3), ((1, 2, 0), (2, 0, 1), (1, 2, 0)), (10, 10, 10))
    assert game.shown(0, 3) == []
    first = (Deed(1, 10), Deed(2, 10), Deed(3, 10))
    game = game.after(first)
    assert game.wealth == (15, 10, 11)
    assert game.shown(0, 3) == [(2, first[2], 0)]
    second = (Deed(4, 15), Deed(5, 10), Deed(6, 11))
    game = game.after(second)
    # 0 gives to 1, which gave to 0, which had given to 1.
    assert game.shown(0, 3) == [(1, second[1], 0), (0, first[0], 1)]
    assert game.shown(0, 1) == [(1, second[1], 0)]


# -- reputation -----------------------------------------------------------------------------------
def test_images_by_hand():
    for norm in (IMAGE_SCORING, STANDING, STERN):
        assert norm.image([])
        assert norm.image([True])
        assert not norm.image([False])
    # It kept from one that kept: no fault by standing.
    norms = (IMAGE_SCORING, STANDING, STERN)
    assert [n.image([False, False]) for n in norms] == [
        False,
        True,
        True,
    ]
    assert [n.image([True, False]) for n in norms] == [True, True, False]
    # It kept from one that kept from one that had kept: a fault again.
    assert [n.image([False] * 3) for n in norms] == [False] * 3
    assert len(set(all_norms())) == 16
    half = Fraction(1, 2)
    assert [is_generous(gave, 5, half) for gave in (2, 3)] == [False, True]
    assert is_generous(0, 0, Fraction(1))


# -- what is known --------------------------------------------------------------------------------
def test_optimum_and_equilibrium_by_hand():
    assert optimum(SIX) == 640 == meeting(society(SIX, SHARER))[0]
    assert equilibrium(SIX) == 10 == meeting(society(SIX, GRABBER))[0]
    assert at_random(SIX) == 10 * 1.5**6
    assert alone(SIX) == pytest.approx((5 * 10 + 20) / 6)
    ends = Rules(6, 3, end=0.25)
    assert optimum(ends) == 10 * (0.25 * 2 + 0.1875 * 4 + 0.5625 * 8)
    assert meeting(society(ends, SHARER)) == pytest.approx([optimum(ends)] * 6)
    twelve = Rules(12, 12)
    assert (optimum(twelve), at_random(twelve)) == (40960, pytest.approx(1297.46, abs=0.01))


def test_no_joint_plan_of_amounts_earns_more_than_giving_all():
    rules = Rules(3, 3, endowment=1)
    to = meetings(DRAW, 3, 3)

    def best(game: Giving) -> int:
        if game.number > rules.rounds:
            return sum(game.wealth)
        gifts = product(*(range(had + 1) for had in game.wealth))
        return max(best(game.after(tuple(map(Deed, gave, game.wealth)))) for gave in gifts)

    assert best(Giving.begin(rules, to)) == 3 * optimum(rules)


def test_random_amounts_earn_what_counting_gives():
    rules = Rules(2, 2, endowment=2)
    to = meetings(DRAW, 2, 2)

    def mean(game: Giving) -> Fraction:
        if game.number > rules.rounds:
            return Fraction(sum(game.wealth), 2)
        joint = list(product(*(range(had + 1) for had in game.wealth)))
        after = [mean(game.after(tuple(map(Deed, gave, game.wealth)))) for gave in joint]
        return sum(after, Fraction()) / len(joint)

    assert mean(Giving.begin(rules, to)) == Fraction(at_random(rules))


def test_the_stage_game_has_greed_and_fear():
    for factor in (2, 3):
        stage = Rules(6, 1, factor=factor)
        best = dilemma(lambda names, at=stage: meeting(society(at, *names)), 6, SHARER, GRABBER)
        assert (best.reward, best.temptation) == (10 * factor, 10 * factor + 10)
        assert (best.sucker, best.punishment) == (0, 10)
        assert (best.greed, best.fear) == (10, 10)


# -- best responses -------------------------------------------------------------------------------
def every_way(group: Society) -> float:
    """The most that seat 0 can have, by trying all amounts in all rounds."""

    def best(state: gift_responses.State) -> float:
        game = state[0]
        if game.number > group.rules.rounds:
            return 0.0
        had, others = game.wealth[0], group.deeds(state)
        own = [Deed(gave, had) for gave in range(had + 1)]
        own += [Deed(0, had, spent) for spent in range(1, had + 1) if group.rules.punish]
        ends = group.rules.ends(game.number)
        paid = []
        for deed in own:
            after = group.after(state, (deed, *others[1:]))
            paid.append(ends * after[0].wealth[0] + (1 - ends) * best(after))
        return max(paid)

    return best(group.begin())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "rules", [Rules(3, 3, 3), Rules(4, 3, 2, end=0.3), Rules(3, 3, 2, punish=True)]
)
def test_a_best_response_is_the_best_of_all_amounts(plan: str, rules: Rules):
    for depth in (1, 2):
        group = society(rules, plan, depth=depth)
        exact = every_way(group)
        assert best_response(group, parts=200).pay == pytest.approx(exact)
        few = best_response(group).pay
        assert few == pytest.approx(exact) if plan != FOLLOWER else few <= exact + 1e-9


@pytest.mark.parametrize("norm", all_norms())
def test_every_rule_of_memory_1_has_a_best_response(norm):
    rules = Rules(4, 3, 2, end=0.3)
    to = meetings(DRAW, 4, 3)
    group = Society(rules, to, [Script("rule", norm=norm)] * 4, 2)
    assert best_response(group).pay == pytest.approx(every_way(group))


def test_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gift_responses, "MOST_STATES", 50)
    with pytest.raises(ValueError, match="parts"):
        best_response(society(SIX, SCORER))


def test_giving_nothing_is_the_best_response_to_those_who_give_nothing():
    for rules in (SIX, Rules(6, 6, end=0.3), Rules(4, 4, punish=True)):
        best = best_response(society(rules, GRABBER))
        assert best.pay == rules.endowment
        assert all(deed.cost == 0 for deed in best.deeds)


@pytest.mark.parametrize("plan", [SHARER, SCORER, STANDER, GRIM, PUNISHER])
def test_in_a_known_last_round_nothing_is_given(plan: str):
    rules = Rules(6, 4, punish=plan == PUNISHER)
    assert best_response(society(rules, plan, depth=2)).deeds[-1].cost == 0


# -- when giving lasts ----------------------------------------------------------------------------
def test_giving_lasts_up_to_a_threshold():
    d = Fraction(1, 4)
    assert [gain_of_keeping(2, rounds, d) for rounds in (1, 2)] == [0, Fraction(1, 4)]
    assert giving_lasts(2, Fraction(THRESHOLD) - Fraction(1, 10**9))
    assert not giving_lasts(2, Fraction(THRESHOLD) + Fraction(1, 10**9))
    for factor, end in ((3, 0.879), (4, 0.9342), (5, 0.9586)):
        assert giving_lasts(factor, Fraction(end))
        assert not giving_lasts(factor, Fraction(end) + Fraction(1, 1000))


@pytest.mark.parametrize(("plan", "depth"), [(SCORER, 1), (STANDER, 1), (STANDER, 2)])
def test_best_responses_agree_with_the_threshold(plan: str, depth: int):
    to = strangers(5)
    for end, gives in ((0.69, True), (0.7, True), (0.71, False), (0.72, False)):
        rules = Rules(len(to[0]), 5, 1000, end=end)
        best = best_response(Society(rules, to, [Script(plan)] * rules.seats, depth), parts=1)
        assert (best.deeds[0].gave == 1000) is gives, end


@pytest.mark.parametrize(
    ("plan", "depth", "refuses"),
    [(SCORER, 1, False), (SCORER, 3, False), (STANDER, 1, False), (STANDER, 2, True)],
)
def test_with_two_deeds_shown_it_pays_to_refuse_who_keeps(plan: str, depth: int, refuses: bool):
    to = strangers(5)
    rules = Rules(len(to[0]), 5, 1000, end=0.3)
    scripts = [Script(plan)] * rules.seats
    scripts[to[2][0]] = Script(GRABBER)  # whom seat 0 meets in round 3
    best = best_response(Society(rules, to, scripts, depth), parts=1)
    assert best.deeds[1].gave == best.deeds[1].had > 0
    assert (best.deeds[2].gave == 0) is refuses
    assert best.deeds[2].had > 0


def kept_once(plan: str, depth: int) -> float:
    """What all have, of the optimum, where seat 0 keeps in the first round, then follows."""
    group = society(SIX, plan, depth=depth)
    state = group.begin()
    for number in range(SIX.rounds):
        deeds: Sequence[Deed] = group.deeds(state)
        if number == 0:
            deeds = [Deed(0, deeds[0].had), *deeds[1:]]
        state = group.after(state, tuple(deeds))
    return sum(state[0].wealth) / SIX.seats / optimum(SIX)


def test_one_fault_costs_least_where_refusing_is_no_fault():
    assert [kept_once(STANDER, depth) for depth in (1, 2, 3)] == pytest.approx(
        [0.5417, 0.8333, 0.8333], abs=1e-4
    )
    assert kept_once(STANDER, 1) == kept_once(SCORER, 3) == kept_once(FOLLOWER, 1)
    assert kept_once(GRIM, 1) == pytest.approx(0.0781, abs=1e-4)


def test_equilibria_among_scripts():
    """Among those who share, grab and score, scoring lasts where the end is by chance alone."""
    names = (SHARER, GRABBER, SCORER)
    for end, lasts in ((0.5, True), (0.8, False)):
        rules = Rules(4, 8, end=end)
        pays = pays_of(lambda plans, at=rules: meeting(society(at, *plans)), names, 4)
        stable = pure_equilibria(pays)
        assert ((names.index(SCORER),) * 4 in stable) is lasts
        assert (names.index(GRABBER),) * 4 in stable
