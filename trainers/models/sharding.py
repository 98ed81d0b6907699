"""Weights that are divided over processes: what is needed to read them.

A sharded parameter is a `DTensor`, of which a process holds a part. Its `.data`, `.numpy()` and
pointers are of that part, or an error.
"""

from __future__ import annotations

import torch
from torch.distributed.tensor import DTensor


def full(tensor: torch.Tensor) -> torch.Tensor:
    """The whole tensor, detached. Of a sharded one every process must ask at the same time."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def as_bytes(tensor: torch.Tensor) -> bytes:
    """What a tensor holds, for digests; asked as `full` is."""
    return full(tensor).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
