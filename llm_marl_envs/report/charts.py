"""Curves and histograms as records: where each mark lies, the legend, the numbers as a table.

`templates/charts.html.j2` draws them. Colours are numbers, which the page's style sheet turns into
its light and dark form. What a chart shows can also be read, in the table below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import interval, number, whole
from llm_marl_envs.report.axes import Frame, labels
from llm_marl_envs.report.series import Curve
from llm_marl_envs.report.tables import Table, table

COLOURS = 6
"""How many series of one chart can be told apart; the style sheet has a colour for each."""
TABLE_ROWS = 25
MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measured point beside a curve: at an update, with its interval."""

    step: float
    value: Estimate


@dataclass(frozen=True, slots=True)
class Line:
    """A drawn curve: colour, band, the runs or updates behind it, its path; places as SVG has them.

    A curve of one point has no path to see: `lone` is its place then, None otherwise.
    """

    colour: int
    band: str
    thin: tuple[str, ...]
    path: str
    lone: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Point:
    """A drawn measurement with the ends of its interval."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A drawn bar; pointing at it shows the label."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with its heading, legend, remark and table.

    Attributes:
        title: the heading.
        label: what the picture shows, for those who do not see it.
        frame: the axes.
        keys: (colour, name) of each series.
        note: the remark.
        numbers: what is drawn, in numbers.
        lines, points, bars: what is drawn.
    """

    title: str
    label: str
    frame: Frame
    keys: tuple[tuple[int, str], ...]
    note: str
    numbers: Table
    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()
    bars: tuple[Bar, ...] = ()


def _keys(names: Sequence[str]) -> tuple[tuple[int, str], ...]:
    return tuple((place % COLOURS, name) for place, name in enumerate(names))


# -- curves ---------------------------------------------------------------------------------------
def curve_chart(
    title: str, curves: Sequence[Curve], *, unit: str, held_out: Sequence[HeldOut] = ()
) -> Chart:
    """Curves over updates, each with its band; measured points where there are any."""
    ys = [y for c in curves for y in c.mean] + [y for c in curves for m in c.members for _, y in m]
    ys += [y for h in held_out for y in (h.value.ci95 or (h.value.mean,))]
    xs = [x for c in curves for m in c.members for x, _ in m] + [h.step for h in held_out]
    if unit == "share":
        ys += [0.0, 1.0]
    frame = Frame.around(xs, ys, x_label="update", y_label=unit)
    return Chart(
        title=title,
        label=f"{title}, over updates",
        frame=frame,
        keys=_keys([c.name for c in curves]),
        note=f"Unit: {unit}. {_band(curves)}",
        numbers=_curve_table(curves),
        lines=tuple(_line(frame, c, place % COLOURS) for place, c in enumerate(curves)),
        points=tuple(_point(frame, one) for one in held_out),
    )


def _line(frame: Frame, curve: Curve, colour: int) -> Line:
    line = list(zip(curve.steps, curve.mean, strict=True))
    band = [*zip(curve.steps, curve.high, strict=True)]
    band += [*zip(curve.steps, curve.low, strict=True)][::-1]
    return Line(
        colour,
        band=_path(frame, band),
        thin=tuple(_path(frame, member) for member in curve.members if len(member) > 1),
        path=_path(frame, line),
        lone=(frame.x(line[0][0]), frame.y(line[0][1])) if len(line) == 1 else None,
    )


def _path(frame: Frame, points: Sequence[tuple[float, ...]]) -> str:
    return " ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in points)


def _point(frame: Frame, point: HeldOut) -> Point:
    mean = point.value.mean
    low, high = point.value.ci95 or (mean, mean)
    return Point(frame.x(point.step), frame.y(mean), frame.y(low), frame.y(high))


def _band(curves: Sequence[Curve]) -> str:
    runs = max(len(curve.members) for curve in curves)
    if runs > 1:
        return f"Mean over {runs} runs, 95 % interval over runs (Student's t); thin: each run."
    window = max(curve.window for curve in curves)
    return (
        f"Mean of {window} update{'s' * (window > 1)}, 95 % interval of that mean (Student's t, "
        "updates taken as independent); thin: each update."
    )


def _curve_table(curves: Sequence[Curve]) -> Table:
    """At most `TABLE_ROWS` updates, evenly spaced, the last one among them."""
    steps = sorted({step for curve in curves for step in curve.steps})
    stride = -(-len(steps) // TABLE_ROWS)
    shown = steps[::-1][::stride][::-1]
    known = [
        {s: (m, (lo, hi)) for s, m, lo, hi in zip(c.steps, c.mean, c.low, c.high, strict=True)}
        for c in curves
    ]
    rows: list[list[str]] = []
    for step in shown:
        row = [whole(step)]
        for one in known:
            mean, ci95 = one.get(step, (None, None))
            row += [number(mean), interval(ci95)]
        rows.append(row)
    return table(
        ["update", *(cell for curve in curves for cell in (curve.name, "95 % interval"))], rows
    )


# -- histograms -----------------------------------------------------------------------------------
def histogram(title: str, samples: Mapping[str, Sequence[float]], *, unit: str) -> Chart:
    """Shares of episodes per bin, one colour per sample, side by side in every bin."""
    edges, exact = bins([value for values in samples.values() for value in values])
    counts = {name: tally(values, edges) for name, values in samples.items()}
    top = max((c / len(samples[name]) for name, row in counts.items() for c in row if c), default=1)
    frame = Frame.around(edges, (0.0, top), x_label=unit, y_label="share of episodes")
    return Chart(
        title=title,
        label=title,
        frame=frame,
        keys=_keys([f"{name} (n = {len(values)})" for name, values in samples.items()]),
        note="Share of episodes; each bar is one value." if exact else "Share of episodes per bin.",
        numbers=_bin_table(unit, counts, edges, exact),
        bars=_bars(frame, counts, edges),
    )


def _bars(
    frame: Frame, counts: Mapping[str, Sequence[int]], edges: Sequence[float]
) -> tuple[Bar, ...]:
    found: list[Bar] = []
    for place, (name, row) in enumerate(counts.items()):
        for count, (low, high) in zip(row, pairwise(edges), strict=True):
            if count:
                left, room = frame.x(low), frame.x(high) - frame.x(low)
                width = max(room * 0.9 / len(counts), 0.5)
                top = frame.y(count / sum(row))
                found.append(
                    Bar(
                        x=round(left + room * 0.05 + place * width, 1),
                        y=top,
                        width=round(width, 1),
                        height=round(frame.under - top, 1),
                        colour=place % COLOURS,
                        label=f"{name}: {count} of {sum(row)} episodes",
                    )
                )
    return tuple(found)


def _bin_table(
    unit: str, counts: Mapping[str, Sequence[int]], edges: Sequence[float], exact: bool
) -> Table:
    """The bins that hold something."""
    names = [f"{low} to {high}" for low, high in pairwise(labels(edges))]
    if exact:
        names = labels([(low + high) / 2 for low, high in pairwise(edges)])
    rows = [
        [name, *map(str, row)]
        for name, *row in zip(names, *counts.values(), strict=True)
        if any(row)
    ]
    return table([unit, *counts], rows)


def bins(values: Sequence[float]) -> tuple[list[float], bool]:
    """Edges, and whether each bin is around one of few, evenly spread values."""
    distinct = sorted({round(value, 9) for value in values})
    if not distinct:
        return [0.0, 1.0], False
    if len(distinct) == 1:
        half = abs(distinct[0]) * 0.05 or 0.05
        return [distinct[0] - half, distinct[0] + half], True
    gap = min(b - a for a, b in pairwise(distinct))
    low, high = distinct[0], distinct[-1]
    steps = (high - low) / gap if gap > 0 else float("inf")
    on_grid = steps < MOST_BARS and all(
        abs((v - low) / gap - round((v - low) / gap)) < 1e-6 for v in distinct
    )
    if on_grid:
        return [low + (i - 0.5) * gap for i in range(round(steps) + 2)], True
    width = (high - low) / MOST_BARS
    return [low + i * width for i in range(MOST_BARS)] + [high], False


def tally(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    """How many values lie in each bin; the last bin holds its upper edge."""
    counts = [0] * (len(edges) - 1)
    low, width = edges[0], (edges[-1] - edges[0]) / len(counts)
    for value in values:
        counts[min(max(int((value - low) / width), 0), len(counts) - 1)] += 1
    return counts
