"""Weights that are divided over processes (FSDP2), for models that do not fit one device.

Every process keeps a part of each parameter, its gradient and its optimiser state. A layer is put
together while it computes. What reads or writes weights elsewhere goes through here: a sharded
parameter is a `DTensor`, and its `.data`, `.numpy()` and pointers are of a part, or an error.
What of a team is saved and loaded is `team_model.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel


def shard(models: Sequence[PreTrainedModel], device: torch.device, processes: int) -> None:
    """Divide models over all processes, in place; the parts are moved to `device`.

    What a model names as not to be split (its decoder layers) is put together as one. The rest,
    embeddings and head, stays together while the whole model computes.
    """
    mesh = init_device_mesh(device.type, (processes,))
    for model in models:
        blocks = set(model._no_split_modules or ())
        inner_first = reversed([m for m in model.modules() if type(m).__name__ in blocks])
        for module in inner_first:
            fully_shard(module, mesh=mesh)
        # Else the root stays whole after a forward pass without a backward one, and the next pass
        # would not see what was written into its parts.
        fully_shard(model, mesh=mesh, reshard_after_forward=True)


@contextmanager
def whole(models: Sequence[PreTrainedModel]) -> Iterator[None]:
    """Keep sharded models in one piece on every process, while the block runs.

    Then processes may take different numbers of forward passes. What is written into weights in
    the block is lost. Every process enters; a process that fails may leave alone.
    """
    parts = [m for model in models for m in model.modules() if isinstance(m, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(True, recurse=False)


def full(tensor: torch.Tensor) -> torch.Tensor:
    """The whole tensor, detached. Of a sharded one every process must ask at the same time."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process keeps of a tensor, detached."""
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
    """A whole tensor, which every process has, divided as `present` is."""
    if not isinstance(present, DTensor):
        return tensor
    moved = tensor.to(present.device)
    return distribute_tensor(moved, present.device_mesh, present.placements, src_data_rank=None)


def on_cpu(state: Mapping[str, torch.Tensor], keep: bool) -> dict[str, torch.Tensor]:
    """Whole tensors in the memory of the processes that `keep` them; every process must ask."""
    tensors = {}
    for name, tensor in state.items():
        value = full(tensor)
        if keep:
            tensors[name] = value.cpu().contiguous()
    return tensors


def as_bytes(tensor: torch.Tensor) -> bytes:
    """What a tensor holds, for digests; asked as `full` is."""
    return full(tensor).cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def keep_parts(optimizer: torch.optim.Optimizer) -> None:
    """Let `state_dict` give this process's parts as plain tensors, and `load_state_dict` take them.

    So a checkpoint of one process's optimiser is read by that process alone.
    """

    def plain(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        parts = {
            number: {
                name: part(value) if isinstance(value, DTensor) else value
                for name, value in entries.items()
            }
            for number, entries in state["state"].items()
        }
        return {**state, "state": parts}

    def divided(loaded: Any) -> None:
        for parameter, entries in loaded.state.items():
            if not isinstance(parameter, DTensor):
                continue
            for name, value in entries.items():
                if name != "step" and isinstance(value, torch.Tensor):
                    entries[name] = DTensor.from_local(
                        value,
                        parameter.device_mesh,
                        parameter.placements,
                        shape=parameter.shape,
                        stride=parameter.stride(),
                    )

    optimizer.register_state_dict_post_hook(plain)
    optimizer.register_load_state_dict_post_hook(divided)
