"""The frame of a chart: where numbers lie on the paper, round ticks, short labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_marl_envs.report.markup import Markup, join, tag
from llm_marl_envs.report.series import finite

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 36
"""Margins; those at the sides grow with the labels."""
SIGN = 7.8
"""Width of the widest digit of a label in units of the view box, in any of the page's fonts."""


def number(value: float | None) -> str:
    """Three digits that matter: 0.123, 12.3, 1230, 1.2e-05; a dash for None."""
    if value is None or not finite(value):
        return "-"
    size = abs(value)
    if size < 0.0005 and value:
        return f"{value:.1e}"
    if size >= 1e6:
        return f"{value:.3g}"
    whole = size >= 1000 or (size >= 10 and value == round(value))
    return f"{value:.{0 if whole else 3 if size < 10 else 1}f}"


def span(interval: tuple[float, float] | None) -> str:
    """`0.10 to 0.20`; a dash for None; without width `all alike`, for that is no certainty."""
    if interval is not None and interval[0] == interval[1]:
        return "all alike"
    return "-" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


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
    """

    x_range: tuple[float, float]
    x_ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]
    x_label: str
    y_label: str

    @property
    def left(self) -> float:
        """Where the vertical axis is: right of its longest label."""
        return max(LEFT, 9 + SIGN * max(map(len, labels(self.y_ticks))))

    @property
    def right(self) -> float:
        """Where the horizontal axis ends: half of a label may hang over."""
        widest = max(map(len, labels(self.x_ticks)), default=0)
        return WIDTH - max(RIGHT, 2 + SIGN * widest / 2)

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
        return cls(x_range, inside, tuple(y_ticks), x_label, y_label)

    def x(self, value: float) -> float:
        """Horizontal place of a number, in units of the view box."""
        low, high = self.x_range
        return round(self.left + (value - low) / (high - low) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Vertical place; what lies beyond the axis is held at its edge."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def draw(self, title: str, *marks: Markup) -> Markup:
        """The whole picture: grid, labels, and the marks above them."""
        left, right = self.left, self.right
        grid = [
            join(
                tag("line", x1=left, x2=right, y1=self.y(v), y2=self.y(v), class_="grid"),
                tag("text", label, x=left - 5, y=self.y(v) + 4, class_="tick end"),
            )
            for v, label in zip(self.y_ticks, labels(self.y_ticks), strict=True)
        ]
        under = HEIGHT - BOTTOM
        grid += [
            tag("text", label, x=self.x(v), y=under + 16, class_="tick middle")
            for v, label in self._x_labels()
        ]
        middle = (left + right) / 2
        fits = int((WIDTH - 2 * abs(middle - WIDTH / 2)) / SIGN)
        return tag(
            "svg",
            tag("title", title),
            *grid,
            tag("line", x1=left, x2=right, y1=under, y2=under, class_="axis"),
            tag("text", short(self.x_label, fits), x=middle, y=HEIGHT - 4, class_="tick middle"),
            *marks,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=title,
        )

    def _x_labels(self) -> list[tuple[float, str]]:
        """(tick, its label) of as many ticks, evenly spaced, as do not run into each other."""
        both = list(zip(self.x_ticks, labels(self.x_ticks), strict=True))
        widest = SIGN * max((len(label) for _, label in both), default=0) + SIGN
        room = (self.right - self.left) / max(1, len(both) - 1)
        return both[:: max(1, -(-int(widest) // max(1, int(room))))]
