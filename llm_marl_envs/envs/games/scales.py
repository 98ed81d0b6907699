"""How the splits of a game differ: what the payoffs of their tasks are multiplied with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Scale = tuple[float, ...]
"""What the payoffs of each seat are multiplied with."""
FACTORS: dict[str, tuple[float, ...]] = {
    "train": (1.0,),
    "val": (0.7, 1.4),
    "test": (0.6, 1.7),
    "ood": (0.3, 2.9),
}
"""By what the payoffs of a split are multiplied: no game is in two splits."""


def check_scales(name: str, scales: Sequence[float], count: int | None = None) -> tuple[float, ...]:
    """Positive finite numbers, `count` of them or at least one.

    Raises:
        ValueError: others.
        TypeError: no sequence of numbers.
    """
    numbers = isinstance(scales, (list, tuple)) and all(
        isinstance(one, (int, float)) and not isinstance(one, bool) for one in scales
    )
    if not numbers:
        raise TypeError(f"{name}={scales!r:.200}: expected a list of numbers above 0")
    if not scales or any(not 0 < one < float("inf") for one in scales):
        raise ValueError(f"{name}={scales!r:.200}: expected numbers above 0, at least one")
    if count is not None and len(scales) != count:
        raise ValueError(f"{name}={scales!r:.200}: expected {count} numbers, one for each seat")
    return tuple(float(one) for one in scales)


def task_scales(scales: Sequence[float | Sequence[float]], seats: int) -> tuple[Scale, ...]:
    """The argument `scales`: one entry per task, a number for all seats or one number per seat.

    Raises:
        ValueError: none, or numbers that are not above 0, or not one for each seat.
        TypeError: no sequence of these.
    """
    if not isinstance(scales, (list, tuple)):
        raise TypeError(f"scales={scales!r:.200}: expected a list, one entry per task")
    if not scales:
        raise ValueError("scales=[]: expected at least one entry")
    found: list[Scale] = []
    for one in scales:
        each: Any = one if isinstance(one, (list, tuple)) else (one,) * seats
        found.append(check_scales("scales", each, seats))
    return tuple(found)
