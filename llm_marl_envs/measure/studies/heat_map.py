"""The matrix of a cross-play as a picture. Needs matplotlib, imported when it is called.

Owns where an entry stands between the lowest and the highest; the page of a report shows the same.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.files.pictures import plain_text, require_matplotlib
from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.measure.numbers.values import title
from llm_marl_envs.measure.studies.cross_play import axes_of

if TYPE_CHECKING:
    from llm_marl_envs.measure.studies.cross_play import CrossPlay, Matrix

MAX_NUMBERED = 12
"""Up to so many teams, each cell shows its number."""
MAX_NAME = 32
"""Characters of a team's name that are drawn; of a longer one the end, which tells paths apart."""
LEAST_WIDTH = 52
"""Characters of the title and of the axes' names that fit on a line of the smallest picture."""


def heights(matrix: Matrix) -> list[list[float]]:
    """Where each entry stands from the lowest, 0, to the highest, 1; 0 where nobody played."""
    cells = [cell for row in matrix for cell in row if cell is not None]
    low = min(cells, default=0.0)
    span = max(cells, default=0.0) - low or 1.0
    return [[0.0 if cell is None else (cell - low) / span for cell in row] for row in matrix]


def save_heat_map(result: CrossPlay, path: str | Path) -> None:
    """Write the matrix as an image; the ending of the name says which kind.

    Raises:
        ImportError: matplotlib is not installed.
    """
    matrix = np.array(result.matrix, dtype=np.float64)  # what nobody played is NaN
    n_teams = len(result.teams)
    names = [_short(team) for team in result.teams]
    side = 2.5 + 0.6 * n_teams + 0.06 * max(map(len, names))  # inches
    figure = require_matplotlib()(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap="viridis")
    axes.set_xticks(range(n_teams), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n_teams), names)
    width = max(LEAST_WIDTH, 9 * n_teams)
    row, column = (textwrap.fill(plain_text(axis), width - 16) for axis in axes_of(result.agents))
    axes.set(ylabel=f"row {row}", xlabel=f"column {column}")
    means = ", ".join(
        f"{title(name)} {number(estimate.mean)}"
        for name in ("self_play", "cross_play")
        if (estimate := getattr(result, name)) is not None
    )
    heading = textwrap.fill(plain_text(f"{result.env_id}, {title('mean_return')}"), width)
    axes.set_title(f"{heading}\n{means}", fontsize="medium")
    height = heights(result.matrix)
    for i, j in np.ndindex(*matrix.shape) if n_teams <= MAX_NUMBERED else ():
        color = "white" if height[i][j] <= 0.5 else "black"
        text = number(result.matrix[i][j])
        size = "medium" if len(text) <= 5 else "x-small"
        axes.text(j, i, text, ha="center", va="center", color=color, fontsize=size)
    figure.colorbar(image, ax=axes, shrink=0.8)
    path = Path(path)
    with replacing(path) as partial:  # "tight" keeps names that the layout had no room for
        kind = path.suffix.removeprefix(".") or "png"
        figure.savefig(partial, dpi=150, bbox_inches="tight", format=kind)


def _short(name: str) -> str:
    name = plain_text(name)
    return name if len(name) <= MAX_NAME else f"…{name[1 - MAX_NAME :]}"
