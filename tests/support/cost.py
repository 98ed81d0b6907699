"""What a call costs, in a unit that a slow or busy machine stretches as much as the call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def _seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _yardstick() -> int:
    total = 0
    for number in range(20_000):
        total += number
    return total


def seconds_of_a_loop() -> float:
    """Processor time of 20,000 additions, the least of ten; 0.001 on a core of 2024 at 4 GHz."""
    return min(_seconds(_yardstick) for _ in range(10))


def milliseconds(run: Callable[[], Any], times: int = 5) -> float:
    """Processor time of the quickest run, counted in loops of 20,000 additions.

    Such a loop takes a millisecond where Python is quick (a core of 2024 at 4 GHz) and three on a
    small rented one. Both are timed in turns, so what slows one slows the other.
    """
    pairs = [(_seconds(run), _seconds(_yardstick)) for _ in range(times)]
    return min(cost for cost, _ in pairs) / min(unit for _, unit in pairs)
