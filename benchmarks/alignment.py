"""What the shaping term of advantage alignment holds: estimates against true advantages.

    python -m benchmarks.alignment --groups 1500

The iterated prisoner's dilemma of `benchmarks/claims/dilemma.py`, ten turns, groups of 32 episodes.
Of a frozen pair of tables values are exact, so the mean of the term under true advantages is known
up to sampling. Compared with it are the product of returns of one ending, as the released code has
it, and what `advantage_alignment` computes from further endings. Prints Markdown.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.claims.common import algorithm_of, generator, inputs_of, slopes
from benchmarks.claims.dilemma import DISCOUNT, GAME, GROUP, TURNS, family, played
from benchmarks.claims.repeated import states
from llm_marl_envs.envs.games.landscape import softmax
from trainers.algorithms.advantage_alignment import past_advantages
from trainers.batch.returns import discounted_returns

ANSWERS = ([[1, 0], [1.5, 0], [0, 1.5], [1.5, 0], [0, 1.5]],)
ANSWERS += ([[1, 0], [1.5, 0], [1.5, 0], [0, 1.5], [0, 1.5]],)
TEAMS = {
    "random": np.zeros((2, 5, 2)),
    "mostly tit for tat": np.array(ANSWERS, float),
    "mostly defection": np.tile(np.array([-1.0, 1.0]), (2, 5, 1)),
}
"""Name -> logits, (2, states, 2)."""


def values_of(tables: np.ndarray) -> np.ndarray:
    """What each seat may expect from a turn on in a state, exactly, (T + 1, 2, states)."""
    found = np.zeros((TURNS + 1, 2, states(GAME)))
    joint = np.einsum("si,sj->sij", *tables)
    for turn in reversed(range(TURNS)):
        for seat in range(2):
            later = DISCOUNT * found[turn + 1, seat, 1:].reshape(2, 2)
            found[turn, seat] = (joint * (GAME.expected[seat] + later)).sum((1, 2))
    return found


def terms(tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Of one group: the slope of the shaping term at weight 1, (2, states, 2), by each estimate."""
    seen, said, paid = played(tables, GROUP, rng)
    ends = np.tile(np.arange(1, TURNS), GROUP)
    more = played(tables, len(ends), rng, (said.repeat(TURNS - 1, axis=0), ends))[2]
    rewards = np.concatenate([paid, more])[None]
    returns = discounted_returns(rewards, np.ones(rewards.shape, bool), DISCOUNT)
    inputs = replace(inputs_of(returns, rewards), groups=(family(GROUP),))
    on, off = (
        algorithm_of(
            {"name": "advantage_alignment", "weight": weight}, credit="own", discount=DISCOUNT
        ).advantages(inputs)[0, :GROUP]
        for weight in (1.0, 0.0)
    )
    exact = values_of(tables)
    value = np.stack([exact[turn][:, seen[:, turn]].T for turn in range(TURNS)], axis=-1)
    after = np.concatenate([value[..., 1:], np.zeros_like(value[..., :1])], axis=-1)
    true = paid + DISCOUNT * after - value
    one = np.zeros_like(off)
    for turn in range(1, TURNS):
        one[..., turn] = DISCOUNT * (one[..., turn - 1] + off[..., turn - 1])
    advantages = {
        "true advantages": DISCOUNT * past_advantages(paid, value, DISCOUNT) * true[:, ::-1],
        "one ending": DISCOUNT * one * off[:, ::-1],
        "further endings": on - off,
    }
    return {name: slope_of(tables, seen, said, each) for name, each in advantages.items()}


def slope_of(tables: np.ndarray, seen: Any, said: Any, advantages: np.ndarray) -> np.ndarray:
    """(2, states, 2): the ascent direction of both tables' logits."""
    slope = np.zeros_like(tables)
    for seat in range(2):
        along = slopes(tables[seat][seen], said[:, seat]) * advantages[:, seat, :, None]
        np.add.at(slope[seat], seen.ravel(), along.reshape(-1, 2) / GROUP)
    return slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1500, help="sampled of each team")
    groups = parser.parse_args().groups
    print(
        "| team | estimate | cosine | times as long | deviation of a group |\n|---|---|---|---|---|"
    )
    for team, logits in TEAMS.items():
        rng, tables = generator("alignment", 0), softmax(logits)
        found = [terms(tables, rng) for _ in range(groups)]
        true = np.mean([one["true advantages"] for one in found], axis=0)
        for name in found[0]:
            each = np.array([one[name] for one in found])
            mean, size = each.mean(0), float(np.linalg.norm(true))
            cosine = float((mean * true).sum() / np.linalg.norm(mean) / size)
            length, spread = np.linalg.norm(mean) / size, each.var(axis=0).sum() ** 0.5 / size
            print(f"| {team} | {name} | {cosine:.3f} | {length:.2f} | {spread:.2f} |")


if __name__ == "__main__":
    main()
