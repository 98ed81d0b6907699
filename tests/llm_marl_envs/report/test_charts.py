"""Charts: labels, classes, bins."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.charts import odd_charts
from support.reports import a_run

from llm_marl_envs.cli import main
from llm_marl_envs.report.charts import WIDTH, bins, histogram, tally

SIGN = 7.64
"""Width of a digit of a label: 0.636 em of DejaVu Sans, in units of the view box."""


def test_no_label_of_a_chart_leaves_it():
    """Where each number of an axis begins and ends follows from how wide matplotlib's font is."""
    place = re.compile(
        r'<text x="([-\d.]+)" y="([-\d.]+)" transform="rotate\(-0 .+?" '
        r'text-anchor="(middle|end)">([^<]*\d)<'
    )
    for chart in odd_charts():
        rows: dict[str, list[tuple[float, float]]] = {}
        for x, y, anchor, text in place.findall(chart):
            width = SIGN * len(html.unescape(text))
            left = float(x) - (width if anchor == "end" else width / 2)
            assert left >= 0
            assert left + width <= WIDTH + 1
            if anchor == "middle":
                rows.setdefault(y, []).append((left, left + width))
        assert rows
        for row in rows.values():
            assert all(end <= begin for (_, end), (begin, _) in zip(row, row[1:], strict=False))


def test_pictures_are_told_apart_by_classes_alone():
    """Ids would stand twice in a page; colours of their own would not follow its dark form."""
    for chart in odd_charts():
        picture = chart[chart.index("<svg") : chart.index("</svg>")]
        assert not re.search(r"\b(id|style|fill|stroke|xlink\S*|clip-path)=", picture)
        assert re.search(r'class="(line|bar) s0"', picture)


def test_pictures_leave_no_state_and_need_an_extra(
    tmp_path: Path,
    run_python: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    run = a_run(tmp_path)
    program = (
        "import sys\n"
        "from llm_marl_envs.report import write_report\n"
        "print('matplotlib' in sys.modules)\n"
        f"write_report({str(run)!r})\n"
        "import matplotlib\n"
        "print('matplotlib.pyplot' in sys.modules, matplotlib.rcParams['svg.fonttype'])"
    )
    assert run_python(program).split() == ["False", "False", "path"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["report", str(run)]) == 2
    assert "llm-marl-envs[eval]" in capsys.readouterr().err


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
    assert names[0] == "0.5 to 0.505"
    assert len(set(names)) == len(names) == 20
    few = histogram("few", {"a": [0.0, 0.001], "b": [0.002]}, unit="share")
    assert few.numbers.rows == (("0.00", "1", "0"), ("0.001", "1", "0"), ("0.002", "0", "1"))


def test_colours_begin_anew_where_there_are_more_series():
    many = histogram("many", {f"s{i}": [float(i), 0.5] for i in range(9)}, unit="x")
    assert len(many.keys) == 9
    assert {*re.findall(r'class="bar (s\d)"', many.picture)} == {f"s{i}" for i in range(6)}


def test_bars_are_as_high_as_their_share():
    few = histogram("few", {"a": [0.0, 0.001], "b": [0.002]}, unit="share")
    bars = re.findall(r'class="bar s\d">\s*<path d="([^"]+)"', few.picture)
    tall = [np.ptp([float(y) for y in re.findall(r"[ML] \S+ (\S+)", one)]) for one in bars]
    half, other, whole = (one for one in tall if one > 0)
    assert half == other
    assert whole == pytest.approx(2 * half, abs=0.3)
