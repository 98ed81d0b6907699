"""Cross-play: do members of different teams work together?

A team that learned to cooperate works with the members of another; a team that follows a private
convention works with itself alone. Members of several teams sit together in every pairing, and all
pairings play the same tasks with the same seeds.

Owns the pairings, the matrix and its summary. `zero_shot.py` seats scripted strangers,
`cross_play_files.py` holds the JSON form, `heat_map.py` draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llm_marl_envs.core.records import Episode, measured
from llm_marl_envs.core.specs import env_arguments, env_name
from llm_marl_envs.measure.numbers.coordination import convention_match
from llm_marl_envs.measure.numbers.estimates import Clusters, Estimate, over_tasks
from llm_marl_envs.measure.numbers.values import mean, measure
from llm_marl_envs.measure.paired import Stage, returns_of
from llm_marl_envs.policies import Team, check_team

Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """One way to fill the seats, and what came of it.

    Attributes:
        seats: agent -> name of the team that its policy comes from.
        mean_return: undiscounted team return, over tasks.
        success: share of solved episodes, None where the environment does not say.
        failed: episodes whose environment raised; they earned their floor and solved nothing.
        match: share of episodes whose first actions follow one convention, None where there are no
            conventions, and in files of older versions.
    """

    seats: dict[str, str]
    mean_return: Estimate
    success: float | None
    failed: int = 0
    match: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossPlay:
    """Every pairing of N teams on T tasks.

    What other tools wrote may hold teams and matrix alone.

    Attributes:
        teams: names of the teams.
        matrix: (N, N) team returns, mean over tasks. With two seats entry [i, j] seats i in the
            first and j in the second. With more seats it is the mean over seats of team i with that
            seat played by j. None where nobody played.
        success_matrix: (N, N) shares of solved episodes; None where the environment does not say.
        match_matrix: (N, N) shares of episodes in which all follow one convention; None without
            any.
        env_id: what was played.
        env_kwargs: arguments of `make`.
        agents: the seats, in order.
        samples: episodes per task.
        seed: of resets and sampling.
        failed: episodes whose environment raised, of all seatings.
        self_play: the mean of the diagonal; its interval takes the teams as given.
        cross_play: the mean off the diagonal, likewise.
        gap: self-play minus cross-play: what a team loses among strangers. Its interval speaks of
            these teams on other tasks, not of teams trained like these.
        scores: (N, N, T) team returns, mean over samples.
        seatings: each filling of the seats that was played.
    """

    teams: tuple[str, ...]
    matrix: Matrix
    success_matrix: Matrix | None = None
    match_matrix: Matrix | None = None
    env_id: str = ""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    samples: int | None = None
    seed: int | None = None
    failed: int | None = None
    self_play: Estimate | None = None
    cross_play: Estimate | None = None
    gap: Estimate | None = None
    scores: tuple[tuple[tuple[float, ...], ...], ...] = ()
    seatings: tuple[Seating, ...] = ()


def cross_play(stage: Stage, teams: Mapping[str, Team]) -> CrossPlay:
    """Play every pairing of teams: N x N with two seats, else each seat swapped in turn.

    Args:
        stage: the environment and the episodes.
        teams: name -> team; each fills every seat.

    Raises:
        ValueError: fewer than two teams or seats, or a team with other seats.
        Exception: what the environment raised first, where every episode of a pairing failed.
    """
    agents = tuple(stage.env.possible_agents)
    check_teams(teams, agents, at_least=2)
    schedule = stage.schedule
    names = tuple(teams)
    pairs = _pairs(len(names), len(agents))
    returns: dict[tuple[int, ...], list[float]] = {}
    seatings, clusters = [], []
    played = dict.fromkeys(seating for several in pairs.values() for seating in several)
    stage.expect(len(played) * len(schedule.starts))
    for seating in played:
        seats = {agent: names[of] for agent, of in zip(agents, seating, strict=True)}
        team = {agent: teams[name][agent] for agent, name in seats.items()}
        episodes = stage.play(team, schedule.starts)
        returns[seating] = schedule.per_task(returns_of(episodes))
        clusters = schedule.clusters(episodes)
        seatings.append(_summed_up(stage.env, seats, episodes, returns[seating], clusters))
    scores = _arranged(returns, pairs)
    same = np.eye(len(names), dtype=bool)
    own, other = scores[same].mean(axis=0), scores[~same].mean(axis=0)  # per task
    shares = [
        _shares(dict(zip(returns, (getattr(s, name) for s in seatings), strict=True)), pairs)
        for name in ("success", "match")
    ]
    return CrossPlay(
        teams=names,
        matrix=_tuples(scores.mean(axis=2)),
        success_matrix=shares[0],
        match_matrix=shares[1],
        env_id=env_name(stage.env),
        env_kwargs=env_arguments(stage.env),
        agents=agents,
        samples=schedule.samples,
        seed=stage.plan.seeds[0],
        failed=sum(seating.failed for seating in seatings),
        self_play=over_tasks(own, clusters),
        cross_play=over_tasks(other, clusters),
        gap=over_tasks(own - other, clusters, reach=0.0),
        scores=_tuples(scores),
        seatings=tuple(seatings),
    )


Pairs = Mapping[tuple[int, int], Sequence[tuple[int, ...]]]
"""[i, j] -> the seatings that it is the mean of"""


def _pairs(n_teams: int, n_seats: int) -> Pairs:
    return {(i, j): seatings_of(i, j, n_seats) for i in range(n_teams) for j in range(n_teams)}


def _arranged(values: Mapping[tuple[int, ...], Any], pairs: Pairs) -> np.ndarray:
    """(N, N, ...): the value of each seating, mean over those of a pair."""
    n_teams = max(i for i, _ in pairs) + 1
    means = [np.mean([values[s] for s in seatings], axis=0) for seatings in pairs.values()]
    return np.array(means).reshape(n_teams, n_teams, *np.shape(means[0]))


def _shares(values: Mapping[tuple[int, ...], float | None], pairs: Pairs) -> Matrix | None:
    return None if None in values.values() else _tuples(_arranged(values, pairs))


def _tuples(values: np.ndarray) -> tuple[Any, ...]:
    return tuple(_tuples(value) if np.ndim(value) else float(value) for value in values)


def _summed_up(
    env: Any,
    seats: dict[str, str],
    episodes: Sequence[Episode],
    per_task: Sequence[float],
    clusters: Clusters,
) -> Seating:
    judged = measure(measured(episodes), ["success"])["success"]
    return Seating(
        seats=seats,
        mean_return=over_tasks(per_task, clusters),
        success=None if None in judged else mean(judged),
        failed=sum(episode.failed for episode in episodes),
        match=convention_match(env, episodes),
    )


def axes_of(agents: Sequence[str]) -> tuple[str, str]:
    """What a team of a row, and one of a column, plays; no agents where they are not known."""
    if len(agents) == 2:
        return f"plays {agents[0]}", f"plays {agents[1]}"
    if agents:
        return "plays all seats but one", f"plays that one, mean over {', '.join(agents)}"
    return "plays the first seat", "plays the others"


def seatings_of(i: int, j: int, n_seats: int) -> list[tuple[int, ...]]:
    """The fillings of the seats that entry [i, j] of the matrix is the mean of."""
    if i == j:
        return [(i,) * n_seats]
    if n_seats == 2:
        return [(i, j)]
    return [
        tuple(j if seat == swapped else i for seat in range(n_seats)) for swapped in range(n_seats)
    ]


def check_teams(teams: Mapping[str, Team], agents: Sequence[str], at_least: int) -> None:
    """Check that there are enough teams and seats, and that each team fills the seats.

    Raises:
        ValueError: they do not; the message names the team.
    """
    if len(teams) < at_least or len(agents) < 2:
        raise ValueError(
            f"{len(teams)} teams and seats {list(agents)}: expected at least {at_least} teams and "
            "two seats"
        )
    for name, team in teams.items():
        try:
            check_team(team, agents)
        except ValueError as error:
            raise ValueError(f"team {name!r}: {error}") from error
