"""A Transformers model in any seat: by name or folder, batched.

Owns loading and the seats; sampling is `token_policy.py`, so a row's answer depends on its own
request alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.tools.native import ToolFormat
from trainers.engines.generate import GenerateEngine
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.team_files import build_team_model

BATCH_SIZE = 64


class LocalPolicy:
    """Plays every seat with one causal language model that has a chat template.

    Args:
        model: a name or folder that `from_pretrained` takes.
        max_completion_length: most tokens of one action.
        temperature: divides the logits; 0 is greedy; None: what the model's own settings name,
            else 1.
        batch_size: most rows of one `generate` call.
        device: e.g. "cuda:1"; the first GPU where there is one, else the CPU.
        template_kwargs: further variables of the chat template.
        tool_format: how agents call tools: "line", or "native" for the model's own format.

    Raises:
        ValueError: no model there, no chat template, no format of calls, or a number out of range.
    """

    def __init__(
        self,
        model: str,
        *,
        max_completion_length: int = 256,
        temperature: float | None = None,
        batch_size: int = BATCH_SIZE,
        device: str | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        tool_format: ToolFormat = "line",
    ) -> None:
        self.team = build_team_model(model, ["seat_0"], weights="shared")
        if temperature is None:
            temperature = own_temperature(self.team.bases[0])
        self.temperature = temperature
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.team.module.to(device).eval()
        self._make = lambda length: TokenPolicy(
            self.team,
            max_completion_length=length,
            temperature=temperature,
            engine=GenerateEngine(self.team, batch_size),
            template_kwargs=template_kwargs,
            tool_format=tool_format,
        )
        self._policy = self._make(max_completion_length)
        template_kwargs = self._policy.template_kwargs  # the date of today stays, see `stretched`
        self.today = self._policy.today
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


def own_temperature(model: Any) -> float:
    """What a model's generation settings name for sampling, else 1."""
    own = model.generation_config
    return float(own.temperature) if own.do_sample and own.temperature else 1.0
