"""Results as a plain-text table: one column per team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.measure.numbers.estimate import Estimate
from llm_marl_envs.measure.numbers.format import whole, with_interval
from llm_marl_envs.measure.numbers.lookup import read, title
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric


def result_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Columns side by side; rows that no result knows are left out.

    Args:
        results: heading -> what `result_to_dict` or `read_result` returns.
    """
    rows = []
    for metric in METRICS.values():
        columns = [read(metric, one) for one in results.values()]
        for name in dict.fromkeys(name for one in columns for name in one):
            cells = [shown(metric, one.get(name)) for one in columns]
            rows.append((title(name), *cells))
    return format_table(("", *results), rows)


def shown(metric: Metric, one: Estimate | None) -> str:
    """A number with its interval; a count without decimals."""
    return whole(one and one.mean) if metric.unit == "count" else with_interval(one)


def format_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """First column left, the others right, two spaces between."""
    lines = [list(heading), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
