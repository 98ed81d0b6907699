"""Episodes that differ in one thing only: the same tasks, reset seeds and sampling seeds.

Owns what a paired comparison needs: the schedule of episodes, and the estimate of a mean over
tasks with its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_marl_envs.evaluation.numbers.estimators import bootstrap_interval
from llm_marl_envs.evaluation.play.progress import Progress, expect
from llm_marl_envs.evaluation.play.runner import DEFAULT_COPIES, Plan, starts_of
from llm_marl_envs.policies.base import Team
from llm_marl_envs.records import Episode
from llm_marl_envs.rollout import Context, EpisodesFailedError, Failures, rollout
from llm_marl_envs.seeds import Start
from llm_marl_envs.vector import VectorTextEnv

__all__ = [
    "DEFAULT_COPIES",
    "Estimate",
    "Schedule",
    "Stage",
    "estimate_tasks",
    "make_schedule",
    "returns_lost",
    "returns_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over tasks.

    Attributes:
        mean: of one number per task.
        ci95: its 95 % bootstrap interval, resampling tasks; without width where all tasks are
            alike, which is no certainty.
        n_tasks: tasks it was taken over.
    """

    mean: float
    ci95: tuple[float, float]
    n_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which episodes are played: `samples` in a row for each task.

    Attributes:
        starts: one per episode.
        n_tasks: tasks played.
        samples: episodes per task; they share the reset seed and differ in the sampling seed.
    """

    starts: tuple[Start, ...]
    n_tasks: int
    samples: int

    def estimate(self, values: Sequence[float | None]) -> Estimate:
        """The mean of one value per episode; samples of a task are averaged first.

        Raises:
            ValueError: not one value per episode.
            EpisodesFailedError: every value is None.
        """
        return estimate_tasks([mean for mean in self.per_task(values) if mean is not None])

    def per_task(self, values: Sequence[float | None]) -> list[float | None]:
        """One mean per task of one value per episode, None of an episode that has none.

        The mean is None where no episode of the task has a value.
        """
        if len(values) != len(self.starts):
            raise ValueError(f"{len(values)} values for {len(self.starts)} episodes")
        tasks = [values[i : i + self.samples] for i in range(0, len(values), self.samples)]
        known = [[one for one in task if one is not None] for task in tasks]
        return [float(np.mean(some)) if some else None for some in known]


def returns_of(episodes: Sequence[Episode]) -> list[float | None]:
    """The team return of each episode, None of those that failed."""
    return [None if one.failed else one.team_return for one in episodes]


def returns_lost(before: Sequence[Episode], after: Sequence[Episode]) -> list[float | None]:
    """How much less each episode earned than the same one before; None where one of them failed."""
    pairs = zip(returns_of(before), returns_of(after), strict=True)
    return [None if old is None or new is None else old - new for old, new in pairs]


def estimate_tasks(per_task: Sequence[float]) -> Estimate:
    """The mean of one number per task, with its interval.

    Raises:
        EpisodesFailedError: no numbers, because of every task some episode failed.
    """
    if not len(per_task):
        raise EpisodesFailedError(
            "no task is left of which every episode that is compared was played to its end; the "
            "environment raised in the others"
        )
    return Estimate(
        mean=float(np.mean(per_task)), ci95=bootstrap_interval(per_task), n_tasks=len(per_task)
    )


def make_schedule(env: Any, n_tasks: int | None, samples: int, seed: int) -> Schedule:
    """The first `n_tasks` tasks of the environment's split, `samples` times each.

    Args:
        env: one copy of the environment.
        n_tasks: None takes all tasks.
        samples: episodes per task.
        seed: of resets and sampling.

    Raises:
        ValueError: a number out of range, or no task source and no `n_tasks`.
    """
    starts = starts_of(Plan(n_tasks=n_tasks, samples=samples, seeds=(seed,)), env)
    return Schedule(starts=tuple(starts), n_tasks=len(starts) // samples, samples=samples)


class Stage:
    """Copies of one environment on which one team after another plays.

    Args:
        make_env: makes a copy.
        copies: how many episodes run at once, at least 1.
        context: as in `rollout`.
        progress: called with the number of episodes just finished.

    Raises:
        ValueError: `copies` out of range.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        *,
        copies: int = DEFAULT_COPIES,
        context: Context = "append",
        progress: Progress | None = None,
    ) -> None:
        if copies < 1:
            raise ValueError(f"copies={copies}: expected at least 1")
        self.make_env, self.copies = make_env, copies
        self.context: Context = context
        self.progress = progress
        self.vector = VectorTextEnv([make_env()])

    @property
    def env(self) -> Any:
        """One of the copies, to read its seats, tasks and rules."""
        return self.vector.envs[0]

    def play(self, team: Team, starts: Sequence[Start]) -> list[Episode]:
        """One episode per start, failed ones among them; copies are made when first needed.

        Raises:
            Exception: what the environment raised first, where every episode failed.
        """
        envs = self.vector.envs
        envs += [self.make_env() for _ in range(min(len(starts), self.copies) - len(envs))]
        failures = Failures(self.make_env)
        episodes = rollout(
            self.vector,
            team,
            starts,
            context=self.context,
            progress=self.progress,
            failures=failures,
        )
        failures.refuse_if_all(episodes)
        return episodes

    def expect(self, episodes: int) -> None:
        """Tell the progress that so many more are to come."""
        expect(self.progress, episodes)

    def close(self) -> None:
        """Close the environments."""
        self.vector.close()
