"""How a measured number is written, in tables, pictures and pages alike.

Owns the digits, and columns of plain text. Which numbers stand in a table is `tables.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llm_marl_envs.measure.numbers.estimates import ALIKE, Estimate

NOTHING = "-"
"""What is not known."""
# What sums of floats leave behind is no number to show.
DUST = 1e-12


def number(value: float | None, *, sign: bool = False) -> str:
    """Two decimals below 100, none above; two digits that matter below 0.005.

    Args:
        value: "-" for None, NaN and infinities.
        sign: put "+" before what is positive.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    plus, size = "+" if sign else "", abs(value)
    if size < DUST:
        return f"{0.0:{plus}.2f}"
    if size < 0.005 or size >= 1e9:
        return f"{value:{plus}.2g}"
    return f"{value:{plus}.{2 if size < 100 else 0}f}"


def whole(value: float | None) -> str:
    """A count, without decimals; "-" for None."""
    return NOTHING if value is None else f"{value:.0f}"


def interval(ci95: Sequence[float] | None, *, sign: bool = False) -> str:
    """`[0.40, 0.60]`, `all alike` of one without width, "-" for None."""
    if ci95 is None:
        return NOTHING
    low, high = ci95
    if low == high:
        return ALIKE
    return f"[{number(low, sign=sign)}, {number(high, sign=sign)}]"


def with_interval(estimate: Estimate | None, *, sign: bool = False) -> str:
    """`0.50 [0.40, 0.60]`, or why there is none: `0.50 [too few tasks: 5]`; "-" for None."""
    if estimate is None:
        return NOTHING
    shown, mean = within(estimate, sign=sign), number(estimate.mean, sign=sign)
    return f"{mean} {shown if shown.startswith('[') else f'[{shown}]'}" if shown else mean


def within(estimate: Estimate, *, sign: bool = False) -> str:
    """The interval of an estimate, or why it has none; empty where nobody says."""
    return estimate.why if estimate.ci95 is None else interval(estimate.ci95, sign=sign)


def p_value(p: float) -> str:
    """Four digits that matter."""
    return f"{p:.4g}"


def percent(share: float) -> str:
    """A share as `12.3%`."""
    return f"{share:.1%}"


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
