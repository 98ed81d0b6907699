"""What learners on softmax tables share, whatever small game a society plays.

A game samples many episodes at once; its seats see rows of a table and name words. The algorithms
are those of the trainer. Games: `lake.py` and `circle.py`.

Shapes: n seats, T turns, R rows of a table, W words, N episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.common import Optimizer, inputs_of, slopes
from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup, StopReason
from llm_marl_envs.envs.games.landscape import softmax
from llm_marl_envs.measure.numbers.society import gini
from trainers.batch.returns import discounted_returns

Table = NDArray[np.float64]
EPISODES = 200
"""Sampled for the Gini coefficient."""
Known = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Words (N, n, T) that are given, and the turn (N,) from which on each episode is drawn."""


@dataclass(frozen=True)
class Played:
    """Episodes.

    Attributes:
        seen: (N, n, T) rows.
        said: (N, n, T) words' numbers.
        paid: (N, n, T) rewards as the environment pays them.
        alive: (N, T) whether there was such a turn.
    """

    seen: NDArray[np.int64]
    said: NDArray[np.int64]
    paid: Table
    alive: NDArray[np.bool_]


class Game(Protocol):
    """What a society plays."""

    @property
    def n(self) -> int:
        """Seats."""
        ...

    @property
    def turns(self) -> int:
        """Of the longest episode."""
        ...

    def play(
        self, chances: Table, count: int, rng: np.random.Generator, known: Known | None = None
    ) -> Played:
        """Episodes of a team; chances (seats, R, W)."""
        ...


@cache
def family(group: int, turns: int) -> EpisodeGroup:
    """Who leaves whom: planned episodes, then each one's endings from turn 1, 2 and so on."""
    one = Episode(
        env_id="",
        env_kwargs={},
        task_id="",
        seed=0,
        agents=(),
        turns=(),
        stop_reason=StopReason.TERMINATED,
        success=None,
    )
    endings = [
        replace(one, branch=Branch(parent=parent, agent="", turn=turn))
        for parent in range(group)
        for turn in range(1, turns)
    ]
    return EpisodeGroup(task_id="", seed=0, episodes=(*[one] * group, *endings))


def slope_of(
    game: Game, logits: Table, algorithm: Any, rng: np.random.Generator, temperature: float = 1.0
) -> Table:
    """(tables, R, W): ascent direction from one sampled group; one table: all seats share it.

    What is sampled and scored is the softmax of logits / temperature.
    """
    group, turns = algorithm.args.num_generations, game.turns
    chances = softmax(logits / temperature)
    team = np.broadcast_to(chances, (game.n, *chances.shape[1:]))
    first = game.play(team, group, rng)
    paid, alive = first.paid, first.alive
    if algorithm.branching:
        ends = np.tile(np.arange(1, turns), group)
        before = first.said.repeat(turns - 1, axis=0)
        more = game.play(team, len(ends), rng, (before, ends))
        paid, alive = np.concatenate([paid, more.paid]), np.concatenate([alive, more.alive])
    if algorithm.args.credit == "team":
        paid = np.broadcast_to(paid.mean(1, keepdims=True), paid.shape)
    there = np.broadcast_to(alive[:, None], paid.shape)[None]
    returns = discounted_returns(paid[None], there, algorithm.args.discount)
    inputs = replace(inputs_of(returns, paid[None]), alive=there)
    if algorithm.branching:
        inputs = replace(inputs, groups=(family(group, turns),))
    weighed = (algorithm.advantages(inputs) * there)[0, :group]
    slope = np.zeros_like(logits)
    for seat in range(game.n):
        table = seat % len(logits)
        seen, said = first.seen[:, seat], first.said[:, seat]
        along = slopes(chances[table][seen], said) * weighed[:, seat, :, None]
        np.add.at(slope[table], seen.ravel(), along.reshape(-1, slope.shape[-1]) / group)
    return slope / temperature


def learned(
    game: Game, logits: Table, algorithm: Any, how: Mapping[str, float], rng: np.random.Generator
) -> Table:
    """The logits after `how["updates"]` updates of Adam, with its `rate` and `temperature`."""
    optimizer = Optimizer("adam", how["rate"])
    for _ in range(int(how["updates"])):
        slope = slope_of(game, logits, algorithm, rng, how.get("temperature", 1.0))
        logits = logits + optimizer.step(slope)
    return logits


def gini_of(game: Game, team: Table, rng: np.random.Generator) -> float:
    """The Gini coefficient, mean over sampled episodes in which anybody has anything."""
    of_each = [gini(pay) for pay in game.play(team, EPISODES, rng).paid.sum(2)]
    return round(float(np.mean([one for one in of_each if one is not None])), 4)
