"""The frame of a chart: where numbers lie on the paper, round ticks, short labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from llm_marl_envs.files.json_files import finite

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 36
"""Margins; those at the sides grow with the labels."""
SIGN = 7.8
"""Width of the widest digit of a label in units of the view box, in any of the page's fonts."""


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at most `low` to at least `high`, 1, 2 or 5 times a power of ten apart."""
    if not high - low > 1e-12 * max(abs(low), abs(high), 1e-280):
        pad = abs(low) * 0.1 or 0.5
        low, high = low - pad, high + pad
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 12 - math.floor(math.log10(step))) for i in range(first, last + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """Ticks with as many digits as tell them apart, the same for all."""
    size = max(map(abs, values), default=0.0)
    large = size >= 1e5 or size < 1e-3
    if 1e5 <= size < 1e7 and all(v == round(v) for v in values):  # late updates
        large = False
    digits = 3 if large else next((d for d in range(6) if _exact(values, d)), 6)
    texts: list[str] = []
    for more in range(digits, 18):
        texts = [f"{v:.{more}{'g' if large else 'f'}}" for v in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _exact(values: Sequence[float], digits: int) -> bool:
    return all(abs(v - round(v, digits)) < 1e-9 for v in values)


def short(text: str, most: int) -> str:
    """`text`, or what of it fits into `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Frame:
    """Two axes.

    Attributes:
        x_range: where the horizontal axis begins and ends.
        x_ticks, y_ticks: where the labels are; the vertical axis ends at the outermost.
        x_label, y_label: what the axes show.
        left: where the vertical axis is, right of its longest label.
        right: where the horizontal axis ends; half of a label may hang over.
    """

    x_range: tuple[float, float]
    x_ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]
    x_label: str
    y_label: str
    left: float
    right: float
    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT
    under: ClassVar[int] = HEIGHT - BOTTOM

    @classmethod
    def around(
        cls, xs: Iterable[float], ys: Iterable[float], *, x_label: str, y_label: str
    ) -> Frame:
        """Axes that hold all of these points, at least one."""
        across, up = ([v for v in values if finite(v)] or [0.0] for values in (xs, ys))
        x_ticks, y_ticks = ticks(min(across), max(across)), ticks(min(up), max(up), 5)
        x_range = min(across), max(across)
        if not x_range[1] > x_range[0]:
            x_range = x_ticks[0], x_ticks[-1]
        inside = tuple(tick for tick in x_ticks if x_range[0] <= tick <= x_range[1])
        left = max(LEFT, 9 + SIGN * _widest(y_ticks))
        right = WIDTH - max(RIGHT, 2 + SIGN * _widest(inside) / 2)
        return cls(x_range, inside, tuple(y_ticks), x_label, y_label, left, right)

    def x(self, value: float) -> float:
        """Horizontal place of a number, in units of the view box."""
        low, high = self.x_range
        return round(self.left + (value - low) / (high - low) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Vertical place; what lies beyond the axis is held at its edge."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return round(self.under - share * (self.under - TOP), 1)

    @property
    def middle(self) -> float:
        """Where the name of the horizontal axis stands."""
        return (self.left + self.right) / 2

    @property
    def x_title(self) -> str:
        """The name of the horizontal axis, as much of it as fits."""
        return short(self.x_label, int((WIDTH - 2 * abs(self.middle - WIDTH / 2)) / SIGN))

    @property
    def y_labels(self) -> list[tuple[float, str]]:
        """(place, label) of each tick of the vertical axis."""
        texts = labels(self.y_ticks)
        return [(self.y(v), text) for v, text in zip(self.y_ticks, texts, strict=True)]

    @property
    def x_labels(self) -> list[tuple[float, str]]:
        """(place, label) of as many ticks, evenly spaced, as do not run into each other."""
        texts = labels(self.x_ticks)
        both = [(self.x(v), text) for v, text in zip(self.x_ticks, texts, strict=True)]
        room = (self.right - self.left) / max(1, len(both) - 1)
        widest = SIGN * (_widest(self.x_ticks) + 1)
        return both[:: max(1, -(-int(widest) // max(1, int(room))))]


def _widest(values: Sequence[float]) -> int:
    """Signs of the longest label."""
    return max(map(len, labels(values)), default=0)
