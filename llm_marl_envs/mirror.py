"""Shows every id to PettingZoo, in both of its registries, as `llm_marl/<id>`.

PettingZoo has a registry from 1.27 on; before, nothing is shown and nothing else changes.
"""

from __future__ import annotations

HOME = "llm_marl_envs.registry"
"""Where PettingZoo finds `make_parallel` and `make_aec` when an environment is made."""


def mirror(env_id: str) -> None:
    """Register one id in both registries; nothing of the environment is imported."""
    try:
        from pettingzoo.env_registry.registration import register
    except ModuleNotFoundError:
        return
    name = f"llm_marl/{env_id}"
    register("parallel", name, entry_point=f"{HOME}:make_parallel", kwargs={"env_id": env_id})
    register("aec", name, entry_point=f"{HOME}:make_aec", kwargs={"env_id": env_id})
