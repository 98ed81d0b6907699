"""The candidates of an episode as a table of HTML, for people. Pure functions."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

LINE, RIGHT, WRONG = "1px solid #bbb", "#cfe8cf", "#f3c9c9"

Row = tuple[str, Sequence[str], str | None, bool, str]
"""Seat, its objects in its order, the one it means, whether that is the target, what it says."""


def candidates_html(rows: Iterable[Row]) -> str:
    """One line for each seat; what it means is coloured, green if it is the target."""
    lines = []
    for seat, objects, marked, right, said in rows:
        cells = [f"<th>{html.escape(seat)}</th>"]
        for one in objects:
            colour = (RIGHT if right else WRONG) if one == marked else "none"
            style = f"border:{LINE};padding:4px;background:{colour}"
            cells.append(f'<td style="{style}">{html.escape(one)}</td>')
        cells.append(f"<td>{html.escape(said)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table class="candidates" style="border-collapse:collapse">{"".join(lines)}</table>'
