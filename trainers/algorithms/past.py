"""Running means of past returns, for a turn that nobody else of its group took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Weight of the newest update in a running mean; its memory is about 20 updates.
RUNNING_WEIGHT = 0.05


class Past:
    """What returns were, by key: a running mean, and the mean square distance to it."""

    def __init__(self) -> None:
        self.running: dict[str, float] = {}
        self.spread: dict[str, float] = {}

    def compare(self, key: str, seen: np.ndarray) -> tuple[float, float]:
        """The running mean without `seen`, and the root mean square distance with it.

        The mean is 0 at first, and begins at what was seen first.
        """
        past = self.running.get(key, 0.0)
        _follow(self.running, key, float(seen.mean()))
        distance = _follow(self.spread, key, float(((seen - past) ** 2).mean())) ** 0.5
        return past, distance

    def state_dict(self) -> dict[str, Any]:
        """Both, as plain JSON values."""
        return {"running": dict(self.running), "spread": dict(self.spread)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.running = dict(state["running"])
        # Checkpoints from before every turn was scaled hold none; it begins anew.
        self.spread = dict(state.get("spread", {}))


def _follow(averages: dict[str, float], key: str, new: float) -> float:
    """Move a running average towards `new`, at which it begins; returns it."""
    before = averages.get(key, new)
    averages[key] = (1 - RUNNING_WEIGHT) * before + RUNNING_WEIGHT * new
    return averages[key]
