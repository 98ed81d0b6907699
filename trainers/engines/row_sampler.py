"""Sampling whose randomness belongs to the row, not to the batch.

`generate` draws every row from one global generator, so a row's sample depends on its batch
neighbours. Here each row adds Gumbel noise that is a hash of (row seed, position, token) and takes
the argmax, which samples exactly from the softmax (Gumbel-max trick). Owns no model.

Shapes: B rows, V vocabulary.
"""

from __future__ import annotations

import torch
from transformers import LogitsProcessor

# Multipliers and shifts of SplitMix64 (Steele, Lea, Flood 2014), as signed 64-bit integers: torch
# integers wrap, which is what the mixer needs.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
MIX_2 = 0x94D049BB133111EB - 2**64
# 23 bits: the largest uniform, 1 - 2**-24, is still below 1 in float32.
UNIFORM_BITS = 23


def _fold_(x: torch.Tensor, bits: int, scratch: torch.Tensor) -> None:
    """`x ^= x >> bits`, in place, the shift logical; torch's own is arithmetic."""
    torch.bitwise_right_shift(x, bits, out=scratch)
    scratch &= (1 << (64 - bits)) - 1
    x ^= scratch


def _mix_(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's mixer without its last fold by 31 bits, which leaves the 31 highest alone.

    In place: new memory for each of these products would take as long as they do.
    """
    scratch = torch.empty_like(x)
    _fold_(x, 30, scratch)
    x *= MIX_1
    _fold_(x, 27, scratch)
    x *= MIX_2
    return x


def gumbel_noise(seeds: torch.Tensor, position: int, vocabulary: int) -> torch.Tensor:
    """Standard Gumbel noise, a function of (seed, position, token) alone.

    Args:
        seeds: int64, (B,).
        position: index of the token to sample, from 0.
        vocabulary: V.

    Returns:
        float32, (B, V); the same for every batch composition, and on every device up to the
        rounding of its logarithm.
    """
    row = _mix_(seeds + torch.full_like(seeds, position + 1) * GOLDEN)  # (B,)
    _fold_(row, 31, torch.empty_like(row))
    token = torch.arange(1, vocabulary + 1, device=seeds.device) * GOLDEN  # (V,)
    bits = _mix_(row.unsqueeze(1) + token)  # (B, V)
    bits >>= 64 - UNIFORM_BITS
    bits &= (1 << UNIFORM_BITS) - 1
    uniform = bits.to(torch.float32).add_(0.5).mul_(2.0**-UNIFORM_BITS)
    return uniform.log_().neg_().log_().neg_()


class RowSampler(LogitsProcessor):
    """Turns greedy `generate(do_sample=False)` into sampling with one seed per row.

    Args:
        seeds: int64, (B,), one per row.
        temperature: divides the logits; 0 is greedy.

    After generation, `logprobs(ids)` gives the log-prob of each chosen token under the distribution
    it was drawn from (for temperature 0: at temperature 1).
    """

    def __init__(self, seeds: torch.Tensor, temperature: float) -> None:
        self.seeds = seeds
        self.temperature = temperature
        self._chosen: list[torch.Tensor] = []
        # Of the newest position: `generate` chooses, and shows what it chose with the next scores.
        self._open: torch.Tensor | None = None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores (B, V) whose argmax is the sample."""
        self._close(input_ids)
        logits = scores.float()
        if self.temperature not in (0.0, 1.0):
            logits = logits / self.temperature
        self._open = keys = torch.log_softmax(logits, dim=-1)
        if self.temperature:
            noise = gumbel_noise(self.seeds, len(self._chosen), scores.shape[-1])
            keys = noise.add_(self._open)
        return keys

    def _close(self, ids: torch.Tensor) -> None:
        if self._open is not None:
            self._chosen.append(self._open.gather(-1, ids[:, -1:]).squeeze(-1))
            self._open = None

    def logprobs(self, ids: torch.Tensor) -> torch.Tensor:
        """float32, (B, T): one column per generated position; `ids` as `generate` returned them."""
        self._close(ids)
        return torch.stack(self._chosen, dim=1)
