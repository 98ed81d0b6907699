"""What the optimiser steps: each policy with its own learning rate, clipping and idleness."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from trainers.batch.packing import own_tokens, total_weight
from trainers.weights.sharding import full
from trainers.weights.team_model import TeamModel


def parameter_groups(
    team: TeamModel,
    model: torch.nn.Module,
    decayed: Collection[str],
    *,
    rate: float,
    rates: Mapping[str, float] | None = None,
    weight_decay: float = 0.0,
) -> list[dict[str, Any]]:
    """One parameter group per trained policy, two where some of its weights do not decay.

    Args:
        team: whose policies are trained.
        model: what the optimiser steps.
        decayed: names of parameters of `model` that weight decay applies to.
        rate: learning rate of policies that `rates` does not name.
        rates: policy -> its own learning rate.
        weight_decay: of the parameters that `decayed` names.

    Raises:
        ValueError: a learning rate for an unknown policy.
    """
    policies, rates = team.trained_policies, dict(rates or {})
    unknown = sorted(set(rates) - set(policies))
    if unknown:
        raise ValueError(
            f"policy_learning_rates for {unknown}: the trained policies are {policies}"
        )
    decayed_ids = {id(p) for name, p in model.named_parameters() if name in decayed}
    groups: list[dict[str, Any]] = []
    for policy in policies:
        for decay in (True, False):
            own = [p for p in team.parameters(policy) if (id(p) in decayed_ids) is decay]
            if own:
                groups.append(
                    {
                        "params": own,
                        "lr": rates.get(policy, rate),
                        "weight_decay": weight_decay if decay else 0.0,
                    }
                )
    return groups


def own_parameters(
    team: TeamModel, policy: str, optimizer: torch.optim.Optimizer
) -> list[torch.nn.Parameter]:
    """A trained policy's parameters, each of which the optimiser steps.

    Raises:
        RuntimeError: one that it does not step, so that clipping it or taking its gradient away
            would have no effect.
    """
    stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    own = team.parameters(policy)
    lost = sum(id(parameter) not in stepped for parameter in own)
    if lost:
        raise RuntimeError(
            f"the optimiser does not step {lost} of {len(own)} parameters of {policy!r}: something "
            "put others in the place of those that it was made with; make it after that"
        )
    return own


def leave_idle(
    team: TeamModel,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Mapping[str, Any]],
    total: Callable[[torch.Tensor], float],
    *,
    weighed: bool,
) -> dict[str, float]:
    """Take the gradients of idle policies away: policy -> 1 where it is idle, else 0.

    Without a gradient AdamW leaves it out, which else would move it by momentum and weight decay.
    Where advantages weigh every loss (`weighed`), a policy is idle if its rows weigh zero on every
    process, else if it has none. `total` sums a scalar over all processes.
    """
    weigh = total_weight if weighed else own_tokens
    idle = {}
    for policy in team.trained_policies:
        idle[policy] = float(total(weigh(batches, policy)) == 0.0)
        for parameter in own_parameters(team, policy, optimizer) if idle[policy] else ():
            parameter.grad = None
    return idle


def clip_each(
    team: TeamModel,
    optimizer: torch.optim.Optimizer,
    clip: Callable[[list[torch.nn.Parameter]], Any],
) -> dict[str, torch.Tensor]:
    """Clip each trained policy's gradient on its own: policy -> its norm before."""
    return {
        policy: full(torch.as_tensor(clip(own_parameters(team, policy, optimizer))))
        for policy in team.trained_policies
    }


@torch.no_grad()
def cosines(team: TeamModel, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Trained policy -> the cosine of its gradient with the mean of its gradients before.

    The mean is the optimiser's own (Adam's first moment), so nothing is kept for it. 0 is expected
    where gradients are nothing but noise. A policy is left out where one of the two is zero, and
    every policy with an optimiser that keeps no mean.
    """
    by_policy = {}
    for policy in team.trained_policies:
        pairs = [
            (parameter.grad.float(), mean.float())
            for parameter in own_parameters(team, policy, optimizer)
            if parameter.grad is not None
            and (mean := optimizer.state[parameter].get("exp_avg")) is not None
        ]
        sums = [((g * m).sum(), g.square().sum(), m.square().sum()) for g, m in pairs]
        if not sums:
            continue
        dot, own, before = (
            float(full(torch.as_tensor(sum(parts)))) for parts in zip(*sums, strict=True)
        )
        if own > 0 and before > 0:
            by_policy[policy] = dot / (own**0.5 * before**0.5)
    return by_policy
