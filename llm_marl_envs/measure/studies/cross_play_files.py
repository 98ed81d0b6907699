"""The JSON form of a cross-play: names and matrix for a heat map, and all the scores behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import plain
from llm_marl_envs.files.json_files import from_json, read_json, write_json
from llm_marl_envs.measure.numbers.estimates import as_filed
from llm_marl_envs.measure.numbers.format import format_table, number, whole, with_interval
from llm_marl_envs.measure.numbers.values import title
from llm_marl_envs.measure.studies.cross_play import CrossPlay, Matrix, axes_of
from llm_marl_envs.measure.studies.zero_shot import ZeroShot

CROSS_PLAY_VERSION = 1


def write_cross_play(
    path: str | Path, result: CrossPlay, partners: Sequence[ZeroShot] = ()
) -> None:
    """Write a result as JSON; "teams" and "matrix" are what a heat map needs."""
    strangers = [asdict(partner, dict_factory=as_filed) for partner in partners]
    fields = plain(asdict(result, dict_factory=as_filed))
    write_json(path, {"version": CROSS_PLAY_VERSION, **fields, "zero_shot": strangers})


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
    if isinstance(data.get("teams"), list):  # others may number theirs
        data["teams"] = [str(team) for team in data["teams"]]
    for name in data.keys() & {"matrix", "success_matrix", "match_matrix"}:
        data[name] = _without_nan(data[name])
    result: CrossPlay = from_json(CrossPlay, data, path)
    _check_shapes(result, path)
    if result.failed is None and result.seatings:  # of a release that counted them there alone
        result = replace(result, failed=sum(seating.failed for seating in result.seatings))
    strangers = data.get("zero_shot") or []
    return result, from_json(tuple[ZeroShot, ...], strangers, f"{path}, zero_shot")


def _without_nan(rows: Any) -> Any:
    """A matrix with null for NaN, as others write that nobody played."""
    if isinstance(rows, list):
        return [_without_nan(row) for row in rows]
    return rows if rows == rows else None


def _check_shapes(result: CrossPlay, where: str | Path) -> None:
    n = len(result.teams)
    if not n:
        raise ValueError(f"{where}: no teams")
    for matrix in (result.matrix, result.success_matrix, result.match_matrix):
        if matrix is not None and {len(matrix), *map(len, matrix)} != {n}:
            raise ValueError(f"{where}: a matrix must be {n} x {n}, as the teams")
    rows = result.scores
    lengths = {len(entry) for row in rows for entry in row}
    if rows and ({len(rows), *map(len, rows)} != {n} or len(lengths) != 1 or not min(lengths)):
        raise ValueError(
            f"{where}: scores of {n} teams: expected {n} rows of {n} lists of one length, got rows "
            f"of {[len(row) for row in rows]} lists of lengths {sorted(lengths)}"
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
    rows.append((title("failed"), whole(result.failed)))
    parts.append(format_table(("", "95 % interval"), rows))
    if partners:
        strangers = [
            (
                f"{partner.team}, {partner.agent} beside {partner.convention}",
                with_interval(partner.mean_return),
                number(partner.expert_return),
                whole(partner.failed),
            )
            for partner in partners
        ]
        heading = [title(name) for name in ("mean_return", "expert_return", "failed")]
        parts.append(format_table(("scripted partners", *heading), strangers))
    return "\n\n".join(parts)
