"""Results as a plain-text table: one column per team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = tuple[str, Sequence[str]]

_ROWS = (
    ("mean return", ("mean_return",), "return_ci95"),
    ("success", ("success",), "success_ci95"),
    ("cooperation index", ("cooperation", "mean"), None),
    ("convention match", ("match",), None),
    ("format success", ("faults", "format_success"), None),
    ("answers agree", ("answer_agreement",), None),
    ("turns per agent", ("cost", "turns_per_agent"), None),
    ("characters per episode", ("cost", "chars"), None),
    ("tokens read per episode", ("cost", "prompt_tokens"), None),
    ("tokens written per episode", ("cost", "completion_tokens"), None),
    ("tokens written per second", ("cost", "tokens_per_second"), None),
    ("seconds", ("cost", "seconds"), None),
    ("truncated episodes", ("faults", "truncated_episodes"), None),
    ("cut actions", ("faults", "cut_actions"), None),
    ("overlong actions", ("faults", "overlong_actions"), None),
    ("unreadable actions", ("faults", "unreadable_actions"), None),
)


def number(value: float | None) -> str:
    """Two decimals below 100, none above; "-" for what is not known."""
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    """`0.50 [0.40, 0.60]`; an interval without width says `all alike`, for it is no certainty."""
    if value is None or interval is None:
        return number(value)
    if interval[0] == interval[1]:
        return f"{number(value)} [all alike]"
    return f"{number(value)} [{number(interval[0])}, {number(interval[1])}]"


def result_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Columns side by side; rows that no result knows are left out.

    Args:
        results: heading -> what `result_to_dict` or `read_result` returns.
    """
    columns = list(results.values())
    rows: list[tuple[str, list[str]]] = []
    for name, path, interval in _ROWS:
        values = [_dig(one, path) for one in columns]
        if any(value is not None for value in values):
            cells = [
                with_interval(value, one.get(interval) if interval else None)
                for value, one in zip(values, columns, strict=True)
            ]
            rows.append((name, cells))
    for name, field in (("pass@{}", "pass_at_k"), ("term {}", "reward_terms")):
        keys = dict.fromkeys(key for one in columns for key in one.get(field) or ())
        found = [(name.format(k), [number(_dig(one, (field, k))) for one in columns]) for k in keys]
        rows[2:2] = found
    failed = [one.get("failed") for one in columns]
    if failed != [None] * len(columns):
        cells = ["-" if count is None else str(count) for count in failed]
        place = sum(name in ("mean return", "success") for name, _ in rows)
        rows.insert(place, ("failed episodes", cells))
    return format_table(("", *results), [(name, *cells) for name, cells in rows])


def _dig(one: Any, path: Sequence[str]) -> Any:
    for key in path:
        one = one.get(key) if isinstance(one, Mapping) else None
    return one


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
