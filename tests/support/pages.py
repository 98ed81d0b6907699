"""The page of an environment: what its module opens with, and what was measured below it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from support.paths import ROOT

from llm_marl_envs import spec


def module_of(env_id: str) -> ModuleType:
    """Where the registry says that the environment is."""
    entry_point = spec(env_id).entry_point
    assert isinstance(entry_point, str)
    return import_module(entry_point.partition(":")[0])


def measured(name: str) -> str:
    """What docs/environments says of the environment below its module's docstring."""
    return (ROOT / "docs" / "environments" / f"{name}.md").read_text(encoding="utf-8")
