"""How the splits of a game differ: what the payoffs of their tasks are multiplied with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

from llm_marl_envs.core.options import EXPECTED, Positive

Scales = Annotated[Sequence[Positive | Sequence[Positive]], Field(min_length=1)]
"""One entry per task: a number for all seats, or one for each."""
_READ = TypeAdapter(Scales, config=ConfigDict(strict=True))
Scale = tuple[float, ...]
"""What the payoffs of each seat are multiplied with."""
FACTORS: dict[str, tuple[float, ...]] = {
    "train": (1.0,),
    "val": (0.7, 1.4),
    "test": (0.6, 1.7),
    "ood": (0.3, 2.9),
}
"""By what the payoffs of a split are multiplied: no game is in two splits."""


def scales_field() -> Any:
    """The argument `scales`."""
    return Field(
        default=(1.0,),
        description="one entry per task, by which its rewards are multiplied: a number, or a list "
        "with one for each seat. Splits other than train have up to 6 tasks, at least one an entry",
        json_schema_extra={EXPECTED: "a list, each a number above 0 or one for each seat"},
    )


def task_scales(scales: Sequence[float | Sequence[float]], seats: int) -> tuple[Scale, ...]:
    """The argument `scales`: one entry per task, a number for all seats or one number per seat.

    Raises:
        ValueError: an entry that has not one number for each seat.
    """
    rows = [tuple(entry) if isinstance(entry, Sequence) else (entry,) * seats for entry in scales]
    if any(len(entry) != seats for entry in rows):
        raise ValueError(f"scales={scales!r:.200}: expected {seats} numbers, one for each seat")
    return tuple(tuple(map(float, entry)) for entry in rows)


def scale_of_row(row: Mapping[str, Any], seats: int, name: str = "scale") -> Scale:
    """What a row's payoffs are multiplied with: its `scale`, 1 without one.

    Raises:
        ValueError: no number above 0, and no list of one for each seat.
    """
    value = row.get(name, 1.0)
    try:
        return task_scales(_READ.validate_python([value]), seats)[0]
    except ValueError:
        raise ValueError(
            f"{name}={value!r:.100}: expected a number above 0, or {seats} of them"
        ) from None
