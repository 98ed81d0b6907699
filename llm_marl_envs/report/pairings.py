"""The cross-play part of a report: what its file holds, and the tables that show it.

Reads the JSON that `evaluation/studies/cross_play_files.py` writes. Only "teams" and "matrix" must
be there, so that other tools can write one, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.evaluation.studies.cross_play import axes_of
from llm_marl_envs.report.axes import number, span
from llm_marl_envs.report.series import finite
from llm_marl_envs.report.tables import Cell, Noted, Table, table

Matrix = tuple[tuple[float | None, ...], ...]
Estimate = tuple[float, tuple[float, float]]
"""a mean and its 95 % interval"""

SUMMARY = {
    "self_play": "self-play: members of one team",
    "cross_play": "cross-play: members of two teams",
    "gap": "gap: self-play minus cross-play",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """What a seat of a team earned beside scripted experts, and what experts alone earn."""

    team: str
    agent: str
    convention: str
    earned: Estimate
    experts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossPlay:
    """Teams in each other's seats.

    Attributes:
        teams: their names.
        matrix: [i][j] is what team i earns with team j in the second seat (in one of the others,
            where there are more than two); None not played.
        solved: the same, shares of solved episodes; None where the environment does not say.
        env_id: what was played, "" where the file does not say.
        agents: the seats, () likewise.
        n_tasks: tasks of every pairing, None likewise.
        failed: episodes whose environment raised, None likewise.
        summary: those of `SUMMARY` that the file holds.
        gap_over_teams: the gap's interval where teams are drawn, too.
        strangers: scripted partners.
    """

    teams: tuple[str, ...]
    matrix: Matrix
    solved: Matrix | None = None
    env_id: str = ""
    agents: tuple[str, ...] = ()
    n_tasks: int | None = None
    failed: int | None = None
    summary: Mapping[str, Estimate]
    gap_over_teams: tuple[float, float] | None = None
    strangers: tuple[Stranger, ...] = ()


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


# -- reading --------------------------------------------------------------------------------------
def read_cross_play(path: str | Path) -> CrossPlay:
    """Read a matrix of teams and what stands beside it.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no square matrix of numbers or null with one name per team, or another field
            that is no such thing as it should be.
    """
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON: {error or 'nested too deeply'}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(value).__name__}")
    try:
        return _cross_play(value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path}: a field is missing or of the wrong kind: {error!r}") from error


def _cross_play(value: Mapping[str, Any]) -> CrossPlay:
    teams, matrix = value.get("teams"), value.get("matrix")
    if not isinstance(teams, list) or not isinstance(matrix, list) or not teams:
        raise ValueError("expected a list of 'teams' and a list of lists 'matrix'")
    solved, over_teams = value.get("success_matrix"), value.get("gap_ci95_over_teams")
    summary = {key: _estimate(value[key]) for key in SUMMARY if value.get(key) is not None}
    counts = [value[key].get("n_tasks") for key in summary]
    return CrossPlay(
        teams=tuple(str(team) for team in teams),
        matrix=_matrix(matrix, len(teams)),
        solved=None if solved is None else _matrix(solved, len(teams)),
        env_id=str(value.get("env_id") or ""),
        agents=tuple(str(agent) for agent in value.get("agents") or ()),
        n_tasks=next((n for n in counts if isinstance(n, int)), None),
        failed=None if value.get("failed") is None else int(_finite(value["failed"])),
        summary=summary,
        gap_over_teams=None if over_teams is None else _interval(over_teams),
        strangers=tuple(
            Stranger(
                team=str(one["team"]),
                agent=str(one["agent"]),
                convention=str(one["convention"]),
                earned=_estimate(one["mean_return"]),
                experts=_finite(one["expert_return"]),
            )
            for one in value.get("zero_shot") or ()
        ),
    )


def _matrix(rows: Any, n: int) -> Matrix:
    if len(rows) != n or any(not isinstance(row, list) or len(row) != n for row in rows):
        raise ValueError(f"the matrix must be {n} x {n}, as the teams")
    return tuple(tuple(None if c is None or c != c else _finite(c) for c in row) for row in rows)


def _estimate(one: Mapping[str, Any]) -> Estimate:
    return _finite(one["mean"]), _interval(one["ci95"])


def _interval(pair: Sequence[Any]) -> tuple[float, float]:
    low, high = pair
    return _finite(low), _finite(high)


def _finite(value: Any) -> float:
    if not finite(value):
        raise ValueError(f"expected a finite number or null, got {value!r}")
    return float(value)


# -- showing --------------------------------------------------------------------------------------
def pairings(cross: CrossPlay) -> Pairings:
    """The matrices as heat maps, the gap, the strangers."""
    maps = {"Team return": cross.matrix, "Solved": cross.solved}
    return Pairings(
        _seating(cross),
        tuple(_heat_map(title, cross, one) for title, one in maps.items() if one is not None),
        _means(cross.matrix),
        _gap(cross),
        _strangers(cross) if cross.strangers else None,
    )


def _seating(cross: CrossPlay) -> str:
    row, column = axes_of(cross.agents)
    who = f"Rows: the team that {row}. Columns: the team that {column}."
    if cross.n_tasks is not None:
        who = f"{who} Every pairing played {cross.n_tasks} tasks."
    if cross.failed:
        who = f"{who} {cross.failed} episodes failed, because the environment raised; tasks left "
        who = f"{who}without any in some pairing are in none."
    return who


def _heat_map(title: str, cross: CrossPlay, matrix: Matrix) -> HeatMap:
    known = [cell for row in matrix for cell in row if cell is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)

    def cell(value: float | None, own: bool) -> HeatCell:
        level = 0 if value is None or high <= low else round((value - low) / (high - low) * 9)
        return HeatCell(number(value), level, own)

    row_plays, column_plays = axes_of(cross.agents)
    return HeatMap(
        title,
        f"row {row_plays}, column {column_plays}",
        cross.teams,
        tuple(
            tuple(cell(value, i == j) for j, value in enumerate(row))
            for i, row in enumerate(matrix)
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
    rows = [[SUMMARY[k], _shown(one), "these teams"] for k, one in cross.summary.items()]
    if cross.gap_over_teams is not None and "gap" in cross.summary:
        mean, _ = cross.summary["gap"]
        rows.append(
            [SUMMARY["gap"], _shown((mean, cross.gap_over_teams)), "teams trained like these"]
        )
    return table(["team return", "mean, 95 % interval", "which holds for"], rows) if rows else None


def _strangers(cross: CrossPlay) -> Table:
    rows = [
        [f"{one.team}, {one.agent}", one.convention, _shown(one.earned), number(one.experts)]
        for one in cross.strangers
    ]
    return table(["beside scripted experts", "of convention", "team return", "experts alone"], rows)


def _shown(one: Estimate) -> Cell:
    mean, interval = one
    return Noted(number(mean), span(interval))
