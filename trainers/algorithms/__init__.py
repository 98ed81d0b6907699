"""Algorithms by name. To add one: a file with one class here, and one entry below."""

from __future__ import annotations

from typing import Any

from llm_marl_envs.checks import suggestion
from trainers.algorithms.base import AdvantageInputs, Algorithm
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.rejection import Rejection

ALGORITHMS: dict[str, type[Algorithm]] = {
    "magrpo": MAGRPO,
    "rejection": Rejection,
}

__all__ = ["ALGORITHMS", "AdvantageInputs", "Algorithm", "make_algorithm"]


def make_algorithm(name: str, args: Any) -> Algorithm:
    """The algorithm called `name`, configured by the run's arguments.

    Raises:
        ValueError: no such algorithm; the message lists those there are.
    """
    if name not in ALGORITHMS:
        raise ValueError(f"no algorithm {name!r}{suggestion(name, ALGORITHMS)}")
    return ALGORITHMS[name](args)
