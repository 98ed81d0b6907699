"""Multi-agent GRPO for teams of language models, derived from TRL's `GRPOTrainer`.

>>> from trainers import MAGRPOConfig, MAGRPOTrainer
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainers.config import MAGRPOConfig
    from trainers.policies.local import LocalPolicy
    from trainers.policies.token_policy import TokenPolicy
    from trainers.trainer import MAGRPOTrainer
    from trainers.weights.team_files import load_team, save_team

# Torch and TRL take seconds to import, so names are looked up when first used.
_HOMES = {
    "LocalPolicy": "trainers.policies.local",
    "MAGRPOConfig": "trainers.config",
    "MAGRPOTrainer": "trainers.trainer",
    "TokenPolicy": "trainers.policies.token_policy",
    "load_team": "trainers.weights.team_files",
    "save_team": "trainers.weights.team_files",
}

__all__ = [
    "LocalPolicy",
    "MAGRPOConfig",
    "MAGRPOTrainer",
    "TokenPolicy",
    "load_team",
    "save_team",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trainers' has no attribute {name!r}; it has {__all__}")
    return getattr(import_module(_HOMES[name]), name)
