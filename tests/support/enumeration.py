"""Games so small that every group of episodes can be judged: expectations are sums, not samples.

Agents have softmax tables (agent, turn, word). A game lists its episodes. Axes: E episodes of the
game, P groups (every tuple of G episodes), A agents, K turns, W words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from support.episodes import episode, group_of

from llm_marl_envs.core.records import Episode, Response, Turn
from llm_marl_envs.core.spaces import Message
from trainers.algorithms import AdvantageInputs, make_algorithm
from trainers.batch.returns import discounted_returns

NOBODY = -1
"""The word of an agent that does not take a turn."""


@dataclass(frozen=True)
class Played:
    """One possible episode.

    Attributes:
        words: what was said, (A, K), `NOBODY` where an agent did not act.
        rewards: what each turn paid, (A, K).
        chance: of what the environment threw.
    """

    words: np.ndarray
    rewards: np.ndarray
    chance: float = 1.0


@dataclass(frozen=True)
class Game:
    """Agents, their tables, and all episodes.

    Attributes:
        logits: (A, K, W).
        episodes: all there are, in order.
    """

    logits: np.ndarray
    episodes: tuple[Played, ...]

    @property
    def words(self) -> np.ndarray:
        """(E, A, K)."""
        return np.stack([one.words for one in self.episodes])

    @property
    def rewards(self) -> np.ndarray:
        """(E, A, K)."""
        return np.stack([one.rewards for one in self.episodes])

    def paid_together(self) -> Game:
        """The same game with credit='team': every agent is paid the mean of the turn."""
        together = [
            Played(
                one.words,
                np.where(one.words == NOBODY, 0.0, one.rewards.mean(axis=0, keepdims=True)),
                one.chance,
            )
            for one in self.episodes
        ]
        return Game(self.logits, tuple(together))

    def likelihoods(self, logits: torch.Tensor) -> torch.Tensor:
        """(E,), of the episodes under some logits, differentiable."""
        words = torch.tensor(self.words)
        chosen = logits.log_softmax(-1).expand(len(words), *logits.shape)
        chosen = chosen.gather(-1, words.clamp(min=0)[..., None])[..., 0]
        said = torch.where(words == NOBODY, 0.0, chosen).sum(dim=(1, 2))
        return said.exp() * torch.tensor([one.chance for one in self.episodes])


def groups_of(game: Game, size: int) -> np.ndarray:
    """(P, G): which episodes each group holds."""
    return np.array(list(itertools.product(range(len(game.episodes)), repeat=size)))


def gradient_of(game: Game, size: int, value: np.ndarray) -> np.ndarray:
    """d E[value of a group] / d logits, (A, K, W); `value` is (P,)."""
    logits = torch.tensor(game.logits, requires_grad=True)
    chances = game.likelihoods(logits)[torch.tensor(groups_of(game, size))].prod(dim=1)
    (chances * torch.tensor(value)).sum().backward()
    assert logits.grad is not None
    return logits.grad.numpy()


def exact_gradient(game: Game) -> np.ndarray:
    """d (expected return of each agent) / d its own logits, (A, K, W)."""
    returns = game.rewards.sum(axis=-1)  # (E, A)
    each = [gradient_of(game, 1, returns[:, agent])[agent] for agent in range(len(game.logits))]
    return np.stack(each)


def episode_of(played: Played) -> Episode:
    """The record of an episode in which agents are told what everybody said the turn before."""
    agents = tuple(f"role{a}_0" for a in range(len(played.words)))
    turns = []
    for turn in range(played.words.shape[1]):
        for agent, word in enumerate(played.words[:, turn]):
            if word == NOBODY:
                continue
            told = f"turn {turn}: {played.words[:, turn - 1] if turn else 'begin'}"
            ids = tuple(told.encode())
            said = Response(text=f"word {word}", policy="shared", prompt_ids=ids)
            reward = float(played.rewards[agent, turn])
            messages = (Message("user", told),)
            found = Turn(
                agent=agents[agent], index=turn, messages=messages, response=said, reward=reward
            )
            turns.append(found)
    return episode(agents, turns)


def inputs_of(
    game: Game, groups: np.ndarray, discount: float = 1.0, *, told: bool = False
) -> AdvantageInputs:
    """What an algorithm is given of these groups, (P, G); with records of episodes if `told`."""
    rewards, alive = game.rewards[groups], game.words[groups] != NOBODY
    agents = tuple(f"role{a}_0" for a in range(rewards.shape[2]))
    episodes = [episode_of(one) for one in game.episodes] if told else []
    records = [group_of([episodes[e] for e in group]) for group in (groups if told else ())]
    return AdvantageInputs(
        returns=discounted_returns(rewards, alive, discount),
        rewards=rewards,
        alive=alive,
        agents=agents,
        policies={a: a for a in agents},
        groups=tuple(records),
    )


def algorithm_of(chosen: Any, **args: Any) -> Any:
    """An algorithm, neutral settings of the run unless given."""
    neutral: dict[str, Any] = {
        "scale_rewards": "none",
        "baseline": "leave_one_out",
        "credit": "own",
    }
    neutral |= {"discount": 1.0, "returns": "discounted", "seed": 0}
    return make_algorithm(chosen, SimpleNamespace(**{**neutral, **args}))


def estimates(
    game: Game, size: int, make: Callable[[], Any], *, apart: bool = False, told: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The estimate of each possible group, (P, A, K, W), and how likely the group is, (P,).

    `apart`: each group is judged by an algorithm of its own, where one group changes the next.
    `told`: algorithms get records of the episodes.
    """
    groups = groups_of(game, size)
    chances = game.likelihoods(torch.tensor(game.logits)).numpy()[groups].prod(axis=1)
    parts = groups[:, None] if apart else groups[None]
    judged = [make().advantages(inputs_of(game, part, told=told)) for part in parts]
    weights, words = np.concatenate(judged), game.words[groups]
    table = torch.tensor(game.logits).softmax(-1).numpy()
    scores = np.eye(game.logits.shape[-1])[np.maximum(words, 0)] - table
    weighed = np.where(words == NOBODY, 0.0, weights)[..., None] * scores
    return weighed.mean(axis=1), chances


def expected(
    game: Game, size: int, make: Callable[[], Any], *, apart: bool = False, told: bool = False
) -> np.ndarray:
    """The mean estimate over all groups, (A, K, W)."""
    found, chances = estimates(game, size, make, apart=apart, told=told)
    return np.einsum("p,pakw->akw", chances, found)


def variance(game: Game, size: int, make: Callable[[], Any], *, apart: bool = False) -> float:
    """The estimates' variance, summed over the logits."""
    found, chances = estimates(game, size, make, apart=apart)
    mean = np.einsum("p,pakw->akw", chances, found)
    return float(np.einsum("p,pakw->", chances, (found - mean) ** 2))


# -- games -----------------------------------------------------------------------------------------
PAYS = (
    ([[1.0, 0.0], [0.2, 2.0]], [[0.0, 1.5], [1.0, 0.2]]),
    ([[0.5, 1.0], [0.0, -1.0]], [[1.0, 0.0], [0.3, 2.0]]),
)
"""Rewards (agent, turn, left's word, right's word)."""
LOGITS = np.array([[[0.7, 0.0], [0.4, -0.3]], [[-0.4, 0.3], [0.2, -0.1]]])


def _pay(agent: int, turn: int, pair: Sequence[int]) -> float:
    return PAYS[agent][turn][pair[0]][pair[1]]


def one_turn() -> Game:
    """Two agents, two words, all at once."""
    return matrix(PAYS[0][0], PAYS[1][0], LOGITS[:, :1])


def two_turns() -> Game:
    """Two agents, two words; the second turn follows unless both said the first word."""

    def played() -> Iterator[Played]:
        for first in np.ndindex(2, 2):
            opening = [_pay(a, 0, first) for a in (0, 1)]
            for second in np.ndindex(2, 2) if first != (0, 0) else [(NOBODY, NOBODY)]:
                later = [0.0 if NOBODY in second else _pay(a, 1, second) for a in (0, 1)]
                yield Played(np.array([first, second]).T, np.array([opening, later]).T)

    return Game(LOGITS, tuple(played()))


def may_not_act() -> Game:
    """Right answers only if left said its first word."""

    def played() -> Iterator[Played]:
        for left in range(2):
            for right in range(2) if left == 0 else (NOBODY,):
                pays = [_pay(0, 0, (left, max(right, 0))), _pay(1, 0, (left, right))]
                paid = [[pays[0]], [0.0 if right == NOBODY else pays[1]]]
                yield Played(np.array([[left], [right]]), np.array(paid))

    return Game(LOGITS[:, :1], tuple(played()))


def choice(*outcomes: Sequence[tuple[float, float]], logits: Sequence[float] = ()) -> Game:
    """One agent, one turn; word w pays one of `outcomes[w]`, pairs (reward, chance)."""
    table = np.array(logits or [0.0] * len(outcomes))[None, None]
    return Game(
        table,
        tuple(
            Played(np.array([[word]]), np.array([[reward]]), chance)
            for word, each in enumerate(outcomes)
            for reward, chance in each
        ),
    )


def matrix(left: Any, right: Any, logits: Any = None, turns: int = 1) -> Game:
    """Two agents who meet so many times; both tables are (left's word, right's word)."""
    left, right = np.array(left, dtype=float), np.array(right, dtype=float)
    shape = (2, turns, max(left.shape))
    found = []
    for words in itertools.product(np.ndindex(*left.shape), repeat=turns):
        paid = [[float(table[pair]) for pair in words] for table in (left, right)]
        found.append(Played(np.array(words).T, np.array(paid)))
    return Game(np.zeros(shape) if logits is None else np.array(logits, dtype=float), tuple(found))
