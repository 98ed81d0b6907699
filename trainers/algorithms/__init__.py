"""Algorithms by name. To add one: a file with one class, and one entry point.

    [project.entry-points."trainers.algorithms"]      # in this pyproject.toml or your package's
    mine = "my_package.mine:Mine"

A class that is not installed is named "my_module:Mine", or given a name by `register_algorithm`.

In a run file, `algorithm: magrpo` or a map of the name and the algorithm's own settings:

    algorithm: {name: hysteretic, weight: 0.2}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.checks import refuse_unknown
from llm_marl_envs.core.options import name_and_options
from llm_marl_envs.core.plugins import Registry
from trainers.algorithms.base import AdvantageInputs, Algorithm

ALGORITHMS = Registry("trainers.algorithms", "algorithm")

Chosen = str | Mapping[str, Any]

__all__ = [
    "ALGORITHMS",
    "AdvantageInputs",
    "Algorithm",
    "algorithm_class",
    "algorithm_name",
    "chosen_algorithm",
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
    algorithm = ALGORITHMS.get(name)
    if not (isinstance(algorithm, type) and issubclass(algorithm, Algorithm)):
        raise TypeError(
            f"algorithm {name!r:.200}: expected a subclass of Algorithm, got {algorithm!r:.200}"
        )
    if not isinstance(getattr(algorithm, "name", None), str):
        raise TypeError(
            f"algorithm {name!r:.200}: {algorithm.__name__} has no name, which logs and errors "
            "need; "
            'give the class one, as in  name = "mine"'
        )
    return algorithm


def algorithm_name(chosen: Chosen) -> str:
    """The name in a setting.

    Raises:
        ValueError: a map without one.
    """
    return name_and_options("algorithm", chosen)[0]


def settings_for(chosen: Chosen) -> Any:
    """The algorithm's own settings, an instance of its class's `Settings`; see `algorithm_class`.

    Raises:
        ValueError: an unknown setting, or one out of range.
        TypeError: a setting of the wrong type.
    """
    name, options = name_and_options("algorithm", chosen)
    kind = algorithm_class(name).Settings
    refuse_unknown(f"algorithm, name={name!r}", options, kind.model_fields)
    return kind(**options)


def chosen_algorithm(chosen: Chosen) -> str | dict[str, Any]:
    """The same choice with nothing left out: a name, or a map of it and all of its settings.

    Raises:
        ValueError: as `settings_for`.
    """
    name, settings = algorithm_name(chosen), settings_for(chosen).model_dump()
    return {"name": name, **settings} if settings else name


def make_algorithm(chosen: Chosen, args: Any) -> Algorithm:
    """The algorithm of a run, configured by the run's arguments.

    Args:
        chosen: a name, or a map of it as "name" and settings.
        args: the run's settings.

    Raises:
        ValueError: as `settings_for`; a value in `args` that would be ignored.
    """
    kind, settings = algorithm_class(algorithm_name(chosen)), settings_for(chosen)
    # A class without settings of its own may have a constructor of one argument.
    return kind(args, settings) if type(settings).model_fields else kind(args)
