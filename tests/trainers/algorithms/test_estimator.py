"""The gradient estimator against exact policy gradients, on games small enough to enumerate.

Two agents say one of a few words and are paid by tables. Policies are softmax tables, so the exact
gradient of the expected return is a finite sum, which autograd differentiates. And there are so few
episodes that every possible group of them goes through the real returns, the real algorithm and the
real packing: the estimator's expectation is computed, not sampled. The estimate is the sum of
advantage * grad log pi over the packed tokens. With the sample in the mean, first turns are scaled
by (G - 1) / G (Kool et al. 2019) and later turns are not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.episodes import BETWEEN, EOS, Chats, episode, group_of

from llm_marl_envs.core.records import Episode, EpisodeGroup
from trainers.algorithms import AdvantageInputs, make_algorithm
from trainers.batch.packing import Row, pack_rows, reward_array
from trainers.batch.returns import discounted_returns

AGENTS = ("left_0", "right_0")
LEFT, RIGHT = 0, 1
# Reward tables (agent, turn, left's word, right's word). They differ between the agents, so that an
# advantage given to the wrong one shows.
PAYS = np.array(
    [
        [
            [[1.0, 0.0, -0.5], [0.2, 2.0, 0.0], [0.0, 0.3, 0.7]],
            [[0.0, 1.5, 0.0], [1.0, 0.0, 0.2], [0.3, 0.0, 2.5]],
        ],
        [
            [[0.5, 1.0, 0.0], [0.0, 1.0, 0.6], [-1.0, 0.0, 0.4]],
            [[1.0, 0.0, 0.7], [0.0, 2.0, 0.0], [0.5, 0.3, 0.0]],
        ],
    ]
)
# Logits (agent, turn, word): neither uniform nor sure; left says its first word half of the time.
LOGITS = np.array(
    [[[math.log(2), 0.0, 0.0], [0.0, 0.4, -0.3]], [[-0.4, 0.2, 0.3], [0.2, 0.1, -0.1]]]
)
PI = torch.tensor(LOGITS).softmax(-1).numpy()


@dataclass(frozen=True)
class Move:
    """An agent's k-th word and what that turn pays it."""

    agent: int
    turn: int
    word: int
    reward: float


# Each game: the possible episodes as tuples of moves.
def one_turn() -> Iterator[tuple[Move, ...]]:
    for pair in np.ndindex(3, 3):
        yield tuple(Move(a, 0, pair[a], PAYS[a, 0][pair]) for a in (LEFT, RIGHT))


def two_turns() -> Iterator[tuple[Move, ...]]:
    """The second turn follows unless both said the first word."""
    for first, opening in zip(np.ndindex(3, 3), one_turn(), strict=True):
        for pair in np.ndindex(3, 3) if first != (0, 0) else ():
            yield (*opening, *(Move(a, 1, pair[a], PAYS[a, 1][pair]) for a in (LEFT, RIGHT)))
        if first == (0, 0):
            yield opening


def may_not_act() -> Iterator[tuple[Move, ...]]:
    """Right answers only if left said the first word, which is half of the time."""
    for left in range(3):
        for right in range(3) if left == 0 else ():
            yield tuple(Move(a, 0, (left, right)[a], PAYS[a, 0][left, right]) for a in (0, 1))
        if left != 0:
            yield (Move(LEFT, 0, left, PAYS[LEFT, 0][left, 0]),)


Game = Callable[[], Iterator[tuple[Move, ...]]]


def exact_gradient(game: Game, discount: float = 1.0) -> np.ndarray:
    """d expected return of each agent / d its logits, (agent, turn, word), by enumeration.

    As in the trainer, turn k is weighed by the return from k on, without discount^k.
    """
    gradient = np.zeros_like(LOGITS)
    for agent, turn in np.ndindex(2, 2):
        logits = torch.tensor(LOGITS, requires_grad=True)
        chances = logits.softmax(-1)
        value = logits.sum() * 0.0
        for moves in game():
            chance = torch.stack([chances[m.agent, m.turn, m.word] for m in moves]).prod()
            later = [m for m in moves if m.agent == agent and m.turn >= turn]
            value = value + chance * sum(m.reward * discount ** (m.turn - turn) for m in later)
        value.backward()
        assert logits.grad is not None
        gradient[agent, turn] = logits.grad[agent, turn].numpy()
    return gradient


def played(moves: tuple[Move, ...]) -> Episode:
    """The episode as the rollout records it."""
    chats = Chats(AGENTS)
    return episode(
        AGENTS,
        [
            chats.says(
                AGENTS[m.agent],
                m.turn,
                m.word,
                logprob=float(np.log(PI[m.agent, m.turn, m.word])),
                reward=m.reward,
            )
            for m in moves
        ],
    )


def every_group(game: Game, size: int) -> tuple[list[EpisodeGroup], np.ndarray]:
    """All groups of `size` episodes, and how likely each is."""
    plays = [(played(moves), likelihood(moves)) for moves in game()]
    chosen = list(itertools.product(plays, repeat=size))
    groups = [group_of([e for e, _ in group]) for group in chosen]
    return groups, np.array([math.prod(chance for _, chance in group) for group in chosen])


def likelihood(moves: tuple[Move, ...]) -> float:
    return math.prod(float(PI[m.agent, m.turn, m.word]) for m in moves)


def score(row: Row) -> np.ndarray:
    """Advantage-weighted grad log pi of one row, (turn, word); EOS is certain, so it has none."""
    agent = AGENTS.index(row.policy)
    gradient = np.zeros((2, 3))
    turn = 0
    for token, own, advantage in zip(row.completion_ids, row.own, row.advantages, strict=True):
        if token == BETWEEN:
            turn += 1
        elif token < EOS and own:
            gradient[turn] += advantage * (np.eye(3)[token] - PI[agent, turn])
    return gradient


def expected_estimate(
    game: Game,
    size: int,
    *,
    baseline: str = "leave_one_out",
    discount: float = 1.0,
    spoil: Callable[[Row], Row] = lambda row: row,
    swap: bool = False,
) -> np.ndarray:
    """(agent, turn, word): the estimator's mean over all groups; each averages its episodes."""
    groups, chances = every_group(game, size)
    rewards, alive = reward_array(groups, AGENTS)
    inputs = AdvantageInputs(
        returns=discounted_returns(rewards, alive, discount),
        rewards=rewards,
        alive=alive,
        agents=AGENTS,
        policies={a: a for a in AGENTS},
        groups=tuple(groups),
    )
    args = SimpleNamespace(scale_rewards="none", baseline=baseline)
    algorithm: Any = make_algorithm("magrpo", args)
    # Any number that was known before will do for those that have nobody to be compared with.
    algorithm.load_state_dict({"running": {f"{a}/{k}": 0.7 for a in AGENTS for k in (0, 1)}})
    advantages = algorithm.advantages(inputs)
    if swap:
        advantages = advantages[:, :, ::-1]
    gradient = np.zeros((2, 2, 3))
    for chance, group, own, keep in zip(chances, groups, advantages, alive, strict=True):
        for row in pack_rows([group], AGENTS, own[None], keep[None]):
            gradient[AGENTS.index(row.policy)] += chance * score(spoil(row)) / size
    return gradient


def shift(row: Row) -> Row:
    """The mask one token late: the word's advantage lands on EOS."""
    row.own = [0, *row.own[:-1]]
    return row


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-12))


GAMES = [(one_turn, 2), (one_turn, 3), (two_turns, 2), (may_not_act, 2), (may_not_act, 4)]


@pytest.mark.parametrize(("game", "size"), GAMES)
def test_the_expected_estimate_is_the_exact_gradient(game: Game, size: int):
    """At every turn of every agent, so their sum too, however turns share weights."""
    assert sum(map(likelihood, game())) == pytest.approx(1.0)
    exact = exact_gradient(game)
    assert same(expected_estimate(game, size), exact)
    assert not same(expected_estimate(game, size, swap=True), exact)
    assert not same(expected_estimate(game, size, spoil=shift), exact)


def test_with_a_discount_turn_k_is_weighed_by_the_return_from_there():
    gradient = expected_estimate(two_turns, 2, discount=0.5)
    assert same(gradient, exact_gradient(two_turns, 0.5))
    assert not same(gradient, exact_gradient(two_turns))


@pytest.mark.parametrize("size", [2, 3])
def test_the_papers_mean_of_one_turn_is_the_gradient_times_a_factor(size: int):
    gradient = expected_estimate(one_turn, size, baseline="mean")
    assert same(gradient, exact_gradient(one_turn) * (size - 1) / size)


def test_the_papers_mean_points_elsewhere_with_two_turns():
    """First turns carry 1 / 2, later ones 1: with weights behind both, no factor mends that."""
    exact = exact_gradient(two_turns)
    gradient = expected_estimate(two_turns, 2, baseline="mean")
    assert same(gradient[:, 0], exact[:, 0] / 2)
    assert same(gradient[:, 1], exact[:, 1])
    of_both, exact_of_both = gradient.sum(axis=1).ravel(), exact.sum(axis=1).ravel()
    cosine = of_both @ exact_of_both / np.linalg.norm(of_both) / np.linalg.norm(exact_of_both)
    assert cosine < 0.99


def test_with_the_papers_mean_the_factor_of_an_agent_depends_on_others():
    """Right is compared with itself half of the time, and then by half."""
    exact = exact_gradient(may_not_act)
    gradient = expected_estimate(may_not_act, 2, baseline="mean")
    assert same(gradient[LEFT], exact[LEFT] / 2)
    assert same(gradient[RIGHT], exact[RIGHT] * 0.75)


# -- a sampler whose distribution is another ------------------------------------------------------
OTHER = LOGITS + np.array([[[0.5, -0.3, 0.1], [0.2, 0.0, -0.4]], [[-0.2, 0.4, 0.0], [0.1, 0.3, 0]]])

CUTS = (None, 10.0)


def disturbed(game: Game, *, both: bool, most: float | None) -> np.ndarray:
    """`expected_estimate` of two episodes that another sampler played; None: not corrected."""
    logits = OTHER if both else np.stack([OTHER[LEFT], LOGITS[RIGHT]])
    sampler = torch.tensor(logits).softmax(-1).numpy()
    ratios = PI / sampler

    def weighed(row: Row) -> Row:
        agent, turn = AGENTS.index(row.policy), 0
        for place, token in enumerate(row.completion_ids):
            turn += token == BETWEEN
            if token < EOS and most is not None:
                row.advantages[place] *= min(ratios[agent, turn, token], most)
        return row

    with pytest.MonkeyPatch.context() as patch:
        chance = lambda moves: math.prod(float(sampler[m.agent, m.turn, m.word]) for m in moves)  # noqa: E731
        patch.setitem(globals(), "likelihood", chance)
        return expected_estimate(game, 2, spoil=weighed)


def test_the_correction_mends_a_sampler_of_one_agent_and_one_turn():
    exact = exact_gradient(one_turn)
    assert not np.allclose(disturbed(one_turn, both=False, most=None)[LEFT], exact[LEFT], atol=0.01)
    assert same(disturbed(one_turn, both=False, most=10.0)[LEFT], exact[LEFT])


def test_the_correction_is_of_tokens_not_of_partners_or_histories():
    """Where the partner is sampled wrongly too, much is left; here more than without correction."""
    exact = exact_gradient(one_turn)
    left = {most: np.abs(disturbed(one_turn, both=True, most=most) - exact).sum() for most in CUTS}
    assert left[None] == pytest.approx(0.126, abs=1e-3)
    assert left[10.0] == pytest.approx(0.156, abs=1e-3)


def test_where_ratios_are_cut_the_baseline_does_not_cancel():
    exact = exact_gradient(one_turn)
    assert not same(disturbed(one_turn, both=False, most=1.1)[LEFT], exact[LEFT])
