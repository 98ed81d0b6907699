"""What the recorded texts say: `summary.json`, from the units that are there.

python -m benchmarks.pretrained.summary      # some minutes: it runs the tests of all pairings
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
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
from benchmarks.pretrained.pairings import Judge, Seat, agreement, agreement_of_readable
from benchmarks.pretrained.sets import HELPER, MAIN, SETS, prompt_of, read_texts, shown_prompts
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
    units,
)
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.measure.numbers.estimates import over_runs

SUMMARY = RESULTS / "summary.json"
PRIMARY = "operations"
STARTS = [w for w in range(WARM_STARTS) if all(made(f"team-{w}-{run}") for run in range(TEAMS))]
"""Warm starts whose teams are all there."""
WARM = [warm for warm in STARTS for _ in range(TEAMS)]
"""Warm start of each team."""
TEAM_UNITS = [f"team-{warm}-{run}" for warm in STARTS for run in range(TEAMS)]
ALONE = {
    "as it comes": ["base"],
    "warm start": [f"warm-{warm}" for warm in range(WARM_STARTS)],
    "random partners": [f"random-{warm}" for warm in range(WARM_STARTS)],
    "rejection": [f"rejection-{warm}" for warm in range(WARM_STARTS)],
    "longer warm start": [f"more-{warm}" for warm in range(WARM_STARTS)],
    "one convention": ["one"],
}
"""Condition -> its units, each of which is measured with its own partner alone."""

Seats = Mapping[str, Seat]
Pair = Callable[[Seat, Seat], float]


def summary() -> dict[str, Any]:
    """All that the pages show, of the units that are there."""
    found: dict[str, Any] = {
        "made": sum(map(made, units())),
        "units": len(units()),
        "sets": {name: _of_set(name) for name in SETS},
    }
    if TEAM_UNITS:
        found["slices"] = _slices(Judge(SETS[PRIMARY]))
    if len(STARTS) == WARM_STARTS:
        for one in found["sets"].values():
            one["own"] = _own(np.array(one["matrix"]["agreement"]))
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
    measures: dict[str, Pair] = {
        "agreement": agreement,
        "agreement_of_readable": agreement_of_readable,
        "success": judge.success,
    }
    found: dict[str, Any] = {key: {} for key in (*measures, "competence", "matrix")}
    for condition, wanted in ALONE.items():
        seats = [_seats(judge, unit) for unit in wanted if made(unit)]
        if not seats:
            continue
        for key, measure in measures.items():
            values = [measure(team[HELPER], team[MAIN]) for team in seats]
            found[key][condition] = _estimate(values)
        found["competence"][condition] = _competence(judge, seats)
    if not TEAM_UNITS:
        return found
    teams = [_seats(judge, unit) for unit in TEAM_UNITS]
    for key, measure in measures.items():
        matrix = _matrix(measure, teams)
        found["matrix"][key] = matrix.tolist()
        found[key] |= _of_matrix(matrix)
    found["competence"]["own partner"] = _competence(judge, teams, by=TEAMS)
    chances = {"product of marginals": marginals, "commonest of each seat": constants}
    for chance, measure in chances.items():
        values = [_chance(measure, team, kinds) for team in teams]
        found["agreement"][chance] = _estimate(_means(values, TEAMS))
    return found


def _seats(judge: Judge, unit: str) -> Seats:
    return judge.seats(read_texts(texts_of(unit)))


def _matrix(measure: Pair, teams: Sequence[Seats]) -> Matrix:
    return np.array([[measure(a[HELPER], b[MAIN]) for b in teams] for a in teams])


def _slices(judge: Judge) -> dict[str, Any]:
    """Agreement on each unseen operation, and where main's prompt is new as well."""
    tasks = judge.tasks
    told = shown_prompts()
    parts = {task.data["op"]: set[str]() for task in tasks.values()}
    for name, task in tasks.items():
        parts[task.data["op"]].add(name)
    parts["main's prompt is new as well"] = {
        name for name, task in tasks.items() if prompt_of(task, MAIN) not in told
    }
    teams = [_seats(judge, unit) for unit in TEAM_UNITS]
    starts = [_seats(judge, f"warm-{warm}") for warm in STARTS]
    found = {}
    for part, names in parts.items():
        own, before = ([_among(team, names) for team in some] for some in (teams, starts))
        values = [agreement(team[HELPER], team[MAIN]) for team in before]
        found[part] = {
            "tasks": len(names),
            "warm start": _estimate(values),
            **_of_matrix(_matrix(agreement, own)),
            "own": _own(_matrix(agreement, own)),
        }
    return found


def _own(matrix: Matrix) -> dict[str, Any]:
    """What partners agree more than strangers of their warm start, of all and of each."""
    near = strangers(matrix, WARM)
    of_each = zip(_means(partners(matrix), TEAMS), near.values(), strict=True)
    return {
        "difference": own_minus_stranger(matrix, WARM),
        "p": permutation_p(matrix, WARM),
        "by warm start": [own - float(of.mean()) for own, of in of_each],
    }


def _among(team: Seats, tasks: Container[str]) -> Seats:
    return {agent: seat.among(tasks) for agent, seat in team.items()}


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
        **_of_foreigners(matrix),
    }


def _of_foreigners(matrix: Matrix) -> dict[str, Any]:
    """Nothing of a single warm start."""
    values = [float(one.mean()) for one in foreigners(matrix, WARM).values()]
    return {"stranger, other warm start": {**_estimate(values), "ci95": None}} if values else {}


def _competence(judge: Judge, teams: Sequence[Seats], by: int = 1) -> dict[str, Any]:
    return {
        agent: _estimate(_means([judge.competence(team[agent]) for team in teams], by))
        for agent in (HELPER, MAIN)
    }


def _means(values: Sequence[float] | Matrix, by: int) -> list[float]:
    """Of every `by` values that stand beside each other."""
    return np.array(values).reshape(-1, by).mean(axis=1).tolist()


def _estimate(values: Sequence[float]) -> dict[str, Any]:
    found = over_runs(values)
    return {"mean": float(np.mean(values)), "ci95": found.ci95, "values": [*values]}


def _weights() -> dict[str, Any]:
    """Way to hold weights -> what its runs cost and reached on `test`."""
    judge, found = Judge(SETS["test"]), {}
    for arm in RATES:
        wanted = [f"{arm}-{seed}" for seed in WEIGHT_SEEDS]
        if not all(map(made, wanted)):
            continue
        rows = []
        for unit in wanted:
            seats = _seats(judge, unit)
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
