"""Games in which each seat has a right word that nobody tells: tasks, experts, exact values.

A team's score depends on who said the right word, two ways: `sum`, to which each seat adds its
part, and `pairs`, where a right word counts only beside other right words. Both are polynomials in
the seats' probabilities of being right, so expected scores and their gradients are exact.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.core.actions import read_action
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task, hash_of, split_of_row
from llm_marl_envs.envs.games.experts import GameExperts
from llm_marl_envs.envs.games.instances import TRIES, USUAL, WORDS
from llm_marl_envs.envs.games.landscape import Tables, softmax
from llm_marl_envs.envs.games.scales import FACTORS, Scale, scale_of_row

ARMS = ("sum", "pairs")
RIGHT, WRONG = "right", "wrong_{}"


# -- scores ---------------------------------------------------------------------------------------
def score(arm: str, right: NDArray[Any], weights: Sequence[float]) -> NDArray[np.float64]:
    """The team's score where each seat is right with these probabilities.

    Args:
        arm: "sum": mean over seats of weight times right. "pairs": mean over pairs of seats of the
            product of both.
        right: (..., n), 0 and 1, or independent probabilities.
        weights: n.
    """
    parts = np.asarray(right, float) * np.asarray(weights, float)
    if arm == "sum":
        return parts.mean(-1)
    n = parts.shape[-1]
    return (parts.sum(-1) ** 2 - (parts**2).sum(-1)) / (n * (n - 1))


def slope(arm: str, right: NDArray[Any], weights: Sequence[float]) -> NDArray[np.float64]:
    """(..., n): what the score gains per probability of each seat's being right."""
    of = np.asarray(weights, float)
    parts = np.asarray(right, float) * of
    n = parts.shape[-1]
    if arm == "sum":
        return np.broadcast_to(of / n, parts.shape)
    return 2 * of * (parts.sum(-1, keepdims=True) - parts) / (n * (n - 1))


def contributions(
    arm: str, right: Sequence[float], weights: Sequence[float], choices: int
) -> NDArray[np.float64]:
    """(n,): what the team loses where one seat alone chooses at random, the others as they do.

    What a credit to seats estimates: a lazy seat's is 0 or below.
    """
    chances = np.asarray(right, float)
    return slope(arm, chances, weights) * (chances - 1 / choices)


def exact_gradient(
    arm: str, logits: Tables, weights: Sequence[float], frozen: int = 0
) -> list[NDArray[np.float64]]:
    """Of the team's expected score, in each seat's logits (S, K); action 0 is the right one.

    The last `frozen` seats choose at random and have no table.
    """
    learned = [softmax(table) for table in logits]
    chance = np.full((len(learned[0]), frozen), 1 / learned[0].shape[-1])
    right = np.concatenate([np.stack([table[:, 0] for table in learned], -1), chance], -1)
    steep = slope(arm, right, weights)
    gradients = []
    for seat, own in enumerate(learned):
        towards = -own * own[:, :1]
        towards[:, 0] += own[:, 0]
        gradients.append(steep[:, seat, None] * towards)
    return gradients


# -- tasks ----------------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def right_tasks(
    name: str, split: str, scales: tuple[Scale, ...], shape: tuple[int, int, int]
) -> ListSource:
    """The tasks of a split; task i has scale i modulo their number.

    As many as scales in train. Elsewhere 6 at least, or as many different ones as there are.

    Args:
        name: of the environment.
        split: one of `FACTORS`.
        scales: one number per seat in each.
        shape: turns, seats and choices.

    Raises:
        ValueError: there are not so many different ones as scales.
    """
    turns, seats, choices = shape
    wanted = len(scales) if split == "train" else max(USUAL, len(scales))
    rng = random.Random(hash_of(f"{name}/{split}"))
    factors = FACTORS[split]
    tasks: list[Task] = []
    seen: set[Any] = set()
    for _ in range(TRIES):
        if len(tasks) == wanted:
            break
        i = len(tasks)
        factor = factors[i // len(scales) % len(factors)]
        scale = tuple(number * factor for number in scales[i % len(scales)])
        rights = tuple(tuple(rng.randrange(choices) for _ in range(seats)) for _ in range(turns))
        if (scale, rights) not in seen:
            seen.add((scale, rights))
            tasks.append(Task(f"{split}/{i}", split, {"rights": rights, "scale": scale}))
    if len(tasks) < len(scales):
        raise ValueError(
            f"scales={[*scales]!r:.200}: there are {len(tasks)} different tasks with them in split "
            f"{split!r}, one entry each"
        )
    return ListSource(tasks, split)


def right_task_of_row(row: Mapping[str, Any], shape: tuple[int, int, int]) -> Task:
    """The task of a row: `rights`, for each turn the right word of each seat; perhaps `scale`.

    Raises:
        ValueError: other words, or not one for each turn and seat.
    """
    turns, seats, choices = shape
    legal, lists = WORDS[:choices], row.get("rights")
    try:
        rights = tuple(tuple(legal.index(word) for word in words) for words in lists or ())
        fits = len(rights) == turns and {len(indices) for indices in rights} == {seats}
        scale = scale_of_row(row, seats)
    except (TypeError, ValueError) as error:
        raise ValueError(f"rights={lists!r:.100}: {error}") from error
    if not fits:
        raise ValueError(
            f"rights={lists!r:.100}: expected {turns} lists of {seats} words of {legal}"
        )
    key = f"{rights}/{scale}"
    named = str(row.get("id") or f"row-{hash_of(key):016x}")
    return Task(named, split_of_row(row, key), {"rights": rights, "scale": scale})


def rights_of(task: Task, turn: int) -> tuple[int, ...]:
    """The right action of each seat at a turn; those of the last turn after it."""
    rights = task.data["rights"]
    return rights[min(turn, len(rights) - 1)]


def said_right(task: Task, turn: int, choices: int, texts: Sequence[str]) -> list[bool | None]:
    """For each seat whether its text is its right word; None where it takes no action."""
    legal = WORDS[:choices]
    words = [read_action(text, legal) for text in texts]
    return [
        None if word is None else legal[right] == word
        for word, right in zip(words, rights_of(task, turn), strict=True)
    ]


class RightExperts(GameExperts):
    """Who knows the right word, or says another one, always as many words further.

    `expert:right` is a perfect member, `expert:wrong_1` a lazy one, `expert`, which draws, a noisy
    one.

    Args:
        seats: in order.
        choices: how many words there are.
    """

    def __init__(self, seats: Sequence[str], choices: int) -> None:
        self.seats, self.choices = list(seats), choices
        self.fixed = (RIGHT, *(WRONG.format(n) for n in range(1, choices)))

    def legal(self, task: Task, agent: str) -> Sequence[str]:
        """All words."""
        return WORDS[: self.choices]

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The word of the convention at this turn."""
        if convention not in self.fixed:
            raise ValueError(f"plan {convention!r}: expected one of {self.fixed}")
        turn = sum(message.role == "assistant" for message in messages)
        right = rights_of(task, turn)[self.seats.index(agent)]
        return WORDS[(right + self.fixed.index(convention)) % self.choices]

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """What a first text follows."""
        word = read_action(action, WORDS[: self.choices])
        if word is None:
            return None
        right = rights_of(task, 0)[self.seats.index(agent)]
        return self.fixed[(WORDS.index(word) - right) % self.choices]
