"""Keys and values of rows that may go on: what a later turn need not read again.

A row is known by whose weights read it and by its ids, and by nothing else, for its keys and values
are a function of the two. So an episode that goes on finds what it has read; a row with other ids
finds nothing. All is let go as soon as any weight has changed.

Owns how much is kept, and for how long. Shapes: B rows, n heads, L tokens, d numbers of a head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from trainers.engines.base import Draw, Drawn

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes of a number -> the integers that have as many."""

Known = tuple[str, bool, tuple[int, ...]]
"""Policy, whether with the weights that it began with, ids."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What one call has read: (keys, values) of each layer, each (B, n, L, d)."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def bytes(self) -> int:
        """In memory, room to spare included."""
        return sum(states.untyped_storage().nbytes() for pair in self.layers for states in pair)

    def first(self, rows: int) -> _Call:
        """The first rows, in memory of their own."""
        return _Call(
            tuple((keys[:rows].clone(), values[:rows].clone()) for keys, values in self.layers)
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One row of what a call has read, and the column of its first token."""

    call: _Call
    place: int
    begins: int


class KeptRows:
    """Rows by what they are known by; see the module.

    Args:
        most_bytes: that may be held at once; 0 keeps nothing. The oldest calls are let go first.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._rows: dict[Known, Row] = {}
        self._weights: list[tuple[Tensor, int]] = []
        self._digest: list[int] = []

    @property
    def bytes(self) -> int:
        """Held now."""
        return sum(call.bytes for call in self._calls())

    def check(self, weights: Iterable[Tensor]) -> None:
        """Let all go unless these weights are those of before, where they were, and not written to.

        Their memory is held, so that no other weight can come to lie there unseen. Fused optimisers
        and what writes to `.data` leave a tensor's version alone, so the bits of trained weights
        are summed, too.
        """
        tensors = [*weights]
        now, digest = [(weight.data, weight._version) for weight in tensors], _digest(tensors)
        same = [_mark(weight) for weight in now] == [_mark(weight) for weight in self._weights]
        if not same or digest != self._digest:
            self._rows.clear()
            self._weights, self._digest = now, digest

    def let_go(self) -> None:
        """Hold nothing."""
        self._rows.clear()

    def knows(self, draw: Draw) -> bool:
        """Whether a draw goes on from a row that is held."""
        return _known(draw) in self._rows

    def hold(self, cache: DynamicCache, draws: Sequence[Draw], width: int) -> None:
        """Hold these rows' prompts but the last token, until `into` takes them at once.

        So they may exceed `most_bytes`.

        Args:
            cache: that has read them.
            draws: its rows, each as one that goes on from its whole prompt.
            width: columns of the prompts, padded on the left.
        """
        self._rows |= zip(map(_known, draws), rows_of(cache, draws, width), strict=True)

    def into(self, cache: DynamicCache, draws: Sequence[Draw], width: int) -> int:
        """Fill an empty cache with what is held of these rows, and let them go; see `fill`."""
        keys = [*map(_known, draws)]
        rows = [self._rows[key] for key in keys]
        for key in {*keys}:  # several rows may have said the same
            del self._rows[key]
        return fill(cache, rows, draws, width)

    def keep(
        self, cache: DynamicCache, draws: Sequence[Draw], drawn: Sequence[Drawn], width: int
    ) -> None:
        """Hold what a call has read: of each row all but the last token that it said.

        Args:
            cache: of the call.
            draws: its rows.
            drawn: what each said.
            width: columns of the prompts, padded on the left.
        """
        call = _call_of(cache)
        fit = min(len(draws), self.most_bytes * len(draws) // call.bytes)
        call = call if fit == len(draws) else call.first(fit)
        for place, (draw, action) in enumerate(zip(draws[:fit], drawn[:fit], strict=True)):
            key = draw.policy, draw.start, (*draw.prompt_ids, *action.ids[:-1])
            self._rows.pop(key, None)  # the newest is the last one
            self._rows[key] = Row(call, place, width - len(draw.prompt_ids))
        while self.bytes > self.most_bytes:
            oldest = next(iter(self._rows.values())).call
            self._rows = {key: row for key, row in self._rows.items() if row.call is not oldest}

    def _calls(self) -> list[_Call]:
        return list({id(row.call): row.call for row in self._rows.values()}.values())


def rows_of(cache: DynamicCache, draws: Sequence[Draw], width: int) -> list[Row]:
    """The rows of a cache that has read these draws' prompts but the last token.

    Args:
        cache: of the call.
        draws: its rows.
        width: columns of the prompts, padded on the left.
    """
    call = _call_of(cache)
    return [Row(call, place, width - len(draw.prompt_ids)) for place, draw in enumerate(draws)]


def fill(cache: DynamicCache, rows: Sequence[Row], draws: Sequence[Draw], width: int) -> int:
    """Fill an empty cache with what was read of these draws.

    A call reads as many columns of each row. So the row with most to read decides, and of the
    others some tokens are read again.

    Args:
        cache: of a call whose prompts are these draws', padded on the left.
        rows: of each draw, what has read its ids before the last of `through`.
        draws: the rows of the call.
        width: columns of the prompts.

    Returns:
        Tokens that need not be read again.
    """
    held = width - max(len(draw.prompt_ids) - draw.through + 1 for draw in draws)
    blank = [width - len(draw.prompt_ids) for draw in draws]
    for number in range(len(rows[0].call.layers)):
        parts = [_columns(row, number, n, held) for row, n in zip(rows, blank, strict=True)]
        keys, values = (torch.stack(part) for part in zip(*parts, strict=True))
        cache.update(keys, values, number)
    return sum(max(0, held - n) for n in blank)


def _call_of(cache: DynamicCache) -> _Call:
    """What a call has read into its cache."""
    layers: Any = cache.layers
    return _Call(tuple((layer.keys, layer.values) for layer in layers))


def _known(draw: Draw) -> Known:
    """What the row is known by that a draw goes on from."""
    return draw.policy, draw.start, draw.prompt_ids[: max(0, draw.through - 1)]


def _digest(weights: Sequence[Tensor]) -> list[int]:
    """A sum of the bits of each weight that is trained."""
    sums = [_bits(weight.data).sum() for weight in weights if weight.requires_grad]
    return torch.stack([total.to(sums[0].device) for total in sums]).tolist() if sums else []


def _bits(weight: Tensor) -> Tensor:
    """The same memory as integers, eight bytes each where it can be so divided: that is faster."""
    size = weight.element_size()
    if weight.is_contiguous() and weight.numel() * size % 8 == 0:
        return weight.view(-1).view(torch.int64)
    return weight.view(INTEGERS[size])


def _mark(weight: tuple[Tensor, int]) -> tuple[int, int]:
    tensor, version = weight
    return tensor.data_ptr(), version


def _columns(row: Row, layer: int, blank: int, held: int) -> tuple[Tensor, Tensor]:
    """The first columns of a row that is padded by `blank`: keys and values, (n, held, d)."""
    columns = []
    for states in row.call.layers[layer]:
        kept = states[row.place, :, row.begins : row.begins + max(0, held - blank)]
        moved = states.new_zeros(states.shape[1], held, states.shape[3])
        moved[:, held - kept.shape[1] :] = kept
        columns.append(moved)
    return columns[0], columns[1]
