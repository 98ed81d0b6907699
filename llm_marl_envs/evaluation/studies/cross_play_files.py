"""The JSON form of a cross-play: names and matrix for a heat map, and all the scores behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_marl_envs.evaluation.numbers.table import format_table, number, with_interval
from llm_marl_envs.evaluation.play.paired import Estimate
from llm_marl_envs.evaluation.studies.cross_play import CrossPlay, Seating, axes_of
from llm_marl_envs.evaluation.studies.zero_shot import ZeroShot
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.records import plain

CROSS_PLAY_VERSION = 1


def write_cross_play(
    path: str | Path, result: CrossPlay, partners: Sequence[ZeroShot] = ()
) -> None:
    """Write a result as JSON; "teams" and "matrix" are what a heat map needs."""
    write_json(
        path,
        {
            "version": CROSS_PLAY_VERSION,
            **plain(asdict(result)),
            "matrix": result.matrix,
            "success_matrix": result.success_matrix,
            "match_matrix": result.match_matrix,
            "failed": result.failed,
            "self_play": asdict(result.self_play),
            "cross_play": asdict(result.cross_play),
            "gap": asdict(result.gap),
            "gap_ci95_over_teams": result.gap_ci95_over_teams,
            "zero_shot": [asdict(one) for one in partners],
        },
    )


def read_cross_play(path: str | Path) -> tuple[CrossPlay, tuple[ZeroShot, ...]]:
    """What `write_cross_play` wrote.

    Raises:
        ValueError: no such file, half-written, another version, a field is missing, or the scores
            do not fit the teams.
    """
    data = read_json(path)
    if data.get("version") != CROSS_PLAY_VERSION:
        raise ValueError(
            f"{path}: version {data.get('version')!r}, this release reads {CROSS_PLAY_VERSION}"
        )
    try:
        result = CrossPlay(
            env_id=data["env_id"],
            env_kwargs=data["env_kwargs"],
            agents=tuple(data["agents"]),
            teams=tuple(data["teams"]),
            samples=data["samples"],
            seed=data["seed"],
            scores=tuple(tuple(tuple(entry) for entry in row) for row in data["scores"]),
            seatings=tuple(
                Seating(
                    seats=one["seats"],
                    mean_return=_estimate(one["mean_return"]),
                    success=one["success"],
                    failed=one.get("failed", 0),
                    match=one.get("match"),
                )
                for one in data["seatings"]
            ),
        )
        partners = tuple(
            ZeroShot(**{**one, "mean_return": _estimate(one["mean_return"])})
            for one in data["zero_shot"]
        )
    except KeyError as missing:
        raise ValueError(f"{path}: lacks the field {missing}") from missing
    except TypeError as error:
        raise ValueError(f"{path}: a field is of the wrong kind: {error}") from error
    n_teams = len(result.teams)
    lengths = {len(entry) for row in result.scores for entry in row}
    square = len(result.scores) == n_teams and {len(row) for row in result.scores} == {n_teams}
    if not square or len(lengths) != 1 or not min(lengths):
        raise ValueError(
            f"{path}: scores of {n_teams} teams: expected {n_teams} rows of {n_teams} lists of one "
            f"length, got rows of {[len(row) for row in result.scores]} lists of lengths "
            f"{sorted(lengths)}"
        )
    return result, partners


def _estimate(data: Mapping[str, Any]) -> Estimate:
    return Estimate(mean=data["mean"], ci95=tuple(data["ci95"]), n_tasks=data["n_tasks"])


def report(result: CrossPlay, partners: Sequence[ZeroShot] = ()) -> str:
    """The matrix, the gap and the strangers as plain text."""
    lines = [
        (name, *map(number, row)) for name, row in zip(result.teams, result.matrix, strict=True)
    ]
    row, column = axes_of(result.agents)
    about = f"Team return. Rows: the team that {row}. Columns: the team that {column}."
    table = format_table(("row / column", *result.teams), lines)
    parts = [f"{about}\n{table}"]
    estimates = {
        "self-play": result.self_play,
        "cross-play": result.cross_play,
        "gap": result.gap,
    }
    rows = [(name, with_interval(one.mean, one.ci95)) for name, one in estimates.items()]
    over_teams = result.gap_ci95_over_teams
    if over_teams is not None:
        rows.append(("gap, interval over teams", with_interval(result.gap.mean, over_teams)))
    rows.append(("failed episodes", str(result.failed)))
    parts.append(format_table(("", "95 % interval"), rows))
    if partners:
        strangers = [
            (
                f"{one.team}, {one.agent} beside {one.convention}",
                with_interval(one.mean_return.mean, one.mean_return.ci95),
                number(one.expert_return),
                str(one.failed),
            )
            for one in partners
        ]
        heading = ("scripted partners", "team return", "experts", "failed")
        parts.append(format_table(heading, strangers))
    return "\n\n".join(parts)
