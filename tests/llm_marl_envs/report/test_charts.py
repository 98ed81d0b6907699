"""Axes and charts: ticks, labels, places, bins."""

from __future__ import annotations

import html
import re

import pytest
from support.charts import odd_charts

from llm_marl_envs.report.axes import SIGN, WIDTH, Frame, labels, ticks
from llm_marl_envs.report.charts import bins, histogram, tally


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 80, [0, 20, 40, 60, 80]),
        (-0.3, 0.1, [-0.3, -0.2, -0.1, 0, 0.1]),
        (5, 5, [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]):
    found = ticks(low, high)
    if low != high:
        assert found == pytest.approx(expected)
    assert found[0] <= low
    assert found[-1] >= high
    assert len(set(labels(found))) == len(found)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1e6, 1e6 + 20, 1e6 + 40), ["1000000", "1000020", "1000040"]),
        ((0, 2e8, 4e8), ["0", "2e+08", "4e+08"]),
        ((1e9, 1e9 + 1), ["1000000000", "1000000001"]),
        ((0.1, 0.1000002), ["0.1000000", "0.1000002"]),
        ((0.0, 1e-10, 2e-10), ["0", "1e-10", "2e-10"]),
        ((-0.5, 0.0, 0.5), ["-0.5", "0.0", "0.5"]),
    ],
)
def test_labels_tell_ticks_apart(values: tuple[float, ...], expected: list[str]):
    assert labels(values) == expected


def test_no_label_of_a_chart_leaves_it():
    """Each sign of a label taken as wide as the widest; where it begins and ends follows."""
    place = re.compile(r'<text x="([-\d.]+)" y="([-\d.]+)" class="tick (middle|end)">([^<]*)<')
    for chart in odd_charts():
        rows: dict[str, list[tuple[float, float]]] = {}
        for x, y, anchor, text in place.findall(chart):
            width = SIGN * len(html.unescape(text))
            left = float(x) - (width if anchor == "end" else width / 2)
            assert left >= 0
            assert left + width <= WIDTH
            if anchor == "middle":
                rows.setdefault(y, []).append((left, left + width))
        for row in rows.values():
            assert all(end <= begin for (_, end), (begin, _) in zip(row, row[1:], strict=False))


def test_a_frame_places_numbers():
    frame = Frame.around([0, 10], [0, 1], x_label="x", y_label="y")
    assert (frame.x(0), frame.x(10)) == (46.0, 406.0)
    assert (frame.y(0), frame.y(1), frame.y(7)) == (214.0, 10.0, 10.0)


def test_bins_hold_every_value_once():
    edges, exact = bins([0.2, 1.0, 0.2, 0.6])
    assert exact
    assert tally([0.2, 1.0, 0.2, 0.6], edges) == [2, 1, 1]
    values = [i * i / 7 for i in range(50)]
    edges, exact = bins(values)
    assert not exact
    assert sum(tally(values, edges)) == 50
    assert tally([values[-1]], edges)[-1] == 1
    assert sum(tally([3.0, 3.0], bins([3.0])[0])) == 2


def test_bins_are_named_apart():
    close = histogram("close", {"a": [0.5 + i * 0.001 for i in range(100)]}, unit="share")
    names = [row[0] for row in close.numbers.rows]
    assert names[0] == "0.50000 to 0.50495"
    assert len(set(names)) == len(names) == 20
    few = histogram("few", {"a": [0.0, 0.001], "b": [0.002]}, unit="share")
    assert few.numbers.rows == (("0.000", "1", "0"), ("0.001", "1", "0"), ("0.002", "0", "1"))
    assert [bar.label for bar in few.bars] == [
        "a: 1 of 2 episodes",
        "a: 1 of 2 episodes",
        "b: 1 of 1 episodes",
    ]
    half, _, whole = few.bars
    assert whole.height == pytest.approx(2 * half.height, abs=0.2)


def test_colours_begin_anew_where_there_are_more_series():
    many = histogram("many", {f"s{i}": [float(i), 0.5] for i in range(9)}, unit="x")
    assert [colour for colour, _ in many.keys] == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert {bar.colour for bar in many.bars} == set(range(6))
