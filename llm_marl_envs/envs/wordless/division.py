"""Things divided without a word: who takes what by what it is worth to itself alone.

Values of different players are independent, and pay adds up over things. So whether to take a thing
is worth more the more it is worth to the taker, whatever the others do: the best rule of a player
is a threshold, and the best team a threshold for each player. The exact mean is a sum over who
takes; the best thresholds are found from several starts, one player at a time, until no player
gains by changing its own.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.games.share_texts import choice_text, read_claim
from llm_marl_envs.envs.games.shares import Rules
from llm_marl_envs.envs.wordless.reading import match_in, opening_of

CHOOSE = "Answer with one line: the things that you take, or nothing."


def thresholds(request: Request) -> str:
    """`trust_split`, paid by the sum: each takes what is worth its threshold or more to it."""
    if CHOOSE not in request.messages[-1].content:
        return ""
    opening = opening_of(request)
    players = int(match_in(r"^([0-9]+) players divide", opening)[1])
    things = match_in(r"players divide: (.+?)\. You", opening)[1].split(", ")
    worth = read_claim(match_in(r"To you they are worth: (.+?)\.", opening)[1], things) or ()
    taking = best_thresholds(players, len(things), sum(worth), rules_in(opening))
    least = taking[int(request.agent.rpartition("_")[2])]
    chosen = [thing for thing, value in zip(things, worth, strict=True) if value >= least]
    return choice_text(chosen, things)


def rules_in(opening: str) -> Rules:
    """What becomes of things that nobody takes, or several, as the players are told."""
    kept = []
    for what in ("shared alike", "shared by them"):
        lost = match_in(rf"{what}(?:, ([0-9]+)% of it lost)?\.", opening)[1]
        kept.append(1 - int(lost or 0) / 100)
    return Rules(*kept)


@lru_cache(maxsize=64)
def best_thresholds(players: int, things: int, total: int, rules: Rules) -> tuple[int, ...]:
    """The thresholds of the best team found; one above all values takes nothing.

    Args:
        players: 2 or more.
        things: how many, with values of at least 1, all divisions of `total` as likely.
        total: what they are worth together.
        rules: of things that not exactly one takes.
    """
    highest = total - things + 2
    starts = [(1, *[highest] * (players - 1))]
    starts += [(least,) * players for least in range(1, highest + 1)]
    tried = [_climbed(start, things, total, rules) for start in starts]
    return max(tried, key=lambda thresholds: mean_sum(thresholds, things, total, rules))


def _climbed(start: tuple[int, ...], things: int, total: int, rules: Rules) -> tuple[int, ...]:
    """Thresholds that no player gains by changing alone."""
    best, before = start, None
    while best != before:
        before = best
        for seat in range(len(best)):
            options = [
                (*best[:seat], least, *best[seat + 1 :]) for least in range(1, total - things + 3)
            ]
            better = max(options, key=lambda thresholds: mean_sum(thresholds, things, total, rules))
            if (
                mean_sum(better, things, total, rules)
                > mean_sum(best, things, total, rules) + 1e-12
            ):
                best = better
    return best


@lru_cache(maxsize=65536)
def mean_sum(least: tuple[int, ...], things: int, total: int, rules: Rules) -> float:
    """What all players get together on average, as a share of `total`, exactly.

    Args:
        least: from which worth on each player takes a thing.
        things: as `best_thresholds`.
        total: as there.
        rules: as there.
    """
    values = np.arange(1, total - things + 2)
    chance = np.array([comb(total - value - 1, things - 2) for value in values], float)
    chance /= chance.sum()
    takes = np.array([chance[values >= threshold].sum() for threshold in least])
    taken = np.array([(chance * values)[values >= threshold].sum() for threshold in least])
    left = (chance * values).sum() - taken
    earned = 0.0
    for seat in range(len(least)):
        others = _counts(np.delete(takes, seat))
        earned += taken[seat] * others[0] + left[seat] * others[0] * rules.left / len(least)
        several = others[1:] / np.arange(2, len(others) + 1)
        earned += taken[seat] * rules.contested * several.sum()
    return float(earned * things / total)


def _counts(takes: NDArray[np.float64]) -> NDArray[np.float64]:
    """How likely 0, 1, 2 ... take, each by its own chance."""
    chances = np.ones(1)
    for chance in takes:
        chances = np.convolve(chances, [1 - chance, chance])
    return chances
