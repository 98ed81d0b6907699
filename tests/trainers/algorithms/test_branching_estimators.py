"""What branching algorithms estimate, on games small enough to enumerate every tree.

Two agents say one of two words, at the same time or in turn. Policies are softmax tables, so the
exact gradient of the expected return is a finite sum. Every possible group, branches and all, goes
through the real algorithm, the real returns and the real packing: the mean of the estimate and its
variance are computed, not sampled.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.episodes import BETWEEN, EOS, Chats, episode, group_of

from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup, StopReason, Turn
from trainers.algorithms import ALGORITHMS, AdvantageInputs, algorithm_class
from trainers.algorithms.advantage_alignment import AdvantageAlignment
from trainers.algorithms.at_grpo import ATGRPO
from trainers.algorithms.base import Form
from trainers.algorithms.c3 import C3, C3Sim
from trainers.algorithms.difference import Difference
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.magrpo_tree import MAGRPOTree
from trainers.algorithms.relations import Kind
from trainers.batch.packing import pack_rows, reward_array
from trainers.batch.returns import discounted_returns

pytestmark = pytest.mark.full  # `make test-all` runs it

AGENTS = ("left_0", "right_0")
BLANK = 2
"""The word that a blank message stands for in the tables of pay."""
LOGITS = np.array(  # (agent, turn, word)
    [[[0.7, 0.0], [0.0, 0.4], [0.5, 0.0]], [[-0.4, 0.2], [0.2, 0.0], [-0.6, 0.0]]]
)
PI = torch.tensor(LOGITS).softmax(-1).numpy()

History = tuple[Mapping[int, int], ...]
"""For each step agent -> its word."""


@dataclass(frozen=True)
class Game:
    """Who acts after a history (nobody: it is over), and what its last step pays each agent."""

    acting: Callable[[History], tuple[int, ...]]
    pay: Callable[[History], tuple[float, float]]


TABLE = np.array(
    [
        [[1.0, -0.5, 0.3], [0.2, 2.0, 0.0], [0.1, 0.6, 0.0]],
        [[0.5, 1.0, -0.2], [-1.0, 0.4, 0.7], [0.4, 0.0, 0.0]],
    ]
)


def pays_pair(history: History) -> tuple[float, float]:
    """By turn; later ones by the first joint action, too: histories matter. Unequal shares."""
    pay = TABLE[len(history) - 1][history[-1][0], history[-1][1]]
    if len(history) == 2:
        pay = pay + 3.0 * (history[0][0] == history[0][1])
    return 1.5 * pay, 0.5 * pay


def pays_last(history: History) -> tuple[float, float]:
    """In turn: right is paid for both; two rounds remember the first message."""
    if len(history) % 2:
        return 0.2 * history[-1][0], 0.0
    pay = TABLE[len(history) // 2 - 1][history[-2][0], history[-1][1]] + 2.0 * history[0][0]
    return pay, pay


def ends_early(history: History) -> tuple[int, ...]:
    """A second turn only unless both said the first word."""
    over = len(history) == 2 or (len(history) == 1 and history[0] == {0: 0, 1: 0})
    return () if over else (0, 1)


ONCE = Game(lambda h: (0, 1) if not h else (), pays_pair)
TWICE = Game(lambda h: (0, 1) if len(h) < 2 else (), pays_pair)
EARLY = Game(ends_early, pays_pair)
IN_TURN = Game(lambda h: ((0,), (1,), ())[min(len(h), 2)], pays_last)
THREE = Game(lambda h: ((0,), (1,), (0,), ())[min(len(h), 3)], pays_last)
MIDDLE = Game(  # left alone, three times; its second word may end it
    lambda h: (0,) if len(h) < 3 and (len(h) < 2 or h[1][0]) else (),
    lambda h: ((1.0 - 3.0 * h[0][0], 2.0 - h[0][0], 6.0 * h[-1][0] - 1.0)[len(h) - 1], 0.0),
)
LATE = Game(
    lambda h: ((0,), (0, 1), ())[min(len(h), 2)],
    lambda h: (0.0, 0.0) if len(h) == 1 else pays_pair(({0: h[0][0], 1: 0}, h[1])),
)


def drawn(seed: int, turns: int) -> Game:
    """Two agents, all at once; every history pays each of them a number of its own."""

    @cache
    def pay(actions: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
        left, right = np.random.default_rng([seed, len(actions), *sum(actions, ())]).normal(size=2)
        return float(left), float(right)

    return Game(
        lambda h: (0, 1) if len(h) < turns else (),
        lambda h: pay(tuple((joint[0], joint[1]) for joint in h)),
    )


THRICE = drawn(4, 3)


def episodes(game: Game, fixed: Sequence[Mapping[int, int]]) -> Iterator[tuple[History, float]]:
    """Every way to play on from what is fixed, the last step perhaps in part, with its chance."""
    stack: list[tuple[History, float]] = [((), 1.0)]
    while stack:
        history, chance = stack.pop()
        acting = game.acting(history)
        if not acting:
            yield history, chance
            continue
        fixed_actions = fixed[len(history)] if len(history) < len(fixed) else {}
        free = [agent for agent in acting if agent not in fixed_actions]
        for words in itertools.product(range(2), repeat=len(free)):
            new = {**fixed_actions, **dict(zip(free, words, strict=True))}
            share = math.prod(PI[a, turn_of(history, a), new[a]] for a in free)
            stack.append(((*history, {a: new[a] for a in acting}), chance * share))


def turn_of(history: History, agent: int) -> int:
    return sum(agent in step for step in history)


def recorded(game: Game, history: History, taken: int, branch: Branch | None) -> Episode:
    """The episode as the rollout records it; `given` steps and what a branch holds are."""
    turns: list[Turn] = []
    chats = Chats(AGENTS)
    for step, joint in enumerate(history):
        paid = game.pay(history[: step + 1])
        for agent, word in joint.items():
            held = branch is not None and step == taken
            mine = branch is not None and AGENTS[agent] == branch.agent
            blank = held and mine and branch is not None and branch.instead is not None
            kept = step < taken or (held and branch is not None and branch.held and not mine)
            index = turn_of(history[:step], agent)
            turns.append(chats.says(AGENTS[agent], index, word, given=kept or blank, step=step))
        for agent in (0, 1):  # an agent's reward belongs to its last action so far
            own = [i for i, turn in enumerate(turns) if turn.agent == AGENTS[agent]]
            if own:
                last = turns[own[-1]]
                turns[own[-1]] = dataclasses.replace(last, reward=last.reward + paid[agent])
    return episode(AGENTS, turns, branch)


def every_group(game: Game, size: int, algorithm: Any) -> Iterator[tuple[EpisodeGroup, float]]:
    """All groups of `size` planned episodes and what the algorithm branches, with their chances."""
    first = [(recorded(game, h, 0, None), h, chance) for h, chance in episodes(game, ())]
    stack = [
        (
            [e for e, _, _ in outcomes],
            [h for _, h, _ in outcomes],
            math.prod(c for *_, c in outcomes),
        )
        for outcomes in itertools.product(first, repeat=size)
    ]
    while stack:
        played, histories, chance = stack.pop()
        group = group_of(played)
        asked = algorithm.branches(group, AGENTS)
        if not asked:
            yield group, chance
            continue
        options = [branched(game, histories[branch.parent], branch) for branch in asked]
        for drawn in itertools.product(*options):
            stack.append(
                (
                    [*played, *(e for e, _, _ in drawn)],
                    [*histories, *(h for _, h, _ in drawn)],
                    chance * math.prod(c for *_, c in drawn),
                )
            )


def one_group(game: Game, size: int, algorithm: Any) -> EpisodeGroup:
    """The group in which everything is the first that it may be."""
    history, _ = next(episodes(game, ()))
    played, histories = [recorded(game, history, 0, None)] * size, [history] * size
    while True:
        group = group_of(played)
        asked = algorithm.branches(group, AGENTS)
        if not asked:
            return group
        new = [branched(game, histories[branch.parent], branch)[0] for branch in asked]
        played, histories = (
            [*played, *(e for e, _, _ in new)],
            [*histories, *(h for _, h, _ in new)],
        )


def branched(game: Game, parent: History, branch: Branch) -> list[tuple[Episode, History, float]]:
    agent = AGENTS.index(branch.agent)
    step = next(
        s
        for s, joint in enumerate(parent)
        if agent in joint and turn_of(parent[:s], agent) == branch.turn
    )
    here = {a: w for a, w in parent[step].items() if a != agent} if branch.held else {}
    if branch.instead is not None:
        here = {**here, agent: BLANK}
    return [
        (recorded(game, history, step, branch), history, chance)
        for history, chance in episodes(game, (*parent[:step], here))
    ]


def exact(game: Game) -> np.ndarray:
    """d expected return from turn k on of each agent / d its logits, (agent, turn, word)."""
    gradient = np.zeros_like(LOGITS)
    for agent, turn in np.ndindex(LOGITS.shape[:2]):
        logits = torch.tensor(LOGITS, requires_grad=True)
        chances = logits.softmax(-1)
        value = logits.sum() * 0.0
        for history, _ in episodes(game, ()):
            chance, worth = logits.sum() * 0.0 + 1.0, 0.0
            for step, joint in enumerate(history):
                for a, word in joint.items():
                    chance = chance * chances[a, turn_of(history[:step], a), word]
                if turn_of(history[: step + 1], agent) > turn:
                    worth += game.pay(history[: step + 1])[agent]
            value = value + chance * worth
        value.backward()
        assert logits.grad is not None
        gradient[agent, turn] = logits.grad[agent, turn].numpy()
    return gradient


def inputs_of(group: EpisodeGroup, discount: float = 1.0) -> AdvantageInputs:
    rewards, alive = reward_array([group], AGENTS)
    return AdvantageInputs(
        returns=discounted_returns(rewards, alive, discount),
        rewards=rewards,
        alive=alive,
        agents=AGENTS,
        policies={a: a for a in AGENTS},
        groups=(group,),
    )


def estimate(algorithm: Any, group: EpisodeGroup, size: int, own_rows: bool = False) -> np.ndarray:
    """(agent, turn, word): one update's gradient, through returns, algorithm and packing."""
    inputs = inputs_of(group, algorithm.args.discount)
    alive = inputs.alive
    weights = np.ones(alive.shape) if own_rows else algorithm.weights(inputs)
    weighed = algorithm.advantages(inputs) * weights
    gradient = np.zeros_like(LOGITS)
    for row in pack_rows([group], AGENTS, weighed, alive & (weights > 0)):
        agent, turn = AGENTS.index(row.policy), 0
        for token, own, advantage in zip(row.completion_ids, row.own, row.advantages, strict=True):
            turn += token == BETWEEN
            if token < EOS and own:
                gradient[agent, turn] += advantage * (np.eye(3)[token][:2] - PI[agent, turn])
    return gradient / size


def of(kind: Any, size: int = 2, **args: Any) -> Any:
    names = ("alternatives", "judged_by", "team", "weight")
    own = {name: args.pop(name) for name in names if name in args}
    settings = {"scale_rewards": "none", "baseline": "leave_one_out", "num_generations": size}
    settings |= {"credit": "own", "discount": 1.0}
    return kind(SimpleNamespace(**{**settings, **args}), kind.Settings(**own))


@cache
def moments(
    kind: Any, game: Game, size: int = 2, args: tuple[tuple[str, Any], ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the estimate, (agent, turn, word) each."""
    algorithm = of(kind, size, **dict(args))
    mean, square, total = np.zeros_like(LOGITS), np.zeros_like(LOGITS), 0.0
    for group, chance in every_group(game, size, algorithm):
        sample = estimate(algorithm, group, size)
        mean, square, total = mean + chance * sample, square + chance * sample**2, total + chance
    assert total == pytest.approx(1.0)
    return mean, square - mean**2


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-10))


TWO = (("alternatives", 2),)
THREE_VERSIONS = (("alternatives", 3),)
BY_RETURN = (("judged_by", "return"),)
CASES: list[tuple[Any, Game, int, Any]] = [
    (MAGRPOTree, ONCE, 3, ()),
    (MAGRPOTree, EARLY, 2, ()),
    (MAGRPOTree, IN_TURN, 2, ()),
    (MAGRPOTree, MIDDLE, 2, ()),
    (C3, IN_TURN, 1, TWO),
    (C3, IN_TURN, 1, THREE_VERSIONS),
    (C3, THREE, 1, TWO),
    (C3, IN_TURN, 2, TWO),
    (C3Sim, ONCE, 1, THREE_VERSIONS),
    (C3Sim, EARLY, 1, TWO),
    (Difference, ONCE, 2, ()),
    (Difference, EARLY, 1, ()),
    (Difference, THREE, 1, ()),
    (ATGRPO, ONCE, 3, ()),
    (ATGRPO, LATE, 2, BY_RETURN),
]


# What the classes declare -> the test that proves it.
PROOFS = {
    (MAGRPOTree, "other variance"): "test_the_expected_estimate_is_the_exact_gradient",
    (MAGRPOTree, "magrpo"): "test_a_tree_of_one_step_is_magrpo",
    (MAGRPOTree, "magrpo_tree with baseline='leave_one_out', times (G - 1) / G"): (
        "test_the_papers_mean_is_one_factor_at_every_depth"
    ),
    (MAGRPOTree, "other rollout or schedule"): "test_the_budget_is_what_full_episodes_take",
    (C3, "other variance"): "test_the_expected_estimate_is_the_exact_gradient",
    (C3, "magrpo_tree with baseline='mean', times J / (J - 1)"): (
        "test_at_its_last_message_c3_is_the_papers_tree_times_a_factor"
    ),
    (C3, "other rollout or schedule"): "test_the_budget_is_what_full_episodes_take",
    (C3Sim, "other variance"): "test_the_expected_estimate_is_the_exact_gradient",
    (C3Sim, "other rollout or schedule"): "test_the_budget_is_what_full_episodes_take",
    (ATGRPO, "magrpo"): "test_one_turn_of_candidates_is_magrpo",
    (ATGRPO, "other fixed points"): "test_the_best_candidate_is_chosen_for_what_it_is_paid_at_once",
    (ATGRPO, "other variance"): "test_the_expected_estimate_is_the_exact_gradient",
    (ATGRPO, "other rollout or schedule"): "test_the_budget_is_what_full_episodes_take",
    (Difference, "other variance"): "test_the_expected_estimate_is_the_exact_gradient",
    (Difference, "other rollout or schedule"): "test_the_budget_is_what_full_episodes_take",
    (AdvantageAlignment, "magrpo with credit='own' (independent learning)"): (
        "test_alignment_without_a_past_is_independent_learning"
    ),
    (AdvantageAlignment, "other fixed points"): (
        "test_alignment_is_the_product_of_true_advantages"
    ),
    (AdvantageAlignment, "other rollout or schedule"): (
        "test_the_budget_is_what_full_episodes_take"
    ),
}


def test_what_is_declared_is_proven_here():
    kinds = {algorithm_class(name) for name in ALGORITHMS.names()}
    declared = {
        (kind, relation.of if relation.kind is Kind.ALIAS else str(relation.kind))
        for kind in kinds
        if kind.branching
        for relation in kind.declares
    }
    assert declared == set(PROOFS)
    assert all(callable(globals()[proof]) for proof in PROOFS.values())


@pytest.mark.parametrize(("kind", "game", "size", "args"), CASES)
def test_the_expected_estimate_is_the_exact_gradient(kind: Any, game: Game, size: int, args: Any):
    assert same(moments(kind, game, size, args)[0], exact(game))


def test_one_row_per_leaf_would_count_first_turns_again():
    """What the weights are for: shared prefixes in every row, or every sample at full weight."""
    algorithm, rows, full = of(MAGRPOTree), np.zeros_like(LOGITS), np.zeros_like(LOGITS)
    for group, chance in every_group(IN_TURN, 2, algorithm):
        unmarked = tuple(
            dataclasses.replace(
                e, turns=tuple(dataclasses.replace(t, given=False) for t in e.turns)
            )
            for e in group.episodes
        )
        leaves = dataclasses.replace(group, episodes=unmarked)
        rows = rows + chance * estimate(of(MAGRPO), leaves, 4)
        full = full + chance * estimate(algorithm, group, 2, own_rows=True)
    assert not np.allclose(rows, exact(IN_TURN), atol=0.01)
    assert np.allclose(full[1], 2 * exact(IN_TURN)[1])  # right's messages, twice as many


@pytest.mark.parametrize(("game", "size"), [(ONCE, 2), (ONCE, 3)])
def test_a_tree_of_one_step_is_magrpo(game: Game, size: int):
    """Alias; bit for bit."""
    for group, _ in every_group(game, size, of(MAGRPO)):
        for baseline in ("leave_one_out", "mean"):
            tree, flat = (of(kind, size, baseline=baseline) for kind in (MAGRPOTree, MAGRPO))
            assert not tree.branches(group, AGENTS)
            assert np.allclose(estimate(tree, group, size), estimate(flat, group, size), atol=1e-15)


@pytest.mark.parametrize("scale", ["none", "group"])
@pytest.mark.parametrize("baseline", ["leave_one_out", "mean"])
def test_one_turn_of_candidates_is_magrpo(baseline: str, scale: str):
    """Alias, with every setting that both read."""
    for group, _ in every_group(ONCE, 3, of(MAGRPO)):
        both = (of(kind, 3, baseline=baseline, scale_rewards=scale) for kind in (ATGRPO, MAGRPO))
        first, other = (estimate(algorithm, group, 3) for algorithm in both)
        assert np.allclose(first, other, atol=1e-12)


# Left alone, twice. Its first word pays 1 at once if it is the first one, else 3 later; its second
# word pays 1 if it is the same word again.
TEMPTED = Game(
    lambda h: (0,) if len(h) < 2 else (),
    lambda h: (
        (float(h[0][0] == 0), 0.0)
        if len(h) == 1
        else (3.0 * h[0][0] + float(h[1][0] == h[0][0]), 0.0)
    ),
)


@pytest.mark.parametrize("judged_by", ["reward", "return"])
def test_the_best_candidate_is_chosen_for_what_it_is_paid_at_once(judged_by: str):
    """By hand, with p = (0.668, 0.332) and q = (0.401, 0.599) the chances of its words.

    What one logit gains is the product of both chances times what its word pays more. At first that
    is 1 at once, and 1 + q0 - (3 + q1) all in all. The first word goes on unless both candidates
    are the second one, so with 1 - p1^2 in the place of p0.
    """
    p, q = PI[0, 0], PI[0, 1]
    mean = moments(ATGRPO, TEMPTED, 2, (("judged_by", judged_by),))[0][0]
    at_first = 1.0 if judged_by == "reward" else 1 + q[0] - (3 + q[1])
    assert mean[0, 0] == pytest.approx(p[0] * p[1] * at_first)
    assert mean[1, 0] == pytest.approx(q[0] * q[1] * ((1 - p[1] ** 2) - p[1] ** 2))
    gradient = exact(TEMPTED)[0]
    assert gradient[0, 0] == pytest.approx(p[0] * p[1] * (q[0] - q[1] - 2))
    assert gradient[1, 0] == pytest.approx(q[0] * q[1] * (p[0] - p[1]))
    assert (mean[0, 0] * gradient[0, 0] < 0) == (judged_by == "reward")


def test_every_candidate_enters_once_and_a_turn_weighs_as_much_as_any_other():
    algorithm = of(ATGRPO, 3)
    group = one_group(TWICE, 3, algorithm)
    inputs = inputs_of(group)
    weights = algorithm.weights(inputs)[0]  # (G, A, K)
    assert weights[:3, :, 0].tolist() == [[1.0, 1.0]] * 3
    assert weights[3:, :, 1].tolist() == [[1.0, 1.0]] * 3
    assert weights.sum() == 12
    assert not algorithm.branches(group, AGENTS)


def test_a_candidate_that_failed_leaves_the_others_its_weight():
    algorithm = of(ATGRPO, 3)
    group = one_group(TWICE, 3, algorithm)
    inputs = inputs_of(group)
    played = [*group.episodes]
    played[4] = dataclasses.replace(played[4], stop_reason=StopReason.FAILED, failure="broke")
    group = dataclasses.replace(group, episodes=tuple(played))
    inputs = dataclasses.replace(inputs, groups=(group,))
    assert algorithm.weights(inputs)[0, 3:, 0, 1].tolist() == [1.5, 0.0, 1.5]
    assert not algorithm.branches(group, AGENTS)
    lost = {"stop_reason": StopReason.FAILED, "failure": "broke"}
    played[3:] = [dataclasses.replace(episode, **lost) for episode in played[3:]]
    group = dataclasses.replace(group, episodes=tuple(played))
    inputs = dataclasses.replace(inputs, groups=(group,))
    assert algorithm.weights(inputs)[0, :, 0, 1].sum() == 0
    assert not algorithm.branches(group, AGENTS)


def test_rewards_that_come_at_the_end_choose_nobody_and_that_is_said_once():
    algorithm = of(ATGRPO)
    group = one_group(LATE, 2, algorithm)
    with pytest.warns(UserWarning, match="in none of an update's 1 choices before the last"):
        advantages = algorithm.advantages(inputs_of(group))
    assert algorithm.counters["undecided"] == 1
    assert not advantages[..., 0].any()
    by_return = of(ATGRPO, judged_by="return")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algorithm.advantages(inputs_of(group))
        by_return.advantages(inputs_of(group))
    assert by_return.counters["undecided"] == 1


def test_own_and_team_rewards_are_mixed_as_in_the_paper():
    """Left earns 2 of the team's 1.5 in the one candidate, and 1 of 3 in the other."""

    def paid(episode: Episode, own: float, team: float) -> Episode:
        turns = tuple(dataclasses.replace(t, reward=own, team_reward=team) for t in episode.turns)
        return dataclasses.replace(episode, turns=turns)

    first = [recorded(ONCE, history, 0, None) for history, _ in episodes(ONCE, ())]
    group = EpisodeGroup(
        task_id="game", seed=0, episodes=(paid(first[0], 2.0, 1.5), paid(first[1], 1.0, 3.0))
    )
    for team, expected in ((0.0, 1.0), (1.0, -0.5)):
        advantages = of(ATGRPO, team=team).advantages(inputs_of(group))
        assert advantages[0, :, 0, 0].tolist() == [expected, -expected]
    with pytest.raises(ValueError, match="credit='team' pays the team's reward already"):
        of(ATGRPO, team=1.0, credit="team")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"judged_by": "returns"}, "judged_by='returns': expected one of"),
        ({"team": -1.0}, "team=-1.0: expected a number, at least 0"),
    ],
)
def test_settings_of_candidates_out_of_range_are_refused(settings: Any, words: str):
    with pytest.raises(ValueError, match=words):
        of(ATGRPO, **settings)


def test_the_papers_mean_is_one_factor_at_every_depth():
    """So it points where the gradient does, which the mean of trajectories does not."""
    mean = moments(MAGRPOTree, IN_TURN, 2, (("baseline", "mean"),))[0]
    assert same(mean, exact(IN_TURN) / 2)


def test_samples_weigh_one_over_the_nodes_of_their_depth():
    group = one_group(THREE, 2, of(MAGRPOTree))
    weights = of(MAGRPOTree).weights(inputs_of(group))[0]  # (G, A, K)
    by_step = [weights[:, 0, 0], weights[:, 1, 0], weights[:, 0, 1]]
    assert [sorted(weights[weights > 0].tolist()) for weights in by_step] == [
        [1.0] * 2,
        [1 / 2] * 4,
        [1 / 4] * 8,
    ]


def test_a_sample_is_worth_the_mean_of_its_samples_and_not_of_its_leaves():
    """Three turns of left, two samples at each; one of two first ones is followed by

        second word: goes on (then 4 in the one episode and 8 in its branch), or ends it with 1.

    So it is worth the mean of (4 + 8) / 2 and 1, not of the three leaves, 13 / 3; the other one is
    worth 0. Of the samples of the turns the first weigh 1 each, the second 1/2, the third 1/4.
    """

    def played(rewards: list[float], taken: int, branch: Branch | None = None) -> Episode:
        chats = Chats(AGENTS)
        turns = [
            dataclasses.replace(
                chats.says("left_0", k, k % 2, given=k < taken, step=k), reward=paid
            )
            for k, paid in enumerate(rewards)
        ]
        return episode(AGENTS, turns, branch)

    def leaves(turn: int) -> Branch:
        return Branch(parent=0, agent="left_0", turn=turn)

    whole, lost = played([0, 0, 4], 0), played([0], 0)
    group = group_of([whole, lost, played([0, 1], 1, leaves(1)), played([0, 0, 8], 2, leaves(2))])
    tree = of(MAGRPOTree)
    advantages, weights = (
        ask(inputs_of(group))[0, :, 0] for ask in (tree.advantages, tree.weights)
    )  # (G, K)
    assert advantages.tolist() == [[3.5, 5, -4], [-3.5, 0, 0], [0, -5, 0], [0, 0, 4]]
    assert weights.tolist() == [[1, 0.5, 0.25], [1, 0, 0], [0, 0.5, 0], [0, 0, 0.25]]


def test_at_its_last_message_c3_is_the_papers_tree_times_a_factor():
    """The same episodes; with siblings alone on a level, J / (J - 1) of the tree's mean."""
    tree, c3 = of(MAGRPOTree, 3, baseline="mean"), of(C3, 3, alternatives=3)
    for group, _ in itertools.islice(every_group(IN_TURN, 3, tree), 0, None, 97):
        rows = [estimate(algorithm, group, 3, own_rows=True)[1] for algorithm in (tree, c3)]
        assert np.allclose(rows[0] * 3 / 2, rows[1], atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "game", "args"),
    [(MAGRPOTree, IN_TURN, ()), (C3, IN_TURN, TWO), (C3Sim, ONCE, TWO), (Difference, ONCE, ())],
)
def test_the_variance_is_not_that_of_magrpo(kind: Any, game: Game, args: Any):
    own, other = moments(kind, game, 2, args)[1].sum(), moments(MAGRPO, game, 2)[1].sum()
    assert same(moments(MAGRPO, game, 2)[0], exact(game))
    assert own < 0.9 * other


def test_a_blank_that_ruins_all_is_no_baseline():
    """Difference rewards have more variance than a group's mean where a blank earns nothing."""
    game = Game(ONCE.acting, lambda h: (0.0, 0.0) if BLANK in h[0].values() else (5.0, 5.0))
    assert moments(Difference, game, 2)[1].sum() > moments(MAGRPO, game, 2)[1].sum() == 0


@pytest.mark.parametrize(
    ("kind", "game", "form"),
    [
        (MAGRPOTree, TWICE, {"turns": 2}),
        (MAGRPOTree, IN_TURN, {"turns": 1, "in_turn": True}),
        (C3, IN_TURN, {"turns": 1, "in_turn": True}),
        (C3Sim, TWICE, {"turns": 2}),
        (Difference, TWICE, {"turns": 2}),
        (AdvantageAlignment, TWICE, {"turns": 2}),
        (AdvantageAlignment, THRICE, {"turns": 3}),
        (ATGRPO, TWICE, {"turns": 2}),
        (ATGRPO, IN_TURN, {"turns": 1, "in_turn": True}),
        (MAGRPO, TWICE, {"turns": 2}),
    ],
)
def test_the_budget_is_what_full_episodes_take(kind: Any, game: Game, form: dict[str, Any]):
    algorithm = of(kind, alternatives=3) if issubclass(kind, C3) else of(kind)
    group = one_group(game, 2, algorithm)
    sampled = [t for e in group.episodes for t in e.turns if not t.given]
    shape = Form(**{"size": 2, "agents": AGENTS, "seats": 2, "in_turn": False, **form})
    budget = algorithm.budget(shape)
    assert budget.episodes == len(group.episodes)
    assert len(sampled) <= budget.actions <= 1.5 * len(sampled)
    assert issubclass(kind, C3 | Difference) or budget.actions == len(sampled)


# -- alignment -------------------------------------------------------------------------------------
def worth(game: Game, before: History, agent: int, discount: float) -> float:
    """The expected discounted return of an agent after a history."""
    return sum(
        chance
        * sum(
            discount ** (step - len(before)) * game.pay(history[: step + 1])[agent]
            for step in range(len(before), len(history))
        )
        for history, chance in episodes(game, before)
    )


def true_advantages(game: Game, history: History, discount: float) -> np.ndarray:
    """What each step of a history adds to what each agent expects, (agent, step)."""
    values = np.zeros((2, len(history)))
    for agent, step in np.ndindex(values.shape):
        after, before = (worth(game, history[:s], agent, discount) for s in (step + 1, step))
        values[agent, step] = game.pay(history[: step + 1])[agent] + discount * after - before
    return values


def papers_term(game: Game, discount: float) -> np.ndarray:
    """E[sum over k < t of gamma^(t - k + 1) * A_i,k * A_j,t * score of turn t], beta left out."""
    gradient = np.zeros_like(LOGITS)
    for history, chance in episodes(game, ()):
        advantages = true_advantages(game, history, discount)
        for agent, turn in np.ndindex(2, len(history)):
            past = sum(discount ** (turn - k + 1) * advantages[agent, k] for k in range(turn))
            score = np.eye(2)[history[turn][agent]] - PI[agent, turn]
            gradient[agent, turn] += chance * past * advantages[1 - agent, turn] * score
    return gradient


def shaping(game: Game, size: int, discount: float, weight: float) -> np.ndarray:
    """What the algorithm adds to the independent learner, (agent, turn, word), of all groups.

    A group of one is compared with a running mean of past returns, which is the true one here.
    """
    gradient, total = np.zeros_like(LOGITS), 0.0
    means = {f"{AGENTS[a]}/0": worth(game, (), a, discount) for a in (0, 1)}
    on = of(AdvantageAlignment, size, weight=weight, discount=discount)
    off = of(AdvantageAlignment, size, weight=0.0, discount=discount)
    for group, chance in every_group(game, size, on):
        for algorithm, sign in ((on, 1), (off, -1)):
            algorithm.load_state_dict({"running": means})
            gradient += sign * chance * estimate(algorithm, group, size)
        total += chance
    assert total == pytest.approx(1.0)
    return gradient


@pytest.mark.parametrize(
    ("game", "size", "discount"),
    [*((drawn(seed, 2), 1, 1.0) for seed in range(4)), (EARLY, 2, 1.0), (THRICE, 1, 0.9)],
)
def test_alignment_is_the_product_of_true_advantages(game: Game, size: int, discount: float):
    """And not that of two returns that hold the same later rewards."""
    term = papers_term(game, discount)
    assert np.linalg.norm(term) > 0.01
    assert same(shaping(game, size, discount, 0.7), 0.7 * term)


def test_alignment_without_a_past_is_independent_learning():
    """One turn, or weight=0, which plays no further endings either."""
    for game, weight in ((ONCE, 2.0), (TWICE, 0.0)):
        aligned = of(AdvantageAlignment, weight=weight)
        for group, _ in itertools.islice(every_group(game, 2, of(MAGRPO)), 0, None, 7):
            assert not aligned.branches(group, AGENTS)
            inputs = inputs_of(group)
            assert np.array_equal(aligned.advantages(inputs), of(MAGRPO).advantages(inputs))


def test_a_failed_branch_leaves_its_siblings_and_their_weight():
    """Of three samples at a node one is lost: the others weigh half instead of a third each."""
    algorithm = of(MAGRPOTree, 3)
    group = one_group(IN_TURN, 3, algorithm)
    lost = next(g for g, e in enumerate(group.episodes) if e.branch)
    broken = dataclasses.replace(
        group.episodes[lost], stop_reason=StopReason.FAILED, failure="broke"
    )
    failed = [*group.episodes]
    failed[lost] = broken
    inputs = inputs_of(group)  # alive as if nothing had failed: the record says who did
    inputs = dataclasses.replace(
        inputs, groups=(dataclasses.replace(group, episodes=tuple(failed)),)
    )
    weights = algorithm.weights(inputs)[0]
    assert weights[:, 0, 0].sum() == pytest.approx(3)  # left: the planned ones
    assert weights[:, 1, 0].sum() == pytest.approx(3)
    parent = broken.branch.parent if broken.branch else -1
    siblings = [
        g
        for g, e in enumerate(group.episodes)
        if g == parent or (e.branch is not None and e.branch.parent == parent)
    ]
    assert [weights[g, 1, 0] for g in siblings] == pytest.approx(
        [0.0 if g == lost else 0.5 for g in siblings]
    )
    assert np.isfinite(algorithm.advantages(inputs)).all()


def test_c3_wants_turns_and_says_what_to_use_instead():
    with pytest.raises(ValueError, match="use 'c3_sim', which holds their messages"):
        of(C3).budget(Form(size=2, agents=AGENTS, seats=2, turns=1, in_turn=False))
    assert of(C3).settings.alternatives == 4
    with pytest.raises(ValueError, match="alternatives=1: expected a whole number, at least 2"):
        of(C3, alternatives=1)
