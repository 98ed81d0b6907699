"""A grid as a table of HTML, for people. Pure functions."""

from __future__ import annotations

import html
from collections.abc import Sequence

SIDE = 28  # pixels of a cell
BORDER, LINE = "2px solid #333", "1px solid #bbb"


def grid_html(
    texts: Sequence[str], colours: Sequence[str], columns: int, box: tuple[int, int] | None = None
) -> str:
    """A table.

    Args:
        texts: of the cells, in reading order.
        colours: of their backgrounds, as CSS writes them.
        columns: how many cells a row has.
        box: rows and columns of the boxes that thick lines surround; None: there are none.
    """
    rows, (high, wide) = [], box or (len(texts), len(texts))
    for start in range(0, len(texts), columns):
        cells = []
        for column in range(columns):
            top = BORDER if start // columns % high == 0 else LINE
            left = BORDER if column % wide == 0 else LINE
            style = (
                f"width:{SIDE}px;height:{SIDE}px;text-align:center;border-top:{top};"
                f"border-left:{left};background:{colours[start + column]}"
            )
            cells.append(f'<td style="{style}">{html.escape(texts[start + column])}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    table = f"border-collapse:collapse;border-right:{BORDER};border-bottom:{BORDER}"
    return f'<table class="grid" style="{table}">{"".join(rows)}</table>'
