"""Charts whose numbers, labels and names are hard to place."""

from __future__ import annotations

from support.reports import macro

from llm_marl_envs.report.charts import Chart, curve_chart, histogram
from llm_marl_envs.report.series import curve

ODD_CURVES: dict[str, list[tuple[float, float]]] = {
    "huge": [(i, -1e9 * i) for i in range(200)],
    "narrow": [(i, -123456.789 + i * 1e-5) for i in range(200)],
    "tiny": [(i, 1e-9 * i) for i in range(200)],
    "one": [(1, 12345678.9)],
    "late": [(10**6 + i, i) for i in range(60)],
    "later": [(12_345_678 * i, i) for i in range(60)],
    "wide": [(i, (-1.0) ** i * 10 ** (i / 3)) for i in range(60)],
}


LONG_UNIT = "a unit whose name somebody chose to write out in full, to the end and beyond, twice"


def odd_charts() -> list[str]:
    """Each as HTML."""
    found: list[Chart] = []
    for name, points in ODD_CURVES.items():
        one = curve([[{"step": x, name: y} for x, y in points]], name)
        assert one is not None
        found.append(curve_chart(name, [one], unit="reward"))
    samples = {"a/b/c/" * 9: [-1234567.0, -3.5, 0.0], "W" * 80: [5.0] * 200}
    found.append(histogram("far apart", samples, unit=LONG_UNIT))
    found.append(
        histogram("many", {f"s{k}": [k + i / 7 for i in range(200)] for k in range(9)}, unit="x")
    )
    found.append(histogram("one", {"one": [1e-12]}, unit="team return"))
    found.append(histogram("long", {"one": [1e5 + 1e3 * i for i in range(200)]}, unit="characters"))
    return [macro("charts.html.j2", "chart", one) for one in found]
