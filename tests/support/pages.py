"""The module of an environment, whose docstring is its page."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from llm_marl_envs import spec


def module_of(env_id: str) -> ModuleType:
    """Where the registry says that the environment is."""
    entry_point = spec(env_id).entry_point
    assert isinstance(entry_point, str)
    return import_module(entry_point.partition(":")[0])
