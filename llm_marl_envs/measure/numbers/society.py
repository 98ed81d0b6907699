"""What an episode tells of a society: survival, efficiency, inequality, over-use and tipping.

An environment whose seats share something reports it in `info`, in the turns that count: `over_use`
(whether the seat took more than its part), `optimum` (what a seat is paid in the social optimum)
and, at the end, `survival`. Other episodes have none of these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from llm_marl_envs.core.records import Episode
from llm_marl_envs.files.json_files import finite

MEASURES = ("survival", "efficiency", "gini", "over_use", "tipping", "tipped")
"""What the metrics are called."""
AT_WORST_0 = ("survival", "efficiency")
"""Those by which an episode that failed counts as the worst there is."""
TIPPED = 0.5
"""Share of seats that over-use from a tipping round on."""


def rounds_of(episode: Episode) -> list[list[bool]]:
    """For each round, who took more than its part; empty where no seat says."""
    flags = [
        [
            bool(turn.info["over_use"])
            for turn in episode.trajectory(agent)
            if "over_use" in turn.info
        ]
        for agent in episode.agents
    ]
    return [[flag for flag in row if flag is not None] for row in zip_longest(*flags)]


def over_use(episode: Episode) -> float | None:
    """Share of actions that take more than their part, in [0, 1]."""
    flags = [flag for row in rounds_of(episode) for flag in row]
    return sum(flags) / len(flags) if flags else None


def tipping(episode: Episode) -> float | None:
    """The first round, from 1, from which to the end a half of the seats or more over-use.

    None where the last round is none of these: then it is censored.
    """
    return tipping_of([sum(row) / len(row) for row in rounds_of(episode)])


def tipping_of(shares: Sequence[float]) -> float | None:
    """`tipping` of the share of each round."""
    first = None
    for number in range(len(shares), 0, -1):
        if shares[number - 1] < TIPPED:
            break
        first = float(number)
    return first


def tipped(episode: Episode) -> float | None:
    """Whether there is a tipping round, 1 or 0."""
    return float(tipping(episode) is not None) if rounds_of(episode) else None


def survival(episode: Episode) -> float | None:
    """The share of the rounds that what is shared lasted, in [0, 1]."""
    shares = _numbers(episode, "survival")
    return shares[-1] if shares else None


def efficiency(episode: Episode) -> float | None:
    """What the society paid its seats, as a share of the social optimum."""
    optima = _numbers(episode, "optimum")
    return episode.team_task_return / optima[-1] if optima and optima[-1] > 0 else None


def inequality(episode: Episode) -> float | None:
    """The Gini coefficient of what seats were paid."""
    if not rounds_of(episode):
        return None
    return gini([episode.task_return(agent) for agent in episode.agents])


def gini(pay: Sequence[float]) -> float | None:
    """Mean difference of two draws over twice the mean: 0 all alike, 1 - 1/n one has everything.

    None where somebody has less than 0, by more than rounding, or all have nothing.
    """
    total = math.fsum(pay)
    if min(pay, default=-1.0) < -1e-9 or total <= 0:
        return None
    apart = math.fsum(abs(one - other) for one in pay for other in pay)
    return apart / (2 * len(pay) * total)


def _numbers(episode: Episode, name: str) -> list[float]:
    """What turns tell under a name, in order; what is no number is left out."""
    values = [turn.info[name] for turn in episode.turns if name in turn.info]
    return [float(value) for value in values if finite(value)]
