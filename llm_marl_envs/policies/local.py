"""A Transformers model in any seat: by name or folder, batched.

Owns loading and the seats; sampling is `trainers.models.token_policy`, so a row's answer depends on
its own request alone. Needs the `train` extra.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from llm_marl_envs.records import Request, Response

BATCH_SIZE = 64


def trainers_module(name: str, wanted: str) -> Any:
    """`trainers.<name>`, imported when it is needed.

    Raises:
        ImportError: torch or another of its packages is not installed; says how to install it.
    """
    try:
        return import_module(f"trainers.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "trainers":
            raise
        raise ImportError(
            f"{wanted} needs {error.name!r}: pip install 'llm-marl-envs[train]'"
        ) from error


class LocalPolicy:
    """Plays every seat with one causal language model that has a chat template.

    Args:
        model: a name or folder that `from_pretrained` takes.
        max_completion_length: most tokens of one action.
        temperature: divides the logits; 0 is greedy.
        batch_size: most rows of one `generate` call.
        device: e.g. "cuda:1"; the first GPU where there is one, else the CPU.
        model_kwargs: for `from_pretrained`; float32 unless they say another `dtype`.
        template_kwargs: further variables of the chat template.

    Raises:
        ImportError: torch or transformers is not installed.
        ValueError: no model there, no chat template, or a number out of range.
    """

    def __init__(
        self,
        model: str,
        *,
        max_completion_length: int = 256,
        temperature: float = 1.0,
        batch_size: int = BATCH_SIZE,
        device: str | None = None,
        model_kwargs: Mapping[str, Any] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        files = trainers_module("models.team_files", "LocalPolicy")
        token_policy = trainers_module("models.token_policy", "LocalPolicy")
        self.team = files.build_team_model(
            model, ["seat_0"], weights="shared", init_kwargs=model_kwargs
        )
        import torch

        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.team.module.to(device).eval()
        self._make = lambda length: token_policy.TokenPolicy(
            self.team,
            max_completion_length=length,
            temperature=temperature,
            batch_size=batch_size,
            template_kwargs=template_kwargs,
        )
        self._policy = self._make(max_completion_length)
        self.identity = (
            f"model {model}, at most {max_completion_length} tokens, temperature {temperature:g}"
        )

    def stretched(self, factor: int) -> LocalPolicy:
        """The same weights with actions `factor` times as long."""
        other = copy.copy(self)
        other._policy = self._make(self._policy.max_completion_length * factor)
        return other

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One sampled action per request; errors as `TokenPolicy.act`."""
        (shared,) = self.team.policies
        for request in requests:
            self.team.policy_of.setdefault(request.agent, shared)
        return self._policy.act(requests)
