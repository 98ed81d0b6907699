"""The gradient estimator against exact policy gradients, on games small enough to enumerate.

Two agents each say one of three words and are paid by a table. Policies are softmax tables, so the
exact gradient of the expected return is a finite sum. Thousands of groups go through the real
returns, the real algorithm and the real packing; the estimate is the sum of advantage * grad log pi
over the packed tokens. A mean that contains the sample scales the gradient by (G - 1) / G (Kool et
al. 2019); for later turns the baseline leaves the sample out and there is no factor.

Four ways of getting it wrong must be seen: the missing factor, the other agent's advantage, a mask
shifted by one token, a discount that is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_marl_envs.records import Episode, EpisodeGroup, Response, StopReason, Turn
from trainers.algorithms import AdvantageInputs, make_algorithm
from trainers.packing import Row, pack_rows, reward_array
from trainers.returns import discounted_returns

WORDS = 3
GROUP = 3
GROUPS = 20_000
DISCOUNT = 0.5
AGENTS = ("left_0", "right_0")
EOS, BETWEEN = 90, 91
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
# Logits (agent, turn, word): neither uniform nor sure.
LOGITS = np.array([[[0.3, -0.2, 0.1], [0.0, 0.4, -0.3]], [[-0.4, 0.2, 0.3], [0.2, 0.1, -0.1]]])


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


PI = softmax(LOGITS)
CUMULATED = PI.cumsum(-1)


def goes_on(left: int, right: int) -> bool:
    """Whether a second turn follows a first joint action: not when both said the first word."""
    return not left == right == 0


def exact_gradient(turns: int) -> np.ndarray:
    """d expected return of each agent / d its logits, (agent, turn, word), by enumeration.

    As in the trainer, turn k is weighed by the return from k on, without discount^k.
    """
    gradient = np.zeros_like(LOGITS)
    one_hot = np.eye(WORDS)
    for agent in range(2):
        late = PI[0, 1] @ PAYS[agent, 1] @ PI[1, 1]
        for first in np.ndindex(WORDS, WORDS):
            follows = turns == 2 and goes_on(*first)
            weight = PI[0, 0, first[0]] * PI[1, 0, first[1]]
            value = PAYS[agent, 0][first] + (DISCOUNT * late if follows else 0.0)
            gradient[agent, 0] += weight * value * (one_hot[first[agent]] - PI[agent, 0])
            for second in np.ndindex(WORDS, WORDS) if follows else ():
                later = weight * PI[0, 1, second[0]] * PI[1, 1, second[1]]
                later *= PAYS[agent, 1][second]
                gradient[agent, 1] += later * (one_hot[second[agent]] - PI[agent, 1])
    return gradient


def played(rng: np.random.Generator, turns: int) -> tuple[Turn, ...]:
    """One sampled episode as the rollout records it."""
    found: list[Turn] = []
    said: list[list[int]] = [[], []]
    for k in range(turns):
        words = [int(np.searchsorted(CUMULATED[agent, k], rng.random())) for agent in range(2)]
        for agent, word in enumerate(words):
            prompt = [10 + agent, *said[agent]]
            response = Response(
                text="",
                prompt_ids=tuple(prompt),
                completion_ids=(word, EOS),
                logprobs=(float(np.log(PI[agent, k, word])), 0.0),
                policy=AGENTS[agent],
            )
            said[agent] += [word, EOS, BETWEEN]
            found.append(
                Turn(
                    agent=AGENTS[agent],
                    index=k,
                    messages=(),
                    response=response,
                    reward=float(PAYS[agent, k][tuple(words)]),
                )
            )
        if not goes_on(*words):
            break
    return tuple(found)


def sampled_groups(turns: int) -> list[EpisodeGroup]:
    rng = np.random.default_rng(7)
    return [
        EpisodeGroup(
            task_id="game",
            seed=number,
            episodes=tuple(
                Episode(
                    env_id="game",
                    env_kwargs={},
                    task_id="game",
                    seed=number,
                    agents=AGENTS,
                    turns=played(rng, turns),
                    stop_reason=StopReason.TERMINATED,
                    success=None,
                )
                for _ in range(GROUP)
            ),
        )
        for number in range(GROUPS)
    ]


def scores(row: Row) -> np.ndarray:
    """Advantage-weighted grad log pi of one row, (turn, word); EOS is certain, so it has none."""
    agent = AGENTS.index(row.policy)
    gradient = np.zeros((2, WORDS))
    turn = 0
    for token, own, advantage in zip(row.completion_ids, row.own, row.advantages, strict=True):
        if token == BETWEEN:
            turn += 1
        elif token < WORDS and own:
            gradient[turn] += advantage * (np.eye(WORDS)[token] - PI[agent, turn])
    return gradient


def per_group_estimates(
    groups: list[EpisodeGroup],
    *,
    discount: float = DISCOUNT,
    spoil: Callable[[Row], Row] = lambda row: row,
    swap: bool = False,
) -> np.ndarray:
    """(groups, agent, turn, word): the mean over a group's episodes, as the loss averages."""
    rewards, alive = reward_array(groups, AGENTS)
    inputs = AdvantageInputs(
        returns=discounted_returns(rewards, alive, discount),
        rewards=rewards,
        alive=alive,
        agents=AGENTS,
        policies={a: a for a in AGENTS},
        groups=tuple(groups),
    )
    algorithm = make_algorithm("magrpo", SimpleNamespace(scale_rewards="none"))
    advantages = algorithm.advantages(inputs)
    if swap:
        advantages = advantages[:, :, ::-1]
    rows = pack_rows(groups, AGENTS, advantages, alive)
    found = np.zeros((len(groups), 2, 2, WORDS))
    for i, row in enumerate(rows):
        found[i // (2 * GROUP), AGENTS.index(row.policy)] += scores(spoil(row)) / GROUP
    return found


def largest_z(estimates: np.ndarray, expected: np.ndarray) -> float:
    mean = estimates.mean(axis=0)
    error = estimates.std(axis=0, ddof=1) / len(estimates) ** 0.5
    return float(np.max(np.abs(mean - expected) / np.maximum(error, 1e-9)))


def expected_estimate(turns: int) -> np.ndarray:
    exact = exact_gradient(turns)
    exact[:, 0] *= (GROUP - 1) / GROUP
    return exact


def shift(row: Row) -> Row:
    """The mask one token late: the word's advantage lands on EOS."""
    row.own = [0, *row.own[:-1]]
    return row


TURNS = [1, pytest.param(2, marks=pytest.mark.long)]  # the second takes most of a minute


@pytest.fixture(scope="module", params=TURNS, ids=["one turn", "two turns"])
def game(request: Any) -> tuple[int, list[EpisodeGroup]]:
    return request.param, sampled_groups(request.param)


def test_the_estimator_is_the_exact_gradient_and_mistakes_are_seen(
    game: tuple[int, list[EpisodeGroup]],
):
    turns, groups = game
    if turns == 2:
        lengths = {len(e.turns) for group in groups[:100] for e in group.episodes}
        assert lengths == {2, 4}, "some episodes must end after the first turn"
    expected = expected_estimate(turns)
    right = per_group_estimates(groups)
    assert largest_z(right, expected) < 4
    assert largest_z(right, exact_gradient(turns)) > 6, "missing factor (G - 1) / G"
    assert largest_z(per_group_estimates(groups, swap=True), expected) > 6, "wrong agent"
    assert largest_z(per_group_estimates(groups, spoil=shift), expected) > 6, "mask shifted"
    if turns == 2:
        assert largest_z(per_group_estimates(groups, discount=1.0), expected) > 6, "no discount"
