"""Curves and histograms as figures: a picture (SVG), a legend, and the numbers as a table.

No script and no picture file: colours come from the page's style sheet, so they follow its light
and dark form. What a chart shows can also be read, in the table below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.report.axes import BOTTOM, HEIGHT, Frame, number, span
from llm_marl_envs.report.markup import Markup, join, tag
from llm_marl_envs.report.series import Curve, Estimate

COLOURS = 6
"""How many series of one chart can be told apart; the style sheet has a colour for each."""
TABLE_ROWS = 25
MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measured point beside a curve: at an update, with its interval."""

    step: float
    value: Estimate


def figure(title: str, picture: Markup, legend: Markup, note: str, numbers: Markup) -> Markup:
    """A picture with its heading, legend, remark and table."""
    return tag(
        "figure",
        tag("figcaption", title),
        picture,
        legend,
        tag("p", note, class_="note"),
        tag("details", tag("summary", "Numbers"), numbers, class_="numbers"),
    )


def legend(names: Sequence[str], *extra: Markup) -> Markup:
    """A colour for each name, in order."""
    keys = [
        tag("li", tag("span", class_=f"key s{place % COLOURS}"), " ", name)
        for place, name in enumerate(names)
    ]
    return tag("ul", *keys, *extra, class_="legend")


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Markup:
    """A table whose first column names its rows; it scrolls sideways where it is too wide."""
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    return tag("div", tag("table", tag("thead", top), tag("tbody", *body)), class_="scroll")


# -- curves ---------------------------------------------------------------------------------------
def curve_chart(
    title: str, curves: Sequence[Curve], *, unit: str, held_out: Sequence[HeldOut] = ()
) -> Markup:
    """Curves over updates, each with its band; measured points where there are any."""
    ys = [y for c in curves for y in c.mean] + [y for c in curves for m in c.members for _, y in m]
    ys += [y for h in held_out for y in (h.value.interval or (h.value.mean,))]
    xs = [x for c in curves for m in c.members for x, _ in m] + [h.step for h in held_out]
    if unit == "share":
        ys += [0.0, 1.0]
    frame = Frame.around(xs, ys, x_label="update", y_label=unit)
    marks = [_draw_curve(frame, c, place % COLOURS) for place, c in enumerate(curves)]
    marks += [_held_out(frame, point) for point in held_out]
    measured = tag("li", tag("span", "●", class_="key held"), " held-out tasks")
    return figure(
        title,
        frame.draw(f"{title}, over updates", *marks),
        legend([c.name for c in curves], *([measured] if held_out else [])),
        f"Unit: {unit}. {_band(curves)}",
        _curve_table(curves),
    )


def _draw_curve(frame: Frame, curve: Curve, colour: int) -> Markup:
    band = [(x, y) for x, y in zip(curve.steps, curve.high, strict=True)]
    band += [(x, y) for x, y in zip(curve.steps, curve.low, strict=True)][::-1]
    thin = [
        tag("polyline", points=_path(frame, member), class_=f"thin s{colour}")
        for member in curve.members
        if len(member) > 1
    ]
    line = list(zip(curve.steps, curve.mean, strict=True))
    lone = [
        tag("circle", cx=frame.x(x), cy=frame.y(y), r=3, class_=f"dot s{colour}") for x, y in line
    ]
    return join(
        tag("polygon", points=_path(frame, band), class_=f"band s{colour}"),
        *thin,
        tag("polyline", points=_path(frame, line), class_=f"line s{colour}"),
        *(lone if len(line) == 1 else ()),
    )


def _path(frame: Frame, points: Sequence[tuple[float, ...]]) -> str:
    return " ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in points)


def _held_out(frame: Frame, point: HeldOut) -> Markup:
    x = frame.x(point.step)
    low, high = point.value.interval or (point.value.mean, point.value.mean)
    ends = {"y1": frame.y(low), "y2": frame.y(high)}
    return join(
        tag("line", x1=x, x2=x, **ends, class_="held"),
        tag("circle", cx=x, cy=frame.y(point.value.mean), r=4, class_="held"),
    )


def _band(curves: Sequence[Curve]) -> str:
    runs = max(len(curve.members) for curve in curves)
    if runs > 1:
        return f"Mean over {runs} runs, 95 % interval over runs (Student's t); thin: each run."
    window = max(curve.window for curve in curves)
    return (
        f"Mean of {window} update{'s' * (window > 1)}, 95 % interval of that mean (Student's t, "
        "updates taken as independent); thin: each update."
    )


def _curve_table(curves: Sequence[Curve]) -> Markup:
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
        row = [number(step)]
        for one in known:
            mean, interval = one.get(step, (None, None))
            row += [number(mean), span(interval)]
        rows.append(row)
    return table(
        ["update", *(cell for curve in curves for cell in (curve.name, "95 % interval"))], rows
    )


# -- histograms -----------------------------------------------------------------------------------
def histogram(title: str, samples: Mapping[str, Sequence[float]], *, unit: str) -> Markup:
    """Shares of episodes per bin, one colour per sample, side by side in every bin."""
    edges, exact = bins([value for values in samples.values() for value in values])
    counts = {name: tally(values, edges) for name, values in samples.items()}
    shares = {
        name: [count / max(1, len(samples[name])) for count in row] for name, row in counts.items()
    }
    top = max((share for row in shares.values() for share in row), default=1.0)
    frame = Frame.around(edges, (0.0, top), x_label=unit, y_label="share of episodes")
    bars: list[Markup] = []
    for place, (name, row) in enumerate(shares.items()):
        for index, share in enumerate(row):
            if share:
                label = f"{name}: {counts[name][index]} of {len(samples[name])} episodes"
                bars.append(_bar(frame, edges, index, (place, len(shares)), share, label))
    names = [
        (number((a + b) / 2) if exact else f"{number(a)} to {number(b)}")
        for a, b in zip(edges, edges[1:], strict=False)
    ]
    rows = [
        [name, *(str(counts[sample][i]) for sample in counts)]
        for i, name in enumerate(names)
        if any(counts[sample][i] for sample in counts)
    ]
    return figure(
        title,
        frame.draw(title, *bars),
        legend([f"{name} (n = {len(values)})" for name, values in samples.items()]),
        "Share of episodes; each bar is one value." if exact else "Share of episodes per bin.",
        table([unit, *samples], rows),
    )


def bins(values: Sequence[float]) -> tuple[list[float], bool]:
    """Edges, and whether each bin is around one of few, evenly spread values."""
    distinct = sorted({round(value, 9) for value in values})
    if not distinct:
        return [0.0, 1.0], False
    if len(distinct) == 1:
        half = abs(distinct[0]) * 0.05 or 0.05
        return [distinct[0] - half, distinct[0] + half], True
    gap = min(b - a for a, b in zip(distinct, distinct[1:], strict=False))
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


def _bar(
    frame: Frame,
    edges: Sequence[float],
    index: int,
    slot: tuple[int, int],
    share: float,
    label: str,
) -> Markup:
    place, slots = slot
    left, right = frame.x(edges[index]), frame.x(edges[index + 1])
    width = max((right - left) * 0.9 / slots, 0.5)
    top = frame.y(share)
    return tag(
        "rect",
        tag("title", label),
        x=round(left + (right - left) * 0.05 + place * width, 1),
        y=top,
        width=round(width, 1),
        height=round(HEIGHT - BOTTOM - top, 1),
        class_=f"bar s{place % COLOURS}",
    )
