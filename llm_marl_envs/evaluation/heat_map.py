"""The matrix of a cross-play as a picture. Needs matplotlib, imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llm_marl_envs.evaluation.cross_play import CrossPlay

MAX_NUMBERED = 12
"""Up to so many teams, each cell shows its number."""


def save_heat_map(result: CrossPlay, path: str | Path) -> None:
    """Write the matrix as an image; the ending of the name says which kind.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a heat map needs matplotlib: pip install 'llm-marl-envs[eval]'") from (
            error
        )
    matrix = np.array(result.matrix)
    n_teams = len(result.teams)
    side = 2.5 + 0.6 * n_teams
    figure = Figure(figsize=(side + 1, side), layout="constrained")  # leaves pyplot's state alone
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap="viridis")
    axes.set_xticks(range(n_teams), result.teams, rotation=45, ha="right")
    axes.set_yticks(range(n_teams), result.teams)
    if len(result.agents) == 2:
        axes.set(ylabel=f"plays {result.agents[0]}", xlabel=f"plays {result.agents[1]}")
    else:
        axes.set(ylabel="plays all seats but one", xlabel="plays that one, mean over seats")
    axes.set_title(
        f"{result.env_id}, team return\nself-play {result.self_play.mean:.2f}, "
        f"cross-play {result.cross_play.mean:.2f}"
    )
    middle = (matrix.min() + matrix.max()) / 2
    for i, j in np.ndindex(*matrix.shape) if n_teams <= MAX_NUMBERED else ():
        color = "white" if matrix[i, j] <= middle else "black"
        axes.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", color=color)
    figure.colorbar(image, ax=axes, shrink=0.8)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
