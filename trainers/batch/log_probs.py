"""TRL's log-probs of sampled tokens, to the last bit, in less time on a CPU.

TRL computes logits in tiles, which it computes again in the backward pass. Its kernels for GPUs
work in place; its form for other devices makes new memory in each of about twenty operations on a
tile. Here a tile is changed in place, and one that holds all tokens is kept for the backward pass.

Owns one autograd function and when it stands in for TRL's. `trainer.py` uses it in the loss.

Shapes: N tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from trl.kernels.chunked_logprob import TOKEN_CHUNK_SIZE
from trl.trainer import utils

PLACE = "_ChunkedLogProbFunction"
"""Where TRL's models look for the function."""
KNOWN = {"log_probs", "entropy"}


class InPlaceLogProbs(torch.autograd.Function):
    """Log-probs (N,) and entropies (N,) of `hidden` (N, H) times `weight` (V, H), float32.

    Each number is that of TRL's function: the same operations in the same order, without those
    that multiply by 1 or add to 0.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        """The logits are multiplied by `scale`, one over the temperature."""
        tiles, kept = [], None
        for part in _parts(hidden):
            z = _logits(hidden[part], weight, scale)
            top = z.amax(-1)
            target = z.gather(-1, targets[part].unsqueeze(-1)).squeeze(-1)
            e = torch.sub(z, top.unsqueeze(-1)).exp_()
            total = e.sum(-1)
            log_z = top + torch.log(total)
            tiles.append((target - log_z, log_z - e.mul_(z).sum(-1) / total, log_z))
            kept = z if len(z) == len(hidden) else None
        logprobs, entropy, log_z = (torch.cat(each) for each in zip(*tiles, strict=True))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, targets, log_z, entropy)
        ctx.scale, ctx.kept = scale, kept
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None) -> Any:  # type: ignore[override]
        """Gradients of `hidden` and `weight`."""
        hidden, weight, targets, log_z, entropy = ctx.saved_tensors
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.zeros_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight) if needs_weight else None
        kept, ctx.kept = ctx.kept, None  # changed below, so a second backward makes it anew
        for part in _parts(hidden):
            z = _logits(hidden[part], weight, ctx.scale) if kept is None else kept
            log_p = z.sub_(log_z[part].unsqueeze(-1))
            bonus = None
            if grad_entropy is not None:
                bonus = grad_entropy[part].unsqueeze(-1) * log_p.exp()
                bonus *= log_p + entropy[part].unsqueeze(-1)
            grad = log_p.exp_()  # of the logits: g (1 - p) at the target, else -g p
            if grad_logprobs is None:
                grad.zero_()
            else:
                g, target = grad_logprobs[part].unsqueeze(-1), targets[part].unsqueeze(-1)
                at_target = g * (1 - grad.gather(-1, target))
                grad.mul_(-g).scatter_(-1, target, at_target)
            if bonus is not None:
                grad -= bonus
            if ctx.scale != 1:
                grad *= ctx.scale
            if grad_hidden is not None:
                grad_hidden[part].addmm_(grad, weight)
            if grad_weight is not None:
                grad_weight.addmm_(grad.t(), hidden[part])
        return grad_hidden, grad_weight, None, None


def _parts(hidden: Tensor) -> list[slice]:
    """TRL's tiles: a sum over tokens depends on where it is cut."""
    return [slice(i, i + TOKEN_CHUNK_SIZE) for i in range(0, len(hidden), TOKEN_CHUNK_SIZE)]


def _logits(hidden: Tensor, weight: Tensor, scale: float) -> Tensor:
    z = torch.mm(hidden, weight.t())
    return z if scale == 1 else z.mul_(scale)


class _Chosen:
    """Stands where TRL's function does, with its arguments and results."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def apply(self, hidden: Tensor, weight: Tensor, bias: Any, targets: Tensor, *rest: Any) -> Any:
        """Ours for whole float32 weights on a CPU, a plain head and one tile of words."""
        temperature, chunk_size, softcap, logit_scale, outputs = rest
        plain = bias is None and softcap is None and logit_scale == 1 and KNOWN.issuperset(outputs)
        float32 = hidden.dtype == weight.dtype == torch.float32
        whole = type(weight) in (torch.nn.Parameter, Tensor) and len(weight) <= chunk_size
        here = hidden.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        if not (plain and float32 and whole and here and len(hidden)):
            return self.theirs.apply(hidden, weight, bias, targets, *rest)
        results: Any = InPlaceLogProbs.apply(hidden, weight, targets, 1 / temperature)
        return results[0], results[1] if "entropy" in outputs else None, None, None, None


@contextmanager
def in_place() -> Iterator[None]:
    """Let models of TRL use `InPlaceLogProbs`, where it can stand in, while the block runs."""
    theirs = getattr(utils, PLACE)
    setattr(utils, PLACE, _Chosen(theirs))
    try:
        yield
    finally:
        setattr(utils, PLACE, theirs)
