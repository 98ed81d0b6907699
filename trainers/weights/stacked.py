"""Rows of several adapters in one forward pass.

PEFT's own pass of this kind (`adapter_names`) takes the adapters of a layer one after the other,
picks the rows of each and writes them back: about half the time of sampling with two. Here the
adapters' matrices A and B are stacked once, before the pass, and a layer needs two batched
products for all of them. Rows of one adapter that lie together, as many of each, are used where
they are; others are picked once for all adapters, the last row of an adapter with fewer rows again.

Owns which kinds of adapters share a pass, and how:

- **Stacked**: LoRA and rsLoRA of any ranks on linear layers, GPT-2's `Conv1D` and embeddings.
- **PEFT's own pass** (`why_not_stacked` says why): the rest of LoRA that it mixes, such as
  quantised layers and convolutions, whose products are not these; trained biases of LoRA; variants
  that compute something else (aLoRA, BdLoRA ...); layers that are merged, switched off or given
  another `forward`.
- **One batch for each adapter** (`can_mix`): what PEFT does not mix.

Shapes: B rows, T tokens, n adapters, m rows of the adapter that has most, r the largest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftConfig, PeftType
from peft.tuners.lora import Embedding, Linear, LoraLayer
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence


def can_mix(config: PeftConfig) -> bool:
    """Whether one forward pass can serve rows of several adapters at all.

    Measured with PEFT 0.21: plain LoRA can; IA3 serves all rows with the active adapter and does
    not say so; DoRA, saved modules and target parameters raise.
    """
    others = ("use_dora", "modules_to_save", "target_parameters")
    return config.peft_type == PeftType.LORA and not any(getattr(config, n, None) for n in others)


def why_not_stacked(model: nn.Module) -> str | None:
    """Why the adapters of a model that `can_mix` cannot be stacked; None where they can."""
    for name, layer in _layers(model):
        reason = _refusal(layer)
        if reason is not None:
            return f"{name}: {reason}"
    return None


def _layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    return (pair for pair in model.named_modules() if isinstance(pair[1], LoraLayer))


def _refusal(layer: Any) -> str | None:
    base = layer.base_layer
    if type(layer) is Embedding:
        plain = type(base) is nn.Embedding and base.max_norm is None
    else:
        plain = type(layer) is Linear
    if not plain:
        return f"{type(layer).__name__} on {type(base).__name__}"
    if layer.lora_variant or any(layer.lora_bias.values()):
        return "a variant of LoRA, or one with a bias"
    if layer.merged or layer.disable_adapters or "forward" in vars(layer):
        return "merged, switched off, or with a forward of its own"
    return None


@contextmanager
def stacked(model: nn.Module, rows: Sequence[str]) -> Iterator[None]:
    """Let row i of every batch act with adapter `rows[i]`, while the block runs.

    The adapters' weights are read once, on entry.

    Args:
        model: in evaluation mode: dropout of adapters is left out.
        rows: names of adapters, one per row of a batch.

    Raises:
        ValueError: the model is in training mode, or (by its forward pass) a batch has another
            number of rows, or a layer sees something else than rows of tokens.
    """
    if model.training:
        raise ValueError("adapters are stacked in evaluation mode; call eval() first")
    order = _Order.of(rows)
    changed = []
    try:
        for _, layer in _layers(model):
            layer.forward = _stack(layer, order)
            changed.append(layer)
        yield
    finally:
        for layer in changed:
            del layer.forward


@dataclass(frozen=True, slots=True)
class _Order:
    """Rows in groups of one size, one group for each adapter.

    Attributes:
        names: the n adapters.
        rows: B.
        picked: (n m,), which row is where; None where they lie so.
        places: (B,), where each row is; None as above.
    """

    names: tuple[str, ...]
    rows: int
    picked: Tensor | None
    places: Tensor | None

    @classmethod
    def of(cls, rows: Sequence[str]) -> _Order:
        names = tuple(dict.fromkeys(rows))
        groups = [[i for i, row in enumerate(rows) if row == name] for name in names]
        most = max(map(len, groups))
        picked = [i for group in groups for i in group + group[-1:] * (most - len(group))]
        if picked == list(range(len(rows))):
            return cls(names, len(rows), None, None)
        first = {row: place for place, row in reversed(list(enumerate(picked)))}
        places = torch.tensor([first[row] for row in range(len(rows))])
        return cls(names, len(rows), torch.tensor(picked), places)

    def to(self, device: torch.device) -> _Order:
        """The same on another device."""
        if self.picked is None or self.places is None:
            return self
        return _Order(self.names, self.rows, self.picked.to(device), self.places.to(device))


@dataclass(frozen=True, slots=True)
class _Stack:
    """The forward pass of a layer.

    Attributes:
        base: what is adapted.
        first: (n, m T, ...) -> (n, m T, r), the product with A.
        b: (n, r, out), with each adapter's scaling.
        order: of the rows.
    """

    base: nn.Module
    first: Callable[[Tensor], Tensor]
    b: Tensor
    order: _Order

    def __call__(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out = self.base(x, *args, **kwargs)  # (B, T, out)
        if out.dim() != 3 or len(out) != self.order.rows or x.shape[:2] != out.shape[:2]:
            raise ValueError(
                f"an adapted {type(self.base).__name__} made {tuple(out.shape)} of "
                f"{tuple(x.shape)}: expected {self.order.rows} rows of tokens; adapt other layers"
            )
        grouped = x if self.order.picked is None else x[self.order.picked]
        hidden = self.first(grouped.reshape(len(self.b), -1, *x.shape[2:]))
        if self.order.places is None and out.dtype == hidden.dtype:
            return torch.baddbmm(out.reshape(*hidden.shape[:2], -1), hidden, self.b).view_as(out)
        added = torch.bmm(hidden, self.b).view(-1, *out.shape[1:])
        if self.order.places is not None:
            added = added[self.order.places]
        return (out + added).to(out.dtype)


def _pairs(layer: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Adapter -> its A (r, in) and B (out, r)."""
    if isinstance(layer, Embedding):
        a, b = layer.lora_embedding_A, layer.lora_embedding_B
        return {name: (a[name], b[name]) for name in a}
    return {name: (layer.lora_A[name].weight, layer.lora_B[name].weight) for name in layer.lora_A}


def _stack(layer: Any, order: _Order) -> _Stack:
    pairs = _pairs(layer)
    like_a, like_b = next(iter(pairs.values()))
    nothing = like_a[:0], like_b[:, :0]  # of an adapter that leaves this layer alone
    chosen = [pairs.get(name, nothing) for name in order.names]
    # Lower ranks are filled up with zeros.
    a = pad_sequence([a for a, _ in chosen], batch_first=True)  # (n, r, in)
    scales = [layer.scaling.get(name, 0.0) for name in order.names]
    b = [scale * b.T for scale, (_, b) in zip(scales, chosen, strict=True)]
    first = _Embedded.of(a) if isinstance(layer, Embedding) else _Multiplied(a.mT.contiguous())
    return _Stack(
        layer.base_layer, first, pad_sequence(b, batch_first=True), order.to(like_a.device)
    )


@dataclass(frozen=True, slots=True)
class _Multiplied:
    """x A; `a` is (n, in, r)."""

    a: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return torch.bmm(x.to(self.a.dtype), self.a)


@dataclass(frozen=True, slots=True)
class _Embedded:
    """Rows of A, by token id; `table` is (n V, r), `begins` (n, 1) where each adapter's begin."""

    table: Tensor
    begins: Tensor

    @classmethod
    def of(cls, a: Tensor) -> _Embedded:
        """`a` is (n, r, V)."""
        begins = torch.arange(len(a), device=a.device).unsqueeze(1) * a.shape[-1]
        return cls(a.mT.flatten(0, 1), begins)

    def __call__(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids + self.begins, self.table)
