"""Curves, dots and histograms: the picture, its legend, and the same numbers as a table.

Matplotlib places what is drawn, and is imported when something is. Colours and widths are those of
the page's style sheet, in its light and dark form, which knows the classes that artists carry as
`gid`. What a chart shows can also be read, in the table below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from markupsafe import Markup

from llm_marl_envs.files.json_files import finite
from llm_marl_envs.files.pictures import DRAWN, UNITS, require_matplotlib, svg_parts
from llm_marl_envs.measure.numbers.estimates import FEWEST_RUNS, Estimate
from llm_marl_envs.measure.numbers.format import interval, number, whole
from llm_marl_envs.report.series import Curve
from llm_marl_envs.report.tables import Table, table

WIDTH, HEIGHT = 420, 250
"""Of a picture, in units of its view box."""
LONGEST_LABEL = 40
"""Characters of an axis' name that are drawn."""
COLOURS = 6
"""How many series of one chart can be told apart; the style sheet has a colour for each."""
TABLE_ROWS = 25
MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measured point beside a curve: at an update, with its interval."""

    step: float
    value: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with its heading, legend, remark and table.

    Attributes:
        title: the heading.
        label: what the picture shows, for those who do not see it.
        picture: the picture, what stands in an `<svg>`.
        keys: (class, name) of each series.
        held_out: whether measurements on held-out tasks are drawn.
        note: the remark.
        numbers: what is drawn, in numbers.
    """

    title: str
    label: str
    picture: Markup
    keys: tuple[tuple[str, str], ...]
    note: str
    numbers: Table
    held_out: bool = False
    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT


def colour(place: int) -> str:
    """The class of the series at a place; they begin anew where there are more."""
    return f"s{place % COLOURS}"


def legend(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(class, name) of each series, in order."""
    return tuple((colour(place), name) for place, name in enumerate(names))


def picture(x_label: str, y_label: str, draw: Callable[[Any], None]) -> Markup:
    """What `draw` puts on matplotlib's axes, as the inside of an `<svg>`.

    Raises:
        ImportError: matplotlib is not installed; the message names the extra.
    """
    figure_class = require_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever stands in somebody's own settings
        matplotlib.rcParams.update(DRAWN)
        size = (WIDTH / UNITS, HEIGHT / UNITS)
        figure = figure_class(figsize=size, layout="constrained", frameon=False)
        axes = figure.subplots()
        axes.patch.set_visible(False)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.spines["bottom"].set_gid("axis")
        axes.tick_params(length=0, pad=6)
        axes.set_axisbelow(True)
        axes.locator_params(nbins=5)
        axes.grid(axis="y", gid="grid")
        axes.set_xlabel(textwrap.shorten(x_label, LONGEST_LABEL))
        axes.set_ylabel(textwrap.shorten(y_label, LONGEST_LABEL))
        draw(axes)
        return Markup(svg_parts(figure))


# -- curves ---------------------------------------------------------------------------------------
def curve_chart(
    title: str, curves: Sequence[Curve], *, unit: str, held_out: Sequence[HeldOut] = ()
) -> Chart:
    """Curves over updates, each with its band; measured points where there are any."""

    def draw(axes: Any) -> None:
        if unit == "share":
            axes.update_datalim([(curves[0].steps[0], 0.0), (curves[0].steps[0], 1.0)])
        for place, line in enumerate(curves):
            for member in line.members:
                axes.plot(*zip(*member, strict=True), gid=f"thin {colour(place)}")
            axes.plot(line.steps, line.mean, gid=f"line {colour(place)}")
            if len(line.steps) == 1:
                draw_dots(axes, line.steps, line.mean, colour(place))
        for point in held_out:
            ends = point.value.ci95 or (point.value.mean, point.value.mean)
            axes.vlines(point.step, *ends, gid="held")
            draw_dots(axes, [point.step], [point.value.mean], "held")
        bottom, top = axes.get_ylim()  # a wide band is cut off here
        for place, line in enumerate(curves):
            low, high = np.clip(line.low, bottom, top), np.clip(line.high, bottom, top)
            axes.fill_between(line.steps, low, high, gid=f"band {colour(place)}")

    return Chart(
        title=title,
        label=f"{title}, over updates",
        picture=picture("update", unit, draw),
        keys=legend(line.name for line in curves),
        held_out=bool(held_out),
        note=f"Unit: {unit}. {_band(curves)}",
        numbers=_curve_table(curves),
    )


def draw_dots(axes: Any, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
    """Dots of a class: lines without length, whose ends the style sheet rounds."""
    axes.vlines(xs, ys, ys, gid=f"dot {kind}")


def _band(curves: Sequence[Curve]) -> str:
    runs = max(len(curve.members) for curve in curves)
    if runs > 1:
        band = "no interval of so few" if runs < FEWEST_RUNS else "95 % interval over runs"
        return f"Mean over {runs} runs, {band} (Student's t); thin: each run."
    window = max(curve.window for curve in curves)
    return (
        f"Mean of {window} update{'s' * (window > 1)}, 95 % interval of that mean (Student's t for "
        "updates that resemble their neighbours); thin: each update."
    )


def _curve_table(curves: Sequence[Curve]) -> Table:
    """At most `TABLE_ROWS` updates, evenly spaced, the last one among them."""
    steps = sorted({step for curve in curves for step in curve.steps})
    stride = -(-len(steps) // TABLE_ROWS)
    shown = steps[::-1][::stride][::-1]
    columns = [
        {s: (m, (lo, hi)) for s, m, lo, hi in zip(c.steps, c.mean, c.low, c.high, strict=True)}
        for c in curves
    ]
    rows: list[list[str]] = []
    for step in shown:
        row = [whole(step)]
        for column in columns:
            mean, ci95 = column.get(step, (None, None))
            row += [number(mean), interval(ci95 if ci95 and finite(ci95[0]) else None)]
        rows.append(row)
    return table(
        ["update", *(cell for curve in curves for cell in (curve.name, "95 % interval"))], rows
    )


# -- histograms -----------------------------------------------------------------------------------
def histogram(title: str, samples: Mapping[str, Sequence[float]], *, unit: str) -> Chart:
    """Shares of episodes per bin, one colour per sample, side by side in every bin."""
    edges, exact = bins([value for values in samples.values() for value in values])
    counts = {name: tally(values, edges) for name, values in samples.items()}
    room = (edges[-1] - edges[0]) / (len(edges) - 1)
    width = room * 0.9 / len(counts)

    def draw(axes: Any) -> None:
        for place, row in enumerate(counts.values()):
            lefts = np.array(edges[:-1]) + room * 0.05 + place * width
            heights = np.array(row) / max(1, sum(row))
            axes.bar(lefts, heights, width, align="edge", gid=f"bar {colour(place)}")

    return Chart(
        title=title,
        label=title,
        picture=picture(unit, "share of episodes", draw),
        keys=legend(f"{name} (n = {len(values)})" for name, values in samples.items()),
        note="Share of episodes; each bar is one value." if exact else "Share of episodes per bin.",
        numbers=_bin_table(unit, counts, edges, exact),
    )


def _bin_table(
    unit: str, counts: Mapping[str, Sequence[int]], edges: Sequence[float], exact: bool
) -> Table:
    """The bins that hold something."""
    names = [f"{low} to {high}" for low, high in pairwise(_apart(edges))]
    if exact:
        names = _apart([(low + high) / 2 for low, high in pairwise(edges)])
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
    return np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0].tolist()


def _apart(values: Sequence[float]) -> list[str]:
    """Numbers as everywhere; with more digits where those do not tell them apart."""
    names, digits = [number(value) for value in values], 3
    while len(set(names)) < len(set(values)):
        names, digits = [f"{value:.{digits}g}" for value in values], digits + 1
    return names
