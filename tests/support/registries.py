"""What is registered by name, and that tests leave it as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium

from llm_marl_envs.commands import COMMANDS
from llm_marl_envs.core import specs
from llm_marl_envs.policies.named import POLICIES
from llm_marl_envs.scorers import SCORERS

try:
    from pettingzoo.env_registry import registration
except ModuleNotFoundError:  # before 1.27, which libraries in tests/bridges may hold
    registration = None


def registries() -> dict[str, dict[str, Any]]:
    """Everything that a name can be added to; algorithms only where torch is loaded anyway."""
    found: dict[str, dict[str, Any]] = {
        "llm_marl_envs.core.specs": specs._specs(),
        **{one.group: one.added for one in (POLICIES, SCORERS, COMMANDS)},
        "Gymnasium's registry": gymnasium.registry,
    }
    if registration is not None:
        found["PettingZoo's AEC registry"] = registration.aec_registry
        found["PettingZoo's parallel registry"] = registration.parallel_registry
    if "trainers.algorithms" in sys.modules:
        found["trainers.algorithms"] = sys.modules["trainers.algorithms"].ALGORITHMS.added
    return found


@contextmanager
def restored() -> Iterator[list[str]]:
    """Put back what the block changes; the list that it gets then says what that was."""
    before = {name: dict(one) for name, one in registries().items()}
    changed: list[str] = []
    try:
        yield changed
    finally:
        for name, one in registries().items():
            old = before.get(name, dict(one))  # loaded in the block: it holds what it came with
            changed += [
                f"{key!r} in {name}"
                for key in sorted({*one, *old})
                if key not in one or key not in old or one[key] != old[key]
            ]
            one.clear()
            one.update(old)
