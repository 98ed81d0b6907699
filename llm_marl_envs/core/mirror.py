"""Shows every id to PettingZoo, in both of its registries, and to Gymnasium, as `llm_marl/<id>`.

In Gymnasium an id is one seat (`wrappers/gym_seat.py`). PettingZoo has a registry from 1.27 on;
before, nothing is shown there and nothing else changes.
"""

from __future__ import annotations

import gymnasium

HOME = "llm_marl_envs.play.registry"
"""Where `make_parallel`, `make_aec` and `make_gym` are found when an environment is made."""


def mirror(env_id: str) -> None:
    """Register one id in all registries; nothing of the environment is imported."""
    name, kwargs = f"llm_marl/{env_id}", {"env_id": env_id}
    if name not in gymnasium.registry:
        gymnasium.register(name, f"{HOME}:make_gym", kwargs=kwargs)
    try:
        from pettingzoo.env_registry.registration import register
    except ModuleNotFoundError:
        return
    register("parallel", name, entry_point=f"{HOME}:make_parallel", kwargs=kwargs)
    register("aec", name, entry_point=f"{HOME}:make_aec", kwargs=kwargs)
