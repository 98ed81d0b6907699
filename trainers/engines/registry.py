"""Engines by name. To add an engine: a file with one class, and one entry point.

    [project.entry-points."trainers.engines"]      # in this pyproject.toml or your package's
    mine = "my_package.mine:MyEngine"

In a run file, `engine: generate` or a map of the name and settings:

    engine: {name: vllm, urls: ["http://localhost:8000"]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.options import name_and_options
from llm_marl_envs.core.plugins import Registry
from trainers.engines.base import SamplingEngine

ENGINES = Registry("trainers.engines", "engine")

Chosen = str | Mapping[str, Any]


def engine_class(chosen: Chosen) -> tuple[type[SamplingEngine], dict[str, Any]]:
    """The class that a setting names, and its further settings.

    Raises:
        ValueError: no such engine, or a map without a name.
        TypeError: the name stands for something else.
        ImportError: it cannot be imported.
    """
    name, settings = name_and_options("engine", chosen)
    engine = ENGINES.get(name)
    if not (isinstance(engine, type) and issubclass(engine, SamplingEngine)):
        raise TypeError(
            f"engine {name!r:.200}: expected a subclass of SamplingEngine, got {engine!r:.200}"
        )
    return engine, settings


def make_engine(chosen: Chosen, team: Any, args: Any) -> SamplingEngine:
    """The engine of a run.

    Args:
        chosen: a name, or a map of it as "name" and settings.
        team: whose weights sample.
        args: the run's settings.

    Raises:
        ValueError: as `engine_class`; a setting that is unknown or does not fit the team.
    """
    kind, settings = engine_class(chosen)
    return kind.for_run(team, args, settings)
