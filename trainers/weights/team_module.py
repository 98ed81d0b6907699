"""Several models in the place of one: what the trainer wraps where each agent has its own model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model


class TeamModule(torch.nn.Module):
    """Several models as one module that forwards to the active one.

    Trainer and TRL probe a model for its config, device, generation settings and the like; what
    this module lacks is answered by the active model.
    """

    def __init__(self, models: Mapping[str, PreTrainedModel]) -> None:
        super().__init__()
        self.models: Any = torch.nn.ModuleDict(models)
        self.active = next(iter(models))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The active model's forward."""
        return self.models[self.active](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            models: Any = super().__getattr__("models")
            return getattr(models[self.__dict__["active"]], name)

    def gradient_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        """In every model."""
        for model in self.models.values():
            model.gradient_checkpointing_enable(*args, **kwargs)

    def gradient_checkpointing_disable(self) -> None:
        """In every model."""
        for model in self.models.values():
            model.gradient_checkpointing_disable()

    def activation_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        """In every model; the name that transformers uses from version 6 on."""
        for model in self.models.values():
            model.activation_checkpointing_enable(*args, **kwargs)


def fit_for_trl(model: PreTrainedModel, args: GRPOConfig) -> None:
    """Give a model what TRL's constructor gave the one it was called with."""
    if args.disable_dropout:
        disable_dropout_in_model(model)
    add_fused_lm_head(
        model,
        temperature=args.temperature,
        cast_lm_head_to_fp32=args.cast_lm_head_to_fp32,
        outputs=("log_probs", "entropy"),
    )
