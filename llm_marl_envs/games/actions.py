"""How a game reads an action from a text: one rule for all. And how splits differ in scale.

A text takes an action if exactly one of its lines is one: a word of the game alone, or behind
`Action:`. Case and spaces around it are ignored. Other lines may say anything, so a model can
reason first; what stands before the last `</think>` is not read. A word in prose is no action, and
neither are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_marl_envs.parsing import answer_of, lines_of

MAX_ACTION_CHARS = 1024
"""Of a text in a game; what is beyond is cut."""

MARK = "action:"
Scale = tuple[float, ...]
"""What the payoffs of each seat are multiplied with."""
FACTORS: dict[str, tuple[float, ...]] = {
    "train": (1.0,),
    "val": (0.7, 1.4),
    "test": (0.6, 1.7),
    "ood": (0.3, 2.9),
}
"""By what the payoffs of a split are multiplied: no game is in two splits."""


def read_action(text: str, legal: Sequence[str]) -> str | None:
    """The action that a text takes, as it is written in `legal`; None for none or several."""
    words = {word.lower(): word for word in legal}
    found: list[str] = []
    for line in lines_of(answer_of(text)):
        said = line.strip().lower()
        said = said.removeprefix(MARK).strip()
        if said in words:
            found.append(words[said])
    return found[0] if len(found) == 1 else None


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
