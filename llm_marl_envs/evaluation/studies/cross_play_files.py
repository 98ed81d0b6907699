"""The JSON form of a cross-play: names and matrix for a heat map, and all the scores behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_marl_envs.evaluation.numbers.estimate import (
    Estimate,
    as_filed,
    read_estimate,
    read_interval,
    read_number,
)
from llm_marl_envs.evaluation.numbers.format import number, whole, with_interval
from llm_marl_envs.evaluation.numbers.metrics import title
from llm_marl_envs.evaluation.numbers.table import format_table
from llm_marl_envs.evaluation.studies.cross_play import CrossPlay, Matrix, Seating, axes_of
from llm_marl_envs.evaluation.studies.zero_shot import ZeroShot
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.records import plain

CROSS_PLAY_VERSION = 1


def write_cross_play(
    path: str | Path, result: CrossPlay, partners: Sequence[ZeroShot] = ()
) -> None:
    """Write a result as JSON; "teams" and "matrix" are what a heat map needs."""
    strangers = [asdict(one, dict_factory=as_filed) for one in partners]
    found = plain(asdict(result, dict_factory=as_filed))
    write_json(path, {"version": CROSS_PLAY_VERSION, **found, "zero_shot": strangers})


def read_cross_play(path: str | Path) -> tuple[CrossPlay, tuple[ZeroShot, ...]]:
    """What `write_cross_play` wrote, or a file of another tool with teams and matrix.

    Raises:
        ValueError: no such file, half-written, another version, a matrix that does not fit the
            teams, or a field that is no such thing as it should be.
    """
    data = read_json(path)
    if data.get("version", CROSS_PLAY_VERSION) != CROSS_PLAY_VERSION:
        raise ValueError(
            f"{path}: version {data['version']!r}, this release reads {CROSS_PLAY_VERSION}"
        )
    try:
        return _cross_play(data), tuple(map(_stranger, data.get("zero_shot") or ()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path}: a field is missing or of the wrong kind: {error!r}") from error


def _cross_play(data: Mapping[str, Any]) -> CrossPlay:
    teams, over_teams = data.get("teams"), data.get("gap_ci95_over_teams")
    if not isinstance(teams, list) or not teams or not isinstance(data.get("matrix"), list):
        raise ValueError("expected a list of 'teams' and a list of lists 'matrix'")
    seatings, failed = tuple(map(_seating, data.get("seatings") or ())), data.get("failed")
    if failed is None and seatings:  # of a release that counted them in the seatings alone
        failed = sum(one.failed for one in seatings)
    return CrossPlay(
        teams=tuple(map(str, teams)),
        matrix=_matrix(data["matrix"], len(teams)),
        success_matrix=_matrix(data.get("success_matrix"), len(teams)),
        match_matrix=_matrix(data.get("match_matrix"), len(teams)),
        env_id=str(data.get("env_id") or ""),
        env_kwargs=dict(data.get("env_kwargs") or {}),
        agents=tuple(str(agent) for agent in data.get("agents") or ()),
        samples=data.get("samples"),
        seed=data.get("seed"),
        failed=None if failed is None else int(read_number(failed)),
        self_play=_estimate(data.get("self_play")),
        cross_play=_estimate(data.get("cross_play")),
        gap=_estimate(data.get("gap")),
        gap_ci95_over_teams=None if over_teams is None else read_interval(over_teams),
        scores=_scores(data.get("scores") or (), len(teams)),
        seatings=seatings,
    )


def _matrix(rows: Any, n: int) -> Any:
    """A `Matrix`, or None of None."""
    if rows is None:
        return None
    if len(rows) != n or any(not isinstance(row, list) or len(row) != n for row in rows):
        raise ValueError(f"a matrix must be {n} x {n}, as the teams")
    return tuple(
        tuple(None if c is None or c != c else read_number(c) for c in row) for row in rows
    )


def _scores(rows: Any, n: int) -> tuple[tuple[tuple[float, ...], ...], ...]:
    lengths = {len(entry) for row in rows for entry in row}
    if rows and ({len(rows), *map(len, rows)} != {n} or len(lengths) != 1 or not min(lengths)):
        raise ValueError(
            f"scores of {n} teams: expected {n} rows of {n} lists of one length, got rows of "
            f"{[len(row) for row in rows]} lists of lengths {sorted(lengths)}"
        )
    return tuple(tuple(tuple(map(read_number, entry)) for entry in row) for row in rows)


def _estimate(filed: Any) -> Estimate | None:
    return None if filed is None else read_estimate(filed)


def _seating(one: Mapping[str, Any]) -> Seating:
    return Seating(
        seats=dict(one["seats"]),
        mean_return=read_estimate(one["mean_return"]),
        success=one["success"],
        failed=one.get("failed", 0),
        match=one.get("match"),
    )


def _stranger(one: Mapping[str, Any]) -> ZeroShot:
    return ZeroShot(
        team=str(one["team"]),
        agent=str(one["agent"]),
        convention=str(one["convention"]),
        mean_return=read_estimate(one["mean_return"]),
        expert_return=read_number(one["expert_return"]),
        failed=one.get("failed", 0),
    )


def report(result: CrossPlay, partners: Sequence[ZeroShot] = ()) -> str:
    """The matrix, the gap and the strangers as plain text."""
    row, column = axes_of(result.agents)
    about = f"Team return. Rows: the team that {row}. Columns: the team that {column}."
    matrix: Matrix = result.matrix
    lines = [(name, *map(number, of)) for name, of in zip(result.teams, matrix, strict=True)]
    parts = [f"{about}\n{format_table(('row / column', *result.teams), lines)}"]
    names = ("self_play", "cross_play", "gap")
    rows = [(title(name), with_interval(getattr(result, name))) for name in names]
    if result.gap is not None and result.gap_ci95_over_teams is not None:
        over_teams = Estimate(result.gap.mean, result.gap_ci95_over_teams)
        rows.append((title("gap_over_teams"), with_interval(over_teams)))
    rows.append((title("failed"), whole(result.failed)))
    parts.append(format_table(("", "95 % interval"), rows))
    if partners:
        strangers = [
            (
                f"{one.team}, {one.agent} beside {one.convention}",
                with_interval(one.mean_return),
                number(one.expert_return),
                whole(one.failed),
            )
            for one in partners
        ]
        heading = [title(name) for name in ("mean_return", "expert_return", "failed")]
        parts.append(format_table(("scripted partners", *heading), strangers))
    return "\n\n".join(parts)
