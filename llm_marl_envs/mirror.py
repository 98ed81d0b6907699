"""Mirrors every id into PettingZoo's two registries, as `llm_marl/<id>`.

PettingZoo has no plug-in point, and importing it (numpy and Gymnasium behind it) takes most of the
time that importing this package would. So the ids are mirrored at once only where PettingZoo is
loaded already; else as soon as somebody loads it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PETTINGZOO = "pettingzoo"


def mirror(env_id: str) -> None:
    """Register one id in both of PettingZoo's registries; nothing of the environment is imported.

    Does nothing while PettingZoo is not loaded: `mirror_all` catches up when it is.
    """
    if PETTINGZOO not in sys.modules:
        return
    from pettingzoo.env_registry.registration import register

    name, home = f"llm_marl/{env_id}", "llm_marl_envs.registry"
    register("parallel", name, entry_point=f"{home}:make_parallel", kwargs={"env_id": env_id})
    register("aec", name, entry_point=f"{home}:make_aec", kwargs={"env_id": env_id})


def mirror_all() -> None:
    """Mirror every registered id, now if PettingZoo is loaded, else when it will be."""
    if PETTINGZOO not in sys.modules:
        sys.meta_path.insert(0, _WhenLoaded())
        return
    from llm_marl_envs.registry import list_envs

    for env_id in list_envs():
        mirror(env_id)


class _WhenLoaded(MetaPathFinder):
    """Finds PettingZoo as everybody would, once, and mirrors after it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PETTINGZOO:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(fullname)
        if found is None or found.loader is None:
            return None
        run = found.loader.exec_module

        def run_and_mirror(module: ModuleType) -> None:
            run(module)
            mirror_all()

        found.loader.exec_module = run_and_mirror
        return found
