"""What the optimiser steps: each policy with its own learning rate, clipping and idleness.

The optimiser methods of the trainer, as a mixin. Gradients are clipped per policy, so that no
agent's step depends on another's gradient, and a policy with nothing to learn is left out of the
step, because AdamW would move it by momentum and weight decay.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch

from trainers.algorithms import Algorithm
from trainers.config import MAGRPOConfig
from trainers.models.team_model import TeamModel
from trainers.update.packing import own_tokens, total_weight

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer as Base
else:
    Base = object


class TeamOptimizer(Base):
    """Mixin for `MAGRPOTrainer`; stands before `GRPOTrainer` in the bases."""

    args: MAGRPOConfig  # type: ignore[assignment]
    team: TeamModel
    algorithm: Algorithm

    @property
    def trained_policies(self) -> list[str]:
        """The policies that are trained, in seat order."""
        return [policy for policy in self.team.policies if policy not in self.team.frozen]

    @property
    def trained_parameters(self) -> int:
        """How many weights are trained, over all policies."""
        return sum(
            parameter.numel()
            for policy in self.trained_policies
            for parameter in self.team.parameters(policy)
        )

    def _sum(self, value: torch.Tensor) -> float:
        """The sum of a scalar over all processes."""
        total: Any = self.accelerator.reduce(value.to(self.accelerator.device), reduction="sum")
        return float(total)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """One parameter group (two with weight decay) and one learning rate per policy."""
        if self.optimizer is not None:
            return self.optimizer
        whole: Any = self.model
        decayed = set(self.get_decay_parameter_names(whole))
        groups = parameter_groups(self.team, self.trained_policies, whole, self.args, decayed)
        optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, whole)
        optimizer = optimizer_class(groups, **kwargs)
        optimizer.register_step_pre_hook(self._leave_idle_policies)
        self.optimizer = optimizer
        return optimizer

    def _leave_idle_policies(self, *_: Any) -> None:
        """Before the optimiser step: idle policies get no gradient, so no step and no decay.

        A policy is idle if its rows weigh zero on every rank (deviation 3); with a loss that is not
        weighed by advantages, if it has none.
        """
        more = self.beta or type(self.algorithm).extra_loss is not Algorithm.extra_loss
        weigh = own_tokens if more else total_weight
        for policy in self.trained_policies:
            batches: Any = self._buffered_inputs or ()
            idle = self._sum(weigh(batches, policy)) == 0.0
            self._metrics["train"][f"{policy}/idle"].append(float(idle))
            for parameter in self.team.parameters(policy) if idle else ():
                parameter.grad = None

    def _clip_grad_norm(self, model: Any) -> torch.Tensor:
        """Clip each policy's gradient on its own; returns the norm over all."""
        norms = []
        for policy in self.trained_policies:
            norm: Any = self.accelerator.clip_grad_norm_(
                self.team.parameters(policy), self.args.max_grad_norm
            )
            self._metrics["train"][f"{policy}/grad_norm"].append(float(norm))
            norms.append(torch.as_tensor(norm))
        return torch.stack(norms).norm()


def parameter_groups(
    team: TeamModel,
    policies: Sequence[str],
    model: torch.nn.Module,
    args: MAGRPOConfig,
    decayed: Collection[str],
) -> list[dict[str, Any]]:
    """One parameter group per policy, two where some of its weights do not decay.

    Args:
        team: whose policies are trained.
        policies: those that are trained.
        model: what the trainer wraps; its parameter names are those of `decayed`.
        args: `learning_rate`, `policy_learning_rates`, `weight_decay`.
        decayed: names of the parameters that weight decay applies to.

    Raises:
        ValueError: a learning rate for an unknown policy.
    """
    rates = dict(args.policy_learning_rates or {})
    unknown = sorted(set(rates) - set(policies))
    if unknown:
        raise ValueError(
            f"policy_learning_rates for {unknown}: the trained policies are {list(policies)}"
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
                        "lr": rates.get(policy, args.learning_rate),
                        "weight_decay": args.weight_decay if decay else 0.0,
                    }
                )
    return groups
