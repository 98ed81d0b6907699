"""The cross-play part of a report: heat maps, the gap, the strangers.

Reads the JSON that `evaluation/studies/cross_play_files.py` writes. Only "teams" and "matrix" must
be there, so that other tools can write one, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.evaluation.numbers.estimate import (
    Estimate,
    read_estimate,
    read_interval,
    read_number,
)
from llm_marl_envs.evaluation.numbers.format import number
from llm_marl_envs.evaluation.numbers.metrics import METRICS, title
from llm_marl_envs.evaluation.studies.cross_play import axes_of
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.report.tables import Cell, Table, capital, estimated, table

Matrix = tuple[tuple[float | None, ...], ...]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossPlay:
    """Teams in each other's seats; other tools may give teams and matrix alone.

    Attributes:
        teams: their names.
        matrix: [i][j] is what team i earns with team j in the second seat (in one of the others,
            where there are more than two); None not played.
        success_matrix: the same, shares of solved episodes; None where the environment does not
            say.
        env_id: what was played, "" where the file does not say.
        agents: the seats, () likewise.
        failed: episodes whose environment raised, None likewise.
        self_play, cross_play, gap: means over pairings, None likewise.
        gap_ci95_over_teams: the gap's interval where teams are drawn, too.
    """

    teams: tuple[str, ...]
    matrix: Matrix
    success_matrix: Matrix | None = None
    env_id: str = ""
    agents: tuple[str, ...] = ()
    failed: int | None = None
    self_play: Estimate | None = None
    cross_play: Estimate | None = None
    gap: Estimate | None = None
    gap_ci95_over_teams: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroShot:
    """What a seat of a team earned beside scripted experts, and what experts alone earn."""

    team: str
    agent: str
    convention: str
    mean_return: Estimate
    expert_return: float


# -- reading --------------------------------------------------------------------------------------
def read_cross_play(path: str | Path) -> tuple[CrossPlay, tuple[ZeroShot, ...]]:
    """Read a matrix of teams and what stands beside it.

    Raises:
        ValueError: no such file, half-written, no square matrix of numbers or null with one name
            per team, or another field that is no such thing as it should be.
    """
    data = read_json(path)
    try:
        return _cross_play(data), tuple(map(_stranger, data.get("zero_shot") or ()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: a field is missing or of the wrong kind: {error!r}") from error


def _cross_play(data: Mapping[str, Any]) -> CrossPlay:
    teams, matrix = data.get("teams"), data.get("matrix")
    if not isinstance(teams, list) or not isinstance(matrix, list) or not teams:
        raise ValueError("expected a list of 'teams' and a list of lists 'matrix'")
    solved, over_teams = data.get("success_matrix"), data.get("gap_ci95_over_teams")
    return CrossPlay(
        teams=tuple(map(str, teams)),
        matrix=_matrix(matrix, len(teams)),
        success_matrix=None if solved is None else _matrix(solved, len(teams)),
        env_id=str(data.get("env_id") or ""),
        agents=tuple(map(str, data.get("agents") or ())),
        failed=None if data.get("failed") is None else int(read_number(data["failed"])),
        self_play=_estimate(data.get("self_play")),
        cross_play=_estimate(data.get("cross_play")),
        gap=_estimate(data.get("gap")),
        gap_ci95_over_teams=None if over_teams is None else read_interval(over_teams),
    )


def _estimate(filed: Any) -> Estimate | None:
    return None if filed is None else read_estimate(filed)


def _matrix(rows: Any, n: int) -> Matrix:
    if len(rows) != n or any(not isinstance(row, list) or len(row) != n for row in rows):
        raise ValueError(f"a matrix must be {n} x {n}, as the teams")
    return tuple(
        tuple(None if c is None or c != c else read_number(c) for c in row) for row in rows
    )


def _stranger(data: Mapping[str, Any]) -> ZeroShot:
    return ZeroShot(
        team=str(data["team"]),
        agent=str(data["agent"]),
        convention=str(data["convention"]),
        mean_return=read_estimate(data["mean_return"]),
        expert_return=read_number(data["expert_return"]),
    )


# -- showing --------------------------------------------------------------------------------------
def pairings(cross: CrossPlay, strangers: Sequence[ZeroShot]) -> Pairings:
    """The matrices as heat maps, the gap, the strangers."""
    maps = {"mean_return": cross.matrix, "success": cross.success_matrix}
    return Pairings(
        _seating(cross),
        tuple(
            _heat_map(capital(title(name)), cross, one)
            for name, one in maps.items()
            if one is not None
        ),
        _means(cross.matrix),
        _gap(cross),
        _strangers(strangers) if strangers else None,
    )


def _seating(cross: CrossPlay) -> str:
    row, column = axes_of(cross.agents)
    who = f"Rows: the team that {row}. Columns: the team that {column}."
    if cross.self_play is not None and cross.self_play.n is not None:
        who = f"{who} Every pairing played {cross.self_play.n} tasks."
    if cross.failed:
        who = f"{who} {cross.failed} episodes failed, because the environment raised; tasks left "
        who = f"{who}without any in some pairing are in none."
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


def heights(matrix: Matrix) -> list[list[float]]:
    """Where each entry stands from the lowest, 0, to the highest, 1; 0 where it is not known."""
    known = [cell for row in matrix for cell in row if cell is not None]
    low = min(known, default=0.0)
    span = max(known, default=0.0) - low or 1.0
    return [[0.0 if cell is None else (cell - low) / span for cell in row] for row in matrix]


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
    found = {"self_play": cross.self_play, "cross_play": cross.cross_play, "gap": cross.gap}
    rows: list[list[Cell]] = [
        [f"{METRICS[name].title}: {METRICS[name].doc}", estimated(one), "these teams"]
        for name, one in found.items()
        if one is not None
    ]
    if cross.gap is not None and cross.gap_ci95_over_teams is not None:
        drawn = Estimate(cross.gap.mean, cross.gap_ci95_over_teams)
        rows.append([title("gap_over_teams"), estimated(drawn), "teams trained like these"])
    head = [title("mean_return"), "mean, 95 % interval", "which holds for"]
    return table(head, rows) if rows else None


def _strangers(strangers: Sequence[ZeroShot]) -> Table:
    rows = [
        [
            f"{one.team}, {one.agent}",
            one.convention,
            estimated(one.mean_return),
            number(one.expert_return),
        ]
        for one in strangers
    ]
    return table(
        ["beside scripted experts", "of convention", title("mean_return"), "experts alone"], rows
    )
