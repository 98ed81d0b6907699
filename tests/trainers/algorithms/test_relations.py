"""What algorithms declare of each other, each proven: equal numbers, enumerated gradients, games.

An alias gives equal advantages on random groups. Where only the variance is another one, the mean
of the estimate over every possible group is the exact gradient, to 1e-10. Where fixed points are
others, a game worked by hand shows it, or the gradient of the objective that is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.algorithm_table import PAGE, declared, page
from support.enumeration import (
    Game,
    Played,
    algorithm_of,
    choice,
    exact_gradient,
    expected,
    gradient_of,
    groups_of,
    inputs_of,
    matrix,
    may_not_act,
    one_turn,
    two_turns,
    variance,
)

from trainers.algorithms import ALGORITHMS, AdvantageInputs, algorithm_class
from trainers.algorithms.relations import Kind, Relation

Proof = Callable[[], None]
PROOFS: dict[tuple[str, str, str], Proof] = {}
GAMES = (one_turn(), two_turns(), may_not_act())
# Two agents of whom both words of one are paid alike, and each word says what the other is paid.
RIVALS = matrix([[0, 0], [0, 0]], [[1, 1], [0, 0]])
DILEMMA = matrix([[3, 0], [5, 1]], [[3, 5], [0, 1]])
# One word surely pays 1, the other mostly nothing and 1.5 on average.
RARE = choice([(1.0, 1.0)], [(10.0, 0.15), (0.0, 0.85)])


def proves(name: str, kind: Kind, when: str) -> Callable[[Proof], Proof]:
    """Register the proof of what the algorithm `name` declares, by the words of `when`."""

    def register(proof: Proof) -> Proof:
        assert PROOFS.setdefault((name, str(kind), when), proof) is proof
        return proof

    return register


def make(chosen: Any, **args: Any) -> Callable[[], Any]:
    return lambda: algorithm_of(chosen, **args)


def same(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-10))


def towards(game: Game, size: int, chosen: Any, **args: Any) -> float:
    """The expected step of the first agent's first word at its first turn."""
    return float(expected(game, size, make(chosen, **args))[0, 0, 0])


def exact(game: Game) -> float:
    return float(exact_gradient(game)[0, 0, 0])


@st.composite
def random_groups(draw: Any, agents: int = 2, turns: int = 3, whole: bool = False) -> Any:
    """Groups with ties, and agents that take as many turns as they like (`whole`: all)."""
    tasks, episodes = draw(st.integers(1, 2)), draw(st.integers(2, 4))
    shape = (tasks, episodes, agents, turns)
    numbers = st.integers(-4, 4)
    size = int(np.prod(shape))
    returns = np.array(draw(st.lists(numbers, min_size=size, max_size=size))) / 2
    length = st.integers(turns if whole else 0, turns)
    taken = draw(st.lists(length, min_size=size // turns, max_size=size // turns))
    alive = np.arange(turns) < np.array(taken).reshape(*shape[:3], 1)
    returns = np.where(alive, returns.reshape(shape), 0.0)
    names = tuple(f"role{a}_0" for a in range(agents))
    return AdvantageInputs(
        returns=returns,
        rewards=returns,
        alive=alive,
        agents=names,
        policies={a: a for a in names},
        groups=(),
    )


def by_example(groups: Any) -> Callable[[Any], Proof]:
    """Turn a proof of one group into a proof of many random ones."""
    return lambda proof: settings(max_examples=40, deadline=None)(given(groups)(proof))


def judged(inputs: AdvantageInputs, chosen: Any, **args: Any) -> np.ndarray:
    return algorithm_of(chosen, **args).advantages(inputs) * inputs.alive


# -- magrpo ----------------------------------------------------------------------------------------
@proves("magrpo", Kind.ALIAS, "one turn that every agent takes")
@by_example(random_groups(turns=1, whole=True))
def leave_one_out_is_the_papers_advantage(inputs: AdvantageInputs) -> None:
    size = inputs.returns.shape[1]
    advantages = judged(inputs, "magrpo") * (size - 1) / size
    assert same(advantages, inputs.returns - inputs.returns.mean(axis=1, keepdims=True))
    assert same(advantages, judged(inputs, "magrpo", baseline="mean"))


@proves("magrpo", Kind.ALIAS, "one agent, one turn")
@by_example(random_groups(agents=1, turns=1, whole=True))
def the_mean_and_a_scale_are_grpo(inputs: AdvantageInputs) -> None:
    returns = inputs.returns
    deviation = returns.std(axis=1, ddof=1, keepdims=True)
    grpo = (returns - returns.mean(axis=1, keepdims=True)) / (deviation + 1e-4)
    assert same(judged(inputs, "magrpo", baseline="mean", scale_rewards="group"), grpo)


def has_the_exact_gradient(
    chosen: Any, *, sizes: tuple[int, ...] = (2, 3), apart: bool = False, **args: Any
) -> None:
    """At every turn of every agent."""
    for game in GAMES:
        exact = exact_gradient(game)
        for size in sizes:
            assert same(expected(game, size, make(chosen, **args), apart=apart), exact)


def varies_otherwise(chosen: Any, *, apart: bool = False, **args: Any) -> None:
    """Than leave-one-out; two turns tell all of them apart."""
    own = variance(two_turns(), 2, make(chosen, **args), apart=apart)
    assert own != pytest.approx(variance(two_turns(), 2, make("magrpo")), rel=0.01)


@proves(
    "magrpo",
    Kind.VARIANCE,
    "baseline='leave_one_out', any number of turns, agents that do not always act",
)
def leave_one_out_is_unbiased() -> None:
    has_the_exact_gradient("magrpo")


@proves("magrpo", Kind.VARIANCE, "baseline='none' (MAREINFORCE)")
def no_baseline_is_unbiased() -> None:
    has_the_exact_gradient("magrpo", baseline="none")
    varies_otherwise("magrpo", baseline="none")


@proves(
    "magrpo",
    Kind.FIXED_POINTS,
    "baseline='mean', several turns with shared weights, or agents that may not act",
)
def the_papers_mean_weighs_first_turns_less() -> None:
    gradient, right = expected(two_turns(), 2, make("magrpo", baseline="mean")), two_turns()
    assert same(gradient[:, 0], exact_gradient(right)[:, 0] / 2)
    assert same(gradient[:, 1], exact_gradient(right)[:, 1])


@proves("magrpo", Kind.FIXED_POINTS, "baseline='max' (MAREMAX)")
def the_largest_return_is_an_objective_of_its_own() -> None:
    """And it prefers a sure 1 to what pays 3 half of the time: the worse of two is 0.75."""
    for size in (2, 3):
        returns = one_turn().rewards.sum(axis=-1)[groups_of(one_turn(), size)]  # (P, G, A)
        value = returns.mean(axis=1) - returns.max(axis=1) / size
        gradient = expected(one_turn(), size, make("magrpo", baseline="max"))
        for agent in (0, 1):
            assert same(gradient[agent], gradient_of(one_turn(), size, value[:, agent])[agent])
    lottery = choice([(1.0, 1.0)], [(3.0, 0.5), (0.0, 0.5)])
    assert exact(lottery) == pytest.approx(-1 / 8)
    # d/dlogit of half of E[min]: E[min] = p^2 + 2 p q / 2 + q^2 * 3 / 4 at p = q = 1/2.
    assert towards(lottery, 2, "magrpo", baseline="max") == pytest.approx(1 / 32)


@proves("magrpo", Kind.FIXED_POINTS, "scale_rewards='group'")
def a_scale_counts_how_often_not_how_much() -> None:
    """1 surely, or 10 with chance 0.15: at G = 2 only the sign is left, 0.85 against 0.15."""
    assert exact(RARE) == pytest.approx(-0.5 / 4)
    gradient = towards(RARE, 2, "magrpo", scale_rewards="group")
    # A = sqrt(2) * sign; half of the groups are mixed, and the score is 1/2 for both.
    assert gradient == pytest.approx(2**0.5 * (0.85 - 0.15) / 4, rel=1e-3)


@proves("magrpo", Kind.FIXED_POINTS, "credit='own' (independent learning), agents paid differently")
def own_rewards_lead_into_the_dilemma() -> None:
    """To defect pays 2 more where the other cooperates and 1 more where not; the team loses 1."""
    assert towards(DILEMMA, 2, "magrpo") == pytest.approx(-1.5 / 4)
    assert towards(DILEMMA.paid_together(), 2, "magrpo") == pytest.approx(1.0 / 4)


# -- one small file each ---------------------------------------------------------------------------
@proves("rejection", Kind.FIXED_POINTS, "always")
def imitation_prefers_luck() -> None:
    """A sure 5 against 14 or -10, three episodes, both words at 1/2.

    Lucky ones are kept wherever there is one, 45/64 of them on average (none where all are), and
    sure ones where none is lucky, 15/32. The scores are -1/2 and 1/2, and the mean is over three.
    """
    risky = choice([(5.0, 1.0)], [(14.0, 0.5), (-10.0, 0.5)])
    assert exact(risky) == pytest.approx(3 / 4)
    assert towards(risky, 3, "rejection") == pytest.approx((15 / 32 - 45 / 64) / 2 / 3)


@proves("hysteretic", Kind.ALIAS, "weight=1")
@by_example(random_groups())
def all_of_the_bad_news_is_magrpo(inputs: AdvantageInputs) -> None:
    advantages = judged(inputs, {"name": "hysteretic", "weight": 1.0})
    assert np.array_equal(advantages, judged(inputs, "magrpo"))


def follows_its_objective(weights: Sequence[float]) -> None:
    """(1 + w) / 2 E[R] - (w - 1) / 4 E|R - R'|, in every logit of both agents."""
    for weight in weights:
        game = one_turn()
        returns = game.rewards.sum(axis=-1)[groups_of(game, 2)]  # (P, G, A)
        spread = np.abs(returns[:, 0] - returns[:, 1])
        value = (1 + weight) / 2 * returns.mean(axis=1) - (weight - 1) / 4 * spread
        gradient = expected(game, 2, make({"name": "hysteretic", "weight": weight}))
        for agent in (0, 1):
            assert same(gradient[agent], gradient_of(game, 2, value[:, agent])[agent])


EVEN = choice([(0.0, 1.0)], [(1.0, 0.5), (-1.0, 0.5)])
"""Two words with equal means."""


@proves("hysteretic", Kind.FIXED_POINTS, "weight < 1")
def hysteretic_learning_pays_for_spread() -> None:
    follows_its_objective((0.0, 0.2))
    assert exact(EVEN) == pytest.approx(0.0)
    assert towards(EVEN, 2, {"name": "hysteretic", "weight": 0.0}) < -0.05


@proves("hysteretic", Kind.FIXED_POINTS, "weight > 1")
def above_one_spread_costs() -> None:
    follows_its_objective((2.0, 10.0))
    assert towards(EVEN, 2, {"name": "hysteretic", "weight": 2.0}) > 0.05


@proves(
    "dr_mas",
    Kind.ALIAS,
    "one turn that every agent takes; up to the constant beside the deviation",
)
@by_example(random_groups(turns=1, whole=True))
def dr_mas_of_one_turn_is_scaled_magrpo(inputs: AdvantageInputs) -> None:
    advantages = judged(inputs, "magrpo", baseline="mean", scale_rewards="group")
    assert np.allclose(judged(inputs, "dr_mas"), advantages, rtol=1e-3, atol=1e-10)


@proves("dr_mas", Kind.FIXED_POINTS, "always")
def dr_mas_counts_how_often_not_how_much() -> None:
    assert exact(RARE) < 0
    assert towards(RARE, 2, "dr_mas") == pytest.approx(2**-0.5 * (0.85 - 0.15) / 4, rel=1e-3)


@proves("grpo_global", Kind.ALIAS, "one trained agent")
@by_example(random_groups(agents=1))
def one_agent_has_one_group(inputs: AdvantageInputs) -> None:
    assert np.array_equal(judged(inputs, "grpo_global"), judged(inputs, "dr_mas"))


@proves(
    "grpo_global",
    Kind.ALIAS,
    "credit='team' and every agent takes the same number of turns in every episode",
)
@by_example(random_groups(agents=1, whole=True))
def a_team_reward_makes_one_group(of_team: AdvantageInputs) -> None:
    agents = 3
    inputs = AdvantageInputs(
        returns=of_team.returns.repeat(agents, axis=2),
        rewards=of_team.rewards.repeat(agents, axis=2),
        alive=of_team.alive.repeat(agents, axis=2),
        agents=("a_0", "b_0", "c_0"),
        policies={},
        groups=(),
    )
    turns = of_team.returns.shape[1] * of_team.returns.shape[3]
    factor = ((agents * turns - 1) / (agents * (turns - 1))) ** 0.5
    advantages = judged(inputs, "grpo_global")
    assert np.allclose(advantages, factor * judged(inputs, "dr_mas"), rtol=1e-4, atol=1e-10)


@proves("grpo_global", Kind.FIXED_POINTS, "agents that are paid differently")
def a_common_mean_makes_rivals() -> None:
    """The first agent earns 0 whatever it says; what pays the second is unlearned.

    With both words at 1/2 and G = 2: both episodes pay the second (chance 1/4): returns 0, 0, 1, 1
    have mean 1/2 and deviation sqrt(1/3), so the first gets -sqrt(3) / 2. Mixed groups cancel.
    """
    assert same(exact_gradient(RIVALS)[0], 0.0)
    assert same(expected(RIVALS, 2, make("dr_mas"))[0], 0.0)
    assert towards(RIVALS, 2, "grpo_global") == pytest.approx(-(3**0.5) / 2 / 2 / 4, abs=1e-6)


ONE_ROLE = {"role0_0": "both", "role1_0": "both"}


@proves("rae", Kind.VARIANCE, "always: any rate, any start, seats that share a role")
def running_baselines_are_unbiased() -> None:
    has_the_exact_gradient("rae", apart=True)
    has_the_exact_gradient({"name": "rae", "roles": ONE_ROLE, "rate": 0.5}, sizes=(2,), apart=True)

    def warm() -> Any:
        algorithm = algorithm_of({"name": "rae", "rate": 0.3})
        algorithm.load_state_dict({"baselines": {"/role0": 2.0, "/role1": -1.0}})
        return algorithm

    for game in GAMES:
        assert same(expected(game, 2, warm, apart=True), exact_gradient(game))
    varies_otherwise("rae", apart=True)


@proves("marshal", Kind.ALIAS, "one turn, one seat for each role")
@by_example(random_groups(turns=1))
def marshal_of_one_turn_is_magrpo(inputs: AdvantageInputs) -> None:
    for scale in ("none", "group"):
        advantages = judged(inputs, "marshal", scale_rewards=scale)
        assert same(advantages, judged(inputs, "magrpo", scale_rewards=scale))


@proves(
    "marshal",
    Kind.VARIANCE,
    "baseline='leave_one_out', any number of turns, agents that do not always act",
)
def other_episodes_of_the_role_are_unbiased() -> None:
    for own in ({}, {"roles": ONE_ROLE}):
        has_the_exact_gradient({"name": "marshal", **own})
    varies_otherwise("marshal")


@proves(
    "marshal",
    Kind.FIXED_POINTS,
    "baseline='mean' (the paper's), several turns or seats of one role",
)
def a_mean_with_the_own_turns_punishes_the_other_turn() -> None:
    """The mean of two episodes of two turns is (R_0 + R_1 + R_0' + R_1') / 4.

    A first word that pays 1 at the second turn stands in it twice: 1/2 of the gradient, which is
    1/4, is left. A first word that pays at once stands in it once: 3/4. A second word twice: 1/2.
    """

    def game(later: int) -> Game:
        words = [np.array([pair]) for pair in np.ndindex(2, 2)]
        paid = [
            np.array([[0.0, float(w[0, 0] == 0)] if later else (w[0] == 0) * 1.0]) for w in words
        ]
        each = (Played(w, p.reshape(1, 2)) for w, p in zip(words, paid, strict=True))
        return Game(np.zeros((1, 2, 2)), tuple(each))

    for later, exact, left in ((1, (1, 0), (1 / 2, 0)), (0, (1, 1), (3 / 4, 1 / 2))):
        assert exact_gradient(game(later))[0, :, 0] == pytest.approx(np.array(exact) / 4)
        gradient = expected(game(later), 2, make("marshal", baseline="mean"))
        assert gradient[0, :, 0] == pytest.approx(np.array(left) / 4)


# -- critics ---------------------------------------------------------------------------------------
def with_a_critic(name: str, game: Game, **own: Any) -> Callable[[], Any]:
    """An algorithm whose critic has its first weights: of no use, and not the same everywhere."""

    def made() -> Any:
        algorithm = algorithm_of({"name": name, **own})
        algorithm.at_once = len(game.episodes) != len(may_not_act().episodes)
        algorithm.critic.scale.fitted = True
        return algorithm

    return made


def a_critic_is_unbiased(name: str) -> None:
    for game in GAMES:
        gradient = expected(game, 2, with_a_critic(name, game), told=True)
        assert same(gradient, exact_gradient(game))
    with_one = expected(one_turn(), 1, with_a_critic(name, one_turn()), told=True)
    assert same(with_one, exact_gradient(one_turn()))


for _name in ("central_critic", "iac", "action_free_critic"):
    proves(_name, Kind.VARIANCE, "always: whatever the critic has learned")(
        partial(a_critic_is_unbiased, _name)
    )


@proves("action_free_critic", Kind.ALIAS, "agents that act one after the other")
def in_turn_there_are_no_actions_at_the_same_time() -> None:
    game, groups = may_not_act(), groups_of(may_not_act(), 2)
    judged_by = [
        with_a_critic(name, game)().advantages(inputs_of(game, groups, told=True))
        for name in ("central_critic", "action_free_critic")
    ]
    assert np.array_equal(*judged_by)


@proves("marft", Kind.VARIANCE, "trace=1")
def a_chain_to_its_end_is_unbiased() -> None:
    """Of a team: every agent is paid the mean, so its return is what the chain hands on."""
    for game in (one_turn(), two_turns()):
        together = game.paid_together()
        gradient = expected(together, 2, with_a_critic("marft", together, trace=1.0), told=True)
        assert same(gradient, exact_gradient(together))


@proves("marft", Kind.ALIAS, "trace=1, agents that act one after the other")
def in_turn_the_seats_before_are_heard_anyway() -> None:
    game, groups = may_not_act(), groups_of(may_not_act(), 2)
    inputs = inputs_of(game, groups, told=True)
    chain = with_a_critic("marft", game, trace=1.0)()
    assert same(
        chain.advantages(inputs), with_a_critic("central_critic", game)().advantages(inputs)
    )


@proves("marft", Kind.FIXED_POINTS, "trace < 1")
def a_broken_chain_believes_the_critic() -> None:
    """Right speaks last, and after it the chain is at its end; left's reward is what V says."""
    game = one_turn().paid_together()
    gradient = expected(game, 2, with_a_critic("marft", game, trace=0.0), told=True)
    exact = exact_gradient(game)
    assert same(gradient[1], exact[1])
    assert np.abs(gradient[0] - exact[0]).max() > 0.01


@proves("mappo", Kind.ALIAS, "trace=1")
def the_longest_trace_is_the_return() -> None:
    game, groups = two_turns(), groups_of(two_turns(), 2)
    inputs = inputs_of(game, groups, discount=0.5, told=True)
    central = with_a_critic("central_critic", game)().advantages(inputs)
    mappo = with_a_critic("mappo", game, trace=1.0)()
    mappo.args.discount = 0.5
    assert same(mappo.advantages(inputs), central)


@proves("mappo", Kind.FIXED_POINTS, "trace < 1, several turns")
def a_shorter_trace_believes_the_critic() -> None:
    """The last turns have no later reward to be replaced."""
    gradient = expected(two_turns(), 2, with_a_critic("mappo", two_turns(), trace=0.0), told=True)
    exact = exact_gradient(two_turns())
    assert same(gradient[:, 1], exact[:, 1])
    assert np.abs(gradient[:, 0] - exact[:, 0]).max() > 0.01


# -- all of them -----------------------------------------------------------------------------------
# Those that play branches: tests/trainers/algorithms/test_branching_estimators.py.
FLAT = {name for name in ALGORITHMS.names() if not algorithm_class(name).branching}
DECLARED = {
    (name, str(relation.kind), relation.when): relation
    for name, relation in declared()
    if name in FLAT
}


def test_every_algorithm_says_how_it_is_related():
    """And nothing is proven that nobody says."""
    assert set(PROOFS) == set(DECLARED)
    assert {name for name, _, _ in DECLARED} == FLAT


@pytest.mark.parametrize("key", [*DECLARED], ids=lambda key: f"{key[0]}: {key[1]}, {key[2]}")
def test_what_is_declared_holds(key: tuple[str, str, str]):
    PROOFS[key]()


def test_other_fixed_points_are_named():
    with pytest.raises(ValueError, match="expected the objective or the bias"):
        Relation(kind=Kind.FIXED_POINTS, of="x", when="always")


def test_the_page_holds_the_table():
    assert PAGE.read_text() == page(), "python tests/support/algorithm_table.py"


def test_enumeration_sees_a_wrong_agent_a_lost_turn_and_a_factor():
    """What the proofs of the exact gradient rest on."""
    game, exact = two_turns(), exact_gradient(two_turns())

    def spoilt(change: Callable[[np.ndarray], np.ndarray]) -> Any:
        algorithm = algorithm_of("magrpo")
        judge = algorithm.advantages
        algorithm.advantages = lambda inputs: change(judge(inputs))
        return algorithm

    assert sum(episode.chance for episode in game.episodes) == len(game.episodes)
    changes: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda gradient: gradient[:, :, ::-1],
        lambda gradient: gradient * 0.999,
        lambda gradient: gradient * [1.0, 0.0],
    ]
    for change in changes:
        assert not same(expected(game, 2, lambda change=change: spoilt(change)), exact)
    assert inputs_of(game, groups_of(game, 2)).alive.any()
