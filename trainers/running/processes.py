"""What the processes of a run settle together: sums, and to stop where one of them must."""

from __future__ import annotations

from typing import Any

import torch


class Processes:
    """All processes of a run; every one of them must call a method at the same time.

    Args:
        accelerator: that of the trainer.
    """

    def __init__(self, accelerator: Any) -> None:
        self.accelerator = accelerator

    def total(self, value: torch.Tensor) -> float:
        """The sum of a scalar over all processes."""
        total: Any = self.accelerator.reduce(value.to(self.accelerator.device), reduction="sum")
        return float(total)

    def any(self, own: bool) -> bool:
        """Whether it is so on one of them."""
        return self.total(torch.tensor(float(own))) > 0

    def stop(self, error: Exception | None) -> None:
        """What stops one process stops every one of them.

        Raises:
            Exception: `error`, or one that says it was raised on another process.
        """
        if self.any(error is not None):
            raise error or RuntimeError("stopped by an error on another process; see there")
