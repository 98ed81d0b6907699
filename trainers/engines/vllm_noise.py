"""Loaded by a vLLM server: `--logits-processors trainers.engines.vllm_noise:RowNoise`.

Adds this library's noise per row (`row_sampler.py`) to the log-probs. The client asks for the best
token (temperature 0), so it gets the token that `generate` would have sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor  # pyright: ignore[reportMissingImports]

from trainers.engines.row_sampler import gumbel_noise


class RowNoise(AdapterLogitsProcessor):
    """Noise for requests that bring a `row_seed`; others are left alone."""

    def is_argmax_invariant(self) -> bool:
        """No: it decides which token is best."""
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[..., torch.Tensor] | None:
        """The processor of one request."""
        seed = (params.extra_args or {}).get("row_seed")
        if seed is None:
            return None
        seeds = torch.tensor([seed])

        def noisy(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
            noise = gumbel_noise(seeds.to(logits.device), len(output_ids), logits.shape[-1])
            return logits.float().log_softmax(-1) + noise[0]

        return noisy
