"""What the processes of a run settle together: sums, and to stop where one of them must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Processes:
    """All processes of a run; every one of them must call a method at the same time.

    Args:
        accelerator: that of the trainer.
        keep: keeps what the run has learned before an error ends it, and says what was kept.
    """

    def __init__(self, accelerator: Any, keep: Callable[[], str] = str) -> None:
        self.accelerator = accelerator
        self.keep = keep

    def total(self, value: torch.Tensor) -> float:
        """The sum of a scalar over all processes."""
        total: Any = self.accelerator.reduce(value.to(self.accelerator.device), reduction="sum")
        return float(total)

    def any(self, own: bool) -> bool:
        """Whether it is so on one of them."""
        return self.total(torch.tensor(float(own))) > 0

    def all(self, own: bool) -> bool:
        """Whether it is so on every one of them."""
        return not self.any(not own)

    def stop(self, error: Exception | None) -> None:
        """What stops one process stops every one of them, once what was learned is kept.

        Raises:
            Exception: `error`, or one that says it was raised on another process, with a note of
                what was kept.
        """
        if not self.any(error is not None):
            return
        error = error or RuntimeError("stopped by an error on another process; see there")
        try:
            kept = self.keep()
        except Exception as failed:  # noqa: BLE001 - what stopped the run comes first
            kept = f"no checkpoint could be written ({failed})"
        if kept:
            error.add_note(kept)
        raise error
