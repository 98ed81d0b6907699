"""Episodes that differ in one thing only: the same tasks, reset seeds and sampling seeds.

Owns what a paired comparison needs: the schedule of episodes, and the estimate of a mean over
tasks with its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llm_marl_envs.core.records import Episode, measured
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.measure.numbers.estimates import Estimate, exact_mean, over_tasks
from llm_marl_envs.measure.progress import Progress, expect
from llm_marl_envs.measure.runner import Plan, starts_of
from llm_marl_envs.play.registry import env_factory
from llm_marl_envs.play.rollout import REPEATS, Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.base import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which episodes are played: `samples` in a row for each task.

    Attributes:
        starts: one per episode.
        n_tasks: tasks played.
        samples: episodes per task, each from a reset seed of its own.
    """

    starts: tuple[Start, ...]
    n_tasks: int
    samples: int

    def estimate(
        self, values: Sequence[float], episodes: Sequence[Episode], *, reach: float | None = None
    ) -> Estimate:
        """The mean of one value per episode; samples of a task are averaged first.

        Args:
            values: one per episode.
            episodes: that they are of, which say what their tasks share.
            reach: of differences, as in `over_tasks`.

        Raises:
            ValueError: not one value per episode.
        """
        return over_tasks(self.per_task(values), self.clusters(episodes), reach=reach)

    def clusters(self, episodes: Sequence[Episode]) -> list[tuple[str, ...]]:
        """What each task shares with others, as the first episode of it that says so has it."""
        tasks = [episodes[i : i + self.samples] for i in range(0, len(episodes), self.samples)]
        return [next((e.clusters for e in task if e.clusters), ()) for task in tasks]

    def per_task(self, values: Sequence[float]) -> list[float]:
        """One mean per task of one value per episode; errors as `estimate`."""
        if len(values) != len(self.starts):
            raise ValueError(f"{len(values)} values for {len(self.starts)} episodes")
        tasks = [values[i : i + self.samples] for i in range(0, len(values), self.samples)]
        return [exact_mean(task) for task in tasks]


def returns_of(episodes: Sequence[Episode]) -> list[float]:
    """The team return of each episode, as the task paid it; of one that failed its floor."""
    return [episode.team_task_return for episode in measured(episodes)]


def returns_lost(before: Sequence[Episode], after: Sequence[Episode]) -> list[float]:
    """How much less each episode earned than the same one before."""
    pairs = zip(returns_of(before), returns_of(after), strict=True)
    return [old - new for old, new in pairs]


class Stage:
    """Copies of one environment on which one team after another plays the same episodes.

    Args:
        env: a registered id, a function that makes the environment, or an environment.
        plan: which episodes; all tasks once where None.
        progress: called with the number of episodes just finished.
        measuring: whether episodes that fail are to be counted, so that each needs a floor.
    """

    def __init__(
        self,
        env: Any,
        plan: Plan | None = None,
        *,
        progress: Progress | None = None,
        measuring: bool = True,
    ) -> None:
        self.make_env = env_factory(env)
        self.plan = plan or Plan()
        self.progress = progress
        self.measuring = measuring
        self.vector = VectorTextEnv([self.make_env()])

    @cached_property
    def schedule(self) -> Schedule:
        """The episodes of the plan.

        Raises:
            ValueError: more tasks than there are, or no task source and no number of tasks.
        """
        starts = tuple(starts_of(self.plan, self.env))
        per_task = self.plan.samples * len(self.plan.seeds)
        return Schedule(starts=starts, n_tasks=len(starts) // per_task, samples=per_task)

    @property
    def env(self) -> Any:
        """One of the copies, to read its seats, tasks and rules."""
        return self.vector.envs[0]

    def play(self, team: Team, starts: Sequence[Start]) -> list[Episode]:
        """One episode per start, failed ones among them; copies are made when first needed.

        Raises:
            Exception: what the environment raised first, where every episode failed, or one that
                cannot be counted.
        """
        envs = self.vector.envs
        envs += [self.make_env() for _ in range(min(len(starts), self.plan.copies) - len(envs))]
        failures = Failures(self.make_env, REPEATS)
        episodes = rollout(
            self.vector,
            team,
            starts,
            context=self.plan.context,
            progress=self.progress,
            failures=failures,
        )
        failures.refuse_if_all(episodes)
        if self.measuring:
            failures.refuse_uncounted(episodes)
        return episodes

    def expect(self, episodes: int) -> None:
        """Tell the progress that so many more are to come."""
        expect(self.progress, episodes)

    def close(self) -> None:
        """Close the environments."""
        self.vector.close()
