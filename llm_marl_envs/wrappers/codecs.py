"""Text as arrays of a fixed length.

A reader says what an observation looks like: `Bytes`, `Tokens` and `Words` have `space` and
`encode`. The first two are writers, too: they have `size`, how many ids there are, and `decode`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

Ids = Sequence[int] | np.ndarray


class Reader(Protocol):
    """Turns a text into an array of `space`."""

    @property
    def space(self) -> spaces.Box[Any]:
        """Of one encoded text."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """The array, of the shape and dtype of `space`."""
        ...


class Writer(Reader, Protocol):
    """Turns ids into a text, too."""

    @property
    def size(self) -> int:
        """How many ids there are."""
        ...

    def decode(self, ids: Ids) -> str:
        """The text of some ids, each 0 <= id < size; any ids are a text."""
        ...


class Bytes:
    """The last `length` bytes of a text in UTF-8, each plus one; 0 pads on the right.

    Args:
        length: of the array, >= 1.

    Raises:
        ValueError: a length below 1.
    """

    size = 257

    def __init__(self, length: int) -> None:
        self.length = _positive(length)
        self.space = spaces.Box(0, self.size - 1, (length,), np.int64)

    def encode(self, text: str) -> np.ndarray:
        """(length,) int64."""
        kept = text.encode("utf-8", "surrogatepass")[-self.length :]
        return _padded([byte + 1 for byte in kept], self.length, 0)

    def decode(self, ids: Ids) -> str:
        """The text before the first 0; bytes that are no UTF-8 become U+FFFD."""
        return bytes(i - 1 for i in _until(ids, {0})).decode("utf-8", "replace")


class Tokens:
    """The last `length` token ids of a text; the padding token pads on the right.

    Args:
        tokenizer: a Hugging Face tokenizer with a padding token.
        length: of the array, >= 1.

    Raises:
        ValueError: a length below 1, or no padding token.
    """

    def __init__(self, tokenizer: Any, length: int) -> None:
        if tokenizer.pad_token_id is None:
            raise ValueError("this tokenizer has no padding token; set tokenizer.pad_token first")
        self.tokenizer = tokenizer
        self.length = _positive(length)
        self.size = len(tokenizer)
        self.space = spaces.Box(0, self.size - 1, (length,), np.int64)

    def encode(self, text: str) -> np.ndarray:
        """(length,) int64."""
        ids = self.tokenizer.encode(text, add_special_tokens=False)[-self.length :]
        return _padded(ids, self.length, self.tokenizer.pad_token_id)

    def decode(self, ids: Ids) -> str:
        """The text before the first padding or end token."""
        ends = {self.tokenizer.pad_token_id, self.tokenizer.eos_token_id}
        return self.tokenizer.decode(_until(ids, ends))


class Words:
    """Hashed word counts, log(1 + n), float32: small networks learn from them.

    It cannot be read back, so it serves observations only.

    Args:
        length: how many counts, >= 1; words that share one are told apart by nobody.

    Raises:
        ValueError: a length below 1.
    """

    def __init__(self, length: int = 256) -> None:
        self.length = _positive(length)
        self.space = spaces.Box(0.0, np.inf, (length,), np.float32)

    def encode(self, text: str) -> np.ndarray:
        """(length,) float32."""
        counts = np.zeros(self.length, np.float32)
        for word in text.split():
            counts[zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.length] += 1
        return np.log1p(counts)


def _positive(length: int) -> int:
    if length < 1:
        raise ValueError(f"length={length}: expected at least 1")
    return length


def _padded(ids: Sequence[int], length: int, pad: int) -> np.ndarray:
    row = np.full(length, pad, np.int64)
    row[: len(ids)] = ids
    return row


def _until(ids: Ids, ends: set[int | None]) -> list[int]:
    """The ids before the first of `ends`."""
    kept: list[int] = []
    for token in ids:
        if int(token) in ends:
            break
        kept.append(int(token))
    return kept
