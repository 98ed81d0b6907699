"""A grid as a drawing, for people. Pure functions."""

from __future__ import annotations

import html
from collections.abc import Sequence

SIDE, MARGIN = 28, 2
"""Of a cell and around the grid, in pixels."""
LINE, BORDER = 'stroke="#bbbbbb"', 'stroke="#333333" stroke-width="2"'


def grid_svg(
    texts: Sequence[str], colours: Sequence[str], columns: int, box: tuple[int, int] | None = None
) -> str:
    """A grid as SVG; it can stand in HTML and in a file of its own.

    Args:
        texts: of the cells, in reading order.
        colours: of their backgrounds, as CSS writes them.
        columns: how many cells a row has.
        box: rows and columns of the boxes that thick lines surround; None: the whole grid alone.
    """
    rows = len(texts) // columns
    high, wide = box or (rows, columns)
    parts = []
    for at, (text, colour) in enumerate(zip(texts, colours, strict=True)):
        x, y = MARGIN + at % columns * SIDE, MARGIN + at // columns * SIDE
        parts.append(
            f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" fill="{colour}" {LINE}/>'
        )
        if text:
            parts.append(
                f'<text x="{x + SIDE / 2:g}" y="{y + SIDE / 2 + 5:g}" text-anchor="middle">'
                f"{html.escape(text)}</text>"
            )
    for row in range(0, rows, high):
        for column in range(0, columns, wide):
            parts.append(
                f'<rect x="{MARGIN + column * SIDE}" y="{MARGIN + row * SIDE}" '
                f'width="{wide * SIDE}" height="{high * SIDE}" fill="none" {BORDER}/>'
            )
    width, height = columns * SIDE + 2 * MARGIN, rows * SIDE + 2 * MARGIN
    return (
        f'<svg class="grid" width="{width}" height="{height}" font-family="monospace" '
        f'font-size="15" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
