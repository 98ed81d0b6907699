"""Algorithms by name. To add one: a file with one class, and one entry point.

    [project.entry-points."trainers.algorithms"]      # in this pyproject.toml or your package's
    mine = "my_package.mine:Mine"

A class that is not installed is named "my_module:Mine", or given a name by `register_algorithm`.
"""

from __future__ import annotations

from typing import Any

from llm_marl_envs.plugins import Registry
from trainers.algorithms.base import AdvantageInputs, Algorithm

ALGORITHMS = Registry("trainers.algorithms", "algorithm")

__all__ = [
    "ALGORITHMS",
    "AdvantageInputs",
    "Algorithm",
    "algorithm_class",
    "make_algorithm",
    "register_algorithm",
]


def register_algorithm(name: str, algorithm: type[Algorithm]) -> None:
    """Add an algorithm in this process.

    Raises:
        ValueError: the name is taken.
    """
    ALGORITHMS.add(name, algorithm)


def algorithm_class(name: str) -> type[Algorithm]:
    """The class of a name, or of "module:Class".

    Raises:
        ValueError: no such algorithm; near names are named.
        TypeError: the name stands for something else, or its class has no `name`.
        ImportError: it cannot be imported.
    """
    found = ALGORITHMS.get(name)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise TypeError(f"algorithm {name!r}: expected a subclass of Algorithm, got {found!r}")
    if not isinstance(getattr(found, "name", None), str):
        raise TypeError(
            f"algorithm {name!r}: {found.__name__} has no name, which logs and errors need; "
            'give the class one, as in  name = "mine"'
        )
    return found


def make_algorithm(name: str, args: Any) -> Algorithm:
    """The algorithm called `name`, configured by the run's arguments; errors: `algorithm_class`."""
    return algorithm_class(name)(args)
