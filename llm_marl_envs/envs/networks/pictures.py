"""A network as a drawing in HTML, for people. Pure functions."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

SIDE = 480  # pixels
REACH = 0.28  # of the circle, so that texts fit beside it
LARGE = 24  # nodes, from which on letters are small


def network_html(lines: Sequence[Sequence[int]], texts: Sequence[str], fills: Sequence[str]) -> str:
    """Nodes on a circle, as an SVG.

    Args:
        lines: the neighbours of each node.
        texts: what stands beside each node.
        fills: its colour, as CSS writes it.
    """
    nodes = len(lines)
    turns = [2 * math.pi * node / nodes for node in range(nodes)]
    places = [
        (SIDE / 2 + REACH * SIDE * math.sin(turn), SIDE / 2 - REACH * SIDE * math.cos(turn))
        for turn in turns
    ]
    parts = [
        f'<line x1="{places[i][0]:.1f}" y1="{places[i][1]:.1f}" x2="{places[j][0]:.1f}" '
        f'y2="{places[j][1]:.1f}" stroke="#888"/>'
        for i in range(nodes)
        for j in lines[i]
        if i < j
    ]
    radius, size = (14, 13) if nodes < LARGE else (5, 8)
    for (x, y), turn, text, fill in zip(places, turns, texts, fills, strict=True):
        below = y - (radius + 5) * math.cos(turn) + (size if math.cos(turn) < 0 else 0)
        side = "middle" if abs(math.sin(turn)) < 0.4 else "start" if math.sin(turn) > 0 else "end"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="#333"/>'
            f'<text x="{x + (radius + 5) * math.sin(turn):.1f}" y="{below:.1f}" '
            f'font-size="{size}" text-anchor="{side}">{html.escape(text)}</text>'
        )
    return (
        f'<svg class="network" width="{SIDE}" height="{SIDE}" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    )
