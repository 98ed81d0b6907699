"""Cross-play: do members of different teams work together?

A team that learned to cooperate works with the members of another; a team that follows a private
convention works with itself alone. Members of several teams sit together in every pairing, and all
pairings play the same tasks with the same seeds.

Owns the pairings, the matrix and its summary. `zero_shot.py` seats scripted strangers,
`cross_play_files.py` holds the JSON form, `heat_map.py` draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_marl_envs.evaluation.numbers.coordination import convention_match
from llm_marl_envs.evaluation.numbers.estimators import RESAMPLES
from llm_marl_envs.evaluation.play.paired import (
    DEFAULT_COPIES,
    Estimate,
    Stage,
    estimate_tasks,
    make_schedule,
    returns_of,
)
from llm_marl_envs.evaluation.play.progress import Progress
from llm_marl_envs.policies import Team, check_team
from llm_marl_envs.records import Episode, living
from llm_marl_envs.registry import env_factory
from llm_marl_envs.rollout import Context, EpisodesFailedError
from llm_marl_envs.specs import env_arguments, env_name

MIN_TEAMS_TO_RESAMPLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """One way to fill the seats, and what came of it.

    Attributes:
        seats: agent -> name of the team that its policy comes from.
        mean_return: undiscounted team return, over tasks.
        success: share of solved episodes, None where the environment does not say.
        failed: episodes whose environment raised; they are in no mean.
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
    """Every pairing of N teams on T tasks; one whose every episode failed in a pairing is left out.

    Attributes:
        env_id: what was played.
        env_kwargs: arguments of `make`.
        agents: the seats, in order.
        teams: names of the teams.
        samples: episodes per task.
        seed: of resets and sampling.
        scores: (N, N, T) team returns, mean over samples. With two seats entry [i, j] seats i in
            the first and j in the second. With more seats it is the mean over seats of team i with
            that seat played by j.
        seatings: each filling of the seats that was played.
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    agents: tuple[str, ...]
    teams: tuple[str, ...]
    samples: int
    seed: int
    scores: tuple[tuple[tuple[float, ...], ...], ...]
    seatings: tuple[Seating, ...]

    @property
    def failed(self) -> int:
        """Episodes whose environment raised, of all seatings."""
        return sum(one.failed for one in self.seatings)

    @property
    def matrix(self) -> list[list[float]]:
        """(N, N) team returns, mean over tasks."""
        return np.mean(self.scores, axis=2).tolist()

    @property
    def success_matrix(self) -> list[list[float]] | None:
        """(N, N) shares of solved episodes; None where the environment does not say."""
        return self._matrix_of({tuple(one.seats.values()): one.success for one in self.seatings})

    @property
    def match_matrix(self) -> list[list[float]] | None:
        """(N, N) shares of episodes in which all follow one convention; None without any."""
        return self._matrix_of({tuple(one.seats.values()): one.match for one in self.seatings})

    def _matrix_of(self, shares: Mapping[tuple[str, ...], Any]) -> list[list[float]] | None:
        if None in shares.values():
            return None
        rows = range(len(self.teams))
        return [[float(np.mean(self._of(shares, i, j))) for j in rows] for i in rows]

    def _of(self, values: Mapping[tuple[str, ...], Any], i: int, j: int) -> list[Any]:
        seatings = seatings_of(i, j, len(self.agents))
        return [values[tuple(self.teams[team] for team in one)] for one in seatings]

    @property
    def self_play(self) -> Estimate:
        """The mean of the diagonal; its interval takes the teams as given."""
        return estimate_tasks(_self_and_cross(np.array(self.scores))[0].tolist())

    @property
    def cross_play(self) -> Estimate:
        """The mean off the diagonal; its interval takes the teams as given."""
        return estimate_tasks(_self_and_cross(np.array(self.scores))[1].tolist())

    @property
    def gap(self) -> Estimate:
        """Self-play minus cross-play: what a team loses among strangers."""
        own, other = _self_and_cross(np.array(self.scores))
        return estimate_tasks((own - other).tolist())

    @property
    def gap_ci95_over_teams(self) -> tuple[float, float] | None:
        """Interval of the gap, resampling teams and tasks; None with fewer than 3 teams.

        It speaks of teams trained like these, the interval of `gap` of these teams alone.
        """
        return _gap_over_teams(np.array(self.scores), self.seed)


def cross_play(
    env: Any,
    teams: Mapping[str, Team],
    *,
    n_tasks: int | None = None,
    samples: int = 1,
    seed: int = 0,
    copies: int = DEFAULT_COPIES,
    context: Context = "append",
    progress: Progress | None = None,
) -> CrossPlay:
    """Play every pairing of teams: N x N with two seats, else each seat swapped in turn.

    Args:
        env: a registered id, a function that makes the environment, or an environment.
        teams: name -> team; each fills every seat.
        n_tasks: the first so many tasks of the split; None plays all.
        samples: episodes per task and pairing.
        seed: of resets and sampling.
        copies: how many episodes run at once.
        context: as in `rollout`.
        progress: called with the number of episodes just finished.

    Raises:
        ValueError: fewer than two teams or seats, a team with other seats, a number out of range.
        Exception: what the environment raised first, where every episode of a pairing failed.
    """
    stage = Stage(env_factory(env), copies=copies, context=context, progress=progress)
    agents = tuple(stage.env.possible_agents)
    check_teams(teams, agents, at_least=2)
    schedule = make_schedule(stage.env, n_tasks, samples, seed)
    names = tuple(teams)
    numbers = range(len(names))
    pairs = {(i, j): seatings_of(i, j, len(agents)) for i in numbers for j in numbers}
    returns: dict[tuple[int, ...], list[float | None]] = {}
    seatings = []
    played = dict.fromkeys(one for several in pairs.values() for one in several)
    stage.expect(len(played) * len(schedule.starts))
    for seating in played:
        seats = {agent: names[of] for agent, of in zip(agents, seating, strict=True)}
        team = {agent: teams[name][agent] for agent, name in seats.items()}
        episodes = stage.play(team, schedule.starts)
        returns[seating] = schedule.per_task(returns_of(episodes))
        seatings.append(_summed_up(stage.env, seats, episodes, returns[seating]))
    stage.close()
    whole = _tasks_of_all(returns)
    scores = [
        [np.mean([whole[one] for one in pairs[i, j]], axis=0) for j in numbers] for i in numbers
    ]
    return CrossPlay(
        env_id=env_name(stage.env),
        env_kwargs=env_arguments(stage.env),
        agents=agents,
        teams=names,
        samples=samples,
        seed=seed,
        scores=tuple(tuple(tuple(map(float, entry)) for entry in row) for row in scores),
        seatings=tuple(seatings),
    )


def _summed_up(
    env: Any, seats: dict[str, str], episodes: Sequence[Episode], per_task: Sequence[float | None]
) -> Seating:
    played = living(episodes)
    judged = [e.success for e in played if e.success is not None]
    return Seating(
        seats=seats,
        mean_return=estimate_tasks([mean for mean in per_task if mean is not None]),
        success=sum(judged) / len(judged) if len(judged) == len(played) else None,
        failed=len(episodes) - len(played),
        match=convention_match(env, played),
    )


def _tasks_of_all(
    returns: Mapping[tuple[int, ...], Sequence[float | None]],
) -> dict[tuple[int, ...], list[float]]:
    """Seating -> its returns of the tasks that every seating has one of: pairings are paired.

    Raises:
        EpisodesFailedError: there is no such task.
    """
    shared = [i for i, of in enumerate(zip(*returns.values(), strict=True)) if None not in of]
    if not shared:
        raise EpisodesFailedError(
            "no task has an episode of every pairing that was played to its end; the environment "
            "raised in the others"
        )
    return {one: [some[i] or 0.0 for i in shared] for one, some in returns.items()}


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


def _self_and_cross(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per task (T,): the mean of the diagonal, and the mean off it."""
    own = np.eye(len(scores), dtype=bool)
    return scores[own].mean(axis=0), scores[~own].mean(axis=0)


def _gap_over_teams(scores: np.ndarray, seed: int) -> tuple[float, float] | None:
    n_teams, _, n_tasks = scores.shape
    if n_teams < MIN_TEAMS_TO_RESAMPLE:
        return None
    rng = np.random.default_rng(seed)
    gaps: list[float] = []
    while len(gaps) < RESAMPLES:
        drawn = rng.integers(n_teams, size=n_teams)
        others = drawn[:, None] != drawn[None, :]  # a team drawn twice is no pair of strangers
        if not others.any():
            continue
        means = scores[:, :, rng.integers(n_tasks, size=n_tasks)].mean(axis=2)
        pairs = means[np.ix_(drawn, drawn)]
        gaps.append(float(means[drawn, drawn].mean() - pairs[others].mean()))
    low, high = np.quantile(gaps, [0.025, 0.975])
    return float(low), float(high)
