"""What the optimiser steps: one learning rate per policy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from trainers.config import MAGRPOConfig
from trainers.team_model import TeamModel


def parameter_groups(
    team: TeamModel, model: torch.nn.Module, args: MAGRPOConfig, decayed: Collection[str]
) -> list[dict[str, Any]]:
    """One parameter group per policy, two where some of its weights do not decay.

    Args:
        team: whose policies are trained.
        model: what the trainer wraps; its parameter names are those of `decayed`.
        args: `learning_rate`, `policy_learning_rates`, `weight_decay`.
        decayed: names of the parameters that weight decay applies to.

    Raises:
        ValueError: a learning rate for an unknown policy.
    """
    rates = dict(args.policy_learning_rates or {})
    unknown = sorted(set(rates) - set(team.policies))
    if unknown:
        raise ValueError(
            f"policy_learning_rates for {unknown}: the policies are {list(team.policies)}"
        )
    decayed_ids = {id(p) for name, p in model.named_parameters() if name in decayed}
    groups: list[dict[str, Any]] = []
    for policy in team.policies:
        for decay in (True, False):
            own = [p for p in team.parameters(policy) if (id(p) in decayed_ids) is decay]
            if own:
                groups.append(
                    {
                        "params": own,
                        "lr": rates.get(policy, args.learning_rate),
                        "weight_decay": args.weight_decay if decay else 0.0,
                    }
                )
    return groups
