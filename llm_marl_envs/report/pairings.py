"""The cross-play part of a report: heat maps, the gap, the strangers.

Owns what of a cross-play is shown and how; a file of other tools may hold teams and matrix alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.measure.numbers.metrics import METRICS
from llm_marl_envs.measure.numbers.values import title
from llm_marl_envs.measure.studies.cross_play import CrossPlay, Matrix, axes_of
from llm_marl_envs.measure.studies.heat_map import heights
from llm_marl_envs.measure.studies.zero_shot import ZeroShot
from llm_marl_envs.report.tables import Cell, Table, capital, estimated, table

LEVELS = 9
"""Strengths of a heat map's colour, without the weakest."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A number, its colour from 0 to 9, and whether a team plays with itself."""

    text: str
    level: int
    own: bool


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A coloured matrix; `corner` says what rows and columns play."""

    title: str
    corner: str
    teams: tuple[str, ...]
    rows: tuple[tuple[HeatCell, ...], ...]


@dataclass(frozen=True, slots=True)
class Pairings:
    """The cross-play part of a page; a table is None where the file holds nothing for it."""

    seating: str
    maps: tuple[HeatMap, ...]
    means: str
    gap: Table | None
    strangers: Table | None


def pairings(cross: CrossPlay, strangers: Sequence[ZeroShot]) -> Pairings:
    """The matrices as heat maps, the gap, the strangers."""
    maps = {"mean_return": cross.matrix, "success": cross.success_matrix}
    return Pairings(
        _seating(cross),
        tuple(
            _heat_map(capital(title(name)), cross, matrix)
            for name, matrix in maps.items()
            if matrix is not None
        ),
        _means(cross.matrix),
        _gap(cross),
        _strangers(strangers) if strangers else None,
    )


def _seating(cross: CrossPlay) -> str:
    row, column = axes_of(cross.agents)
    who = f"Rows: the team that {row}. Columns: the team that {column}."
    if cross.self_play is not None and cross.self_play.n is not None:
        n = cross.self_play.n
        who = f"{who} Every pairing played {n} {'task' if n == 1 else 'tasks'}."
    if cross.failed:
        who = f"{who} {cross.failed} episodes failed, because the environment raised."
    return who


def _heat_map(name: str, cross: CrossPlay, matrix: Matrix) -> HeatMap:
    row, column = axes_of(cross.agents)
    return HeatMap(
        name,
        f"row {row}, column {column}",
        cross.teams,
        tuple(
            tuple(
                HeatCell(number(value), round(height * LEVELS), i == j)
                for j, (value, height) in enumerate(zip(*both, strict=True))
            )
            for i, both in enumerate(zip(matrix, heights(matrix), strict=True))
        ),
    )


def _means(matrix: Matrix) -> str:
    sides: dict[bool, list[float]] = {True: [], False: []}
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            if value is not None:
                sides[i == j].append(value)
    parts = [
        f"{name}: mean return {number(sum(v) / len(v))} of {len(v)} pairings"
        for name, v in (("Self-play (framed)", sides[True]), ("cross-play", sides[False]))
        if v
    ]
    return "; ".join([*parts, "the stronger the colour, the higher"]) + "."


def _gap(cross: CrossPlay) -> Table | None:
    estimates = {"self_play": cross.self_play, "cross_play": cross.cross_play, "gap": cross.gap}
    rows: list[list[Cell]] = [
        [f"{METRICS[name].title}: {METRICS[name].doc}", estimated(estimate), "these teams"]
        for name, estimate in estimates.items()
        if estimate is not None
    ]
    head = [title("mean_return"), "mean, 95 % interval", "which holds for"]
    return table(head, rows) if rows else None


def _strangers(strangers: Sequence[ZeroShot]) -> Table:
    rows = [
        [
            f"{stranger.team}, {stranger.agent}",
            stranger.convention,
            estimated(stranger.mean_return),
            number(stranger.expert_return),
        ]
        for stranger in strangers
    ]
    return table(
        ["beside scripted experts", "of convention", title("mean_return"), "experts alone"], rows
    )
