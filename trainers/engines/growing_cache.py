"""Keys and values of a `generate` call, written in place.

The cache of transformers copies all that it holds at each token and layer. Here each layer has
room to spare, half as much again when it is full, and a new token is written there. Attention
reads the same numbers.

Shapes: B rows, n heads, L tokens, d numbers of a head.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

LEAST = 32
"""Tokens of room to spare at least."""


class GrowingLayer(DynamicLayer):
    """One layer of one `generate` call; `keys` and `values` (B, n, L, d) are parts of its room."""

    room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Add tokens; all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.room = None
        held = self.get_seq_length()
        whole = held + key_states.shape[-2]
        if self.room is None or self.room[0].shape[-2] < whole:
            size = whole + max(whole // 2, LEAST)
            self.room = _moved(self.keys, key_states, size), _moved(self.values, value_states, size)
        keys, values = self.room
        keys[..., held:whole, :] = key_states
        values[..., held:whole, :] = value_states
        self.keys, self.values = keys[..., :whole, :], values[..., :whole, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """As the base class; a row may be named more than once."""
        super().batch_select_indices(indices)
        self.room = None  # that of as many rows as before


def _moved(held: Any, new: Tensor, size: int) -> Tensor:
    """Room for `size` tokens like the new ones, with what was held."""
    room = new.new_empty(*new.shape[:-2], size, new.shape[-1])
    if held.numel():
        room[..., : held.shape[-2], :] = held
    return room


def plain_cache(model: Any) -> DynamicCache | None:
    """An empty cache of keys and values of all tokens; None for a model with another kind.

    Args:
        model: of Transformers, without wrappers.
    """
    own = "mamba" in type(model).__name__.lower()  # takes its states by another name
    if own or model.config.is_encoder_decoder or not model._supports_default_dynamic_cache():
        return None
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    plain = cache.layers and all(type(layer) is DynamicLayer for layer in cache.layers)
    return cache if plain else None


def growing_cache(model: Any) -> DynamicCache | None:
    """A cache for one call of `generate`; None where the model has its own kind."""
    cache = plain_cache(model)
    if cache is not None:
        cache.layers[:] = [GrowingLayer() for _ in cache.layers]
    return cache
