"""What the recorded texts say: `summary.json`, from the units that are there.

python -m benchmarks.pretrained.summary      # some minutes: it runs the tests of all pairings
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.pretrained.measures import (
    Matrix,
    constants,
    foreigners,
    inherited,
    inherited_p,
    marginals,
    own_minus_stranger,
    partners,
    permutation_p,
    strangers,
)
from benchmarks.pretrained.pairings import Judge, Seat, agreement
from benchmarks.pretrained.sets import HELPER, MAIN, SETS, read_texts
from benchmarks.pretrained.units import (
    RATES,
    RESULTS,
    TEAMS,
    WARM_STARTS,
    WEIGHT_SEEDS,
    made,
    rate_of,
    result,
    texts_of,
)
from llm_marl_envs.evaluation.numbers.estimators import t_interval
from llm_marl_envs.files.json_files import write_json

SUMMARY = RESULTS / "summary.json"
PRIMARY = "operations"
STARTS = range(WARM_STARTS)
WARM = [warm for warm in STARTS for _ in range(TEAMS)]
"""Warm start of each team."""
TEAM_UNITS = [f"team-{warm}-{run}" for warm in STARTS for run in range(TEAMS)]
ALONE = {
    "as it comes": ["base"],
    "warm start": [f"warm-{warm}" for warm in STARTS],
    "random partners": [f"random-{warm}" for warm in STARTS],
    "rejection": [f"rejection-{warm}" for warm in STARTS],
    "longer warm start": [f"more-{warm}" for warm in STARTS],
    "one convention": ["one"],
}
"""Condition -> its units, each of which is measured with its own partner alone."""

Seats = Mapping[str, Seat]
Pair = Callable[[Seat, Seat], float]


def summary() -> dict[str, Any]:
    """All that the pages show."""
    found: dict[str, Any] = {"sets": {name: _of_set(name) for name in SETS}}
    if all(map(made, TEAM_UNITS)):
        matrix = np.array(found["sets"][PRIMARY]["matrix"]["agreement"])
        found["primary"] = {
            "difference": own_minus_stranger(matrix, WARM),
            "p": permutation_p(matrix, WARM),
        }
        found["inherited"] = {
            "difference": inherited(matrix, WARM),
            "p": inherited_p(matrix, WARM),
        }
    return {**found, "weights": _weights(), "tuning": _tuning()}


def _of_set(name: str) -> dict[str, Any]:
    judge = Judge(SETS[name])
    kinds = {task.id: task.data["kind"] for task in judge.tasks.values()}
    seats = {
        unit: judge.seats(read_texts(texts_of(unit)))
        for unit in [*TEAM_UNITS, *(one for units in ALONE.values() for one in units)]
        if made(unit)
    }
    measures: dict[str, Pair] = {"agreement": agreement, "success": judge.success}
    found: dict[str, Any] = {key: {} for key in (*measures, "competence", "matrix")}
    for condition, units in ALONE.items():
        if not seats.keys() >= {*units}:
            continue
        for key, measure in measures.items():
            values = [measure(seats[unit][HELPER], seats[unit][MAIN]) for unit in units]
            found[key][condition] = _estimate(values)
        found["competence"][condition] = _competence(judge, [seats[unit] for unit in units])
    if not seats.keys() >= {*TEAM_UNITS}:
        return found
    teams = [seats[unit] for unit in TEAM_UNITS]
    for key, measure in measures.items():
        matrix = np.array([[measure(a[HELPER], b[MAIN]) for b in teams] for a in teams])
        found["matrix"][key] = matrix.tolist()
        found[key] |= _of_matrix(matrix)
    found["competence"]["own partner"] = _competence(judge, teams, by=TEAMS)
    chances = {"product of marginals": marginals, "commonest of each seat": constants}
    for chance, measure in chances.items():
        values = [_chance(measure, team, kinds) for team in teams]
        found["agreement"][chance] = _estimate(_means(values, TEAMS))
    return found


def _chance(measure: Callable[..., float], team: Seats, kinds: Mapping[str, str]) -> float:
    of_place = {place: kinds[place[0]] for place in team[HELPER].follows}
    return measure(team[HELPER].follows, team[MAIN].follows, of_place)


def _of_matrix(matrix: Matrix) -> dict[str, Any]:
    """Condition -> estimate over warm starts; without an interval where two of them meet."""
    return {
        "own partner": _estimate(_means(partners(matrix), TEAMS)),
        "stranger, same warm start": _estimate(
            [float(one.mean()) for one in strangers(matrix, WARM).values()]
        ),
        "stranger, other warm start": {
            **_estimate([float(one.mean()) for one in foreigners(matrix, WARM).values()]),
            "ci95": None,
        },
    }


def _competence(judge: Judge, teams: Sequence[Seats], by: int = 1) -> dict[str, Any]:
    return {
        agent: _estimate(_means([judge.competence(team[agent]) for team in teams], by))
        for agent in (HELPER, MAIN)
    }


def _means(values: Sequence[float] | Matrix, by: int) -> list[float]:
    """Of every `by` values that stand beside each other."""
    return np.array(values).reshape(-1, by).mean(axis=1).tolist()


def _estimate(values: Sequence[float]) -> dict[str, Any]:
    ci95 = t_interval(values) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "ci95": ci95, "values": [*values]}


def _weights() -> dict[str, Any]:
    """Way to hold weights -> what its runs cost and reached on `test`."""
    judge, found = Judge(SETS["test"]), {}
    for arm in RATES:
        units = [f"{arm}-{seed}" for seed in WEIGHT_SEEDS]
        if not all(map(made, units)):
            continue
        rows = []
        for unit in units:
            seats = judge.seats(read_texts(texts_of(unit)))
            helper, main = seats[HELPER], seats[MAIN]
            reached = {"agreement": agreement(helper, main), "success": judge.success(helper, main)}
            costs = {key: result(unit)[key] for key in ("cpu_seconds", "peak_mib")}
            rows.append({**reached, **costs})
        found[arm] = {"rate": rate_of(arm), "runs": rows}
    return found


def _tuning() -> dict[str, Any]:
    """Way to hold weights -> rate -> agreement and success on `val`."""
    keys = ("agreement", "success_val")
    return {
        arm: {
            rate: {key: result(f"rate-{arm}-{rate}")[key] for key in keys}
            for rate in rates
            if made(f"rate-{arm}-{rate}")
        }
        for arm, rates in RATES.items()
    }


if __name__ == "__main__":
    write_json(SUMMARY, summary())
