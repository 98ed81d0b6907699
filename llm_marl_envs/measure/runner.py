"""Play held-out tasks with a team and sum up what it earned.

Owns which episodes an evaluation plays, in which order and blocks. Any policies will do: language
models, scripted experts, people. The numbers are `measure/numbers/results.py`, the files
`resume.py`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from llm_marl_envs import __version__
from llm_marl_envs.core.checks import seed_of
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import Episode, living, plain
from llm_marl_envs.core.seeds import Start, evaluation_starts
from llm_marl_envs.core.specs import env_arguments, env_name
from llm_marl_envs.measure.numbers.coordination import convention_match, cooperation_index
from llm_marl_envs.measure.numbers.results import TeamResult, summarise
from llm_marl_envs.measure.numbers.topography import topographies
from llm_marl_envs.measure.progress import Progress
from llm_marl_envs.measure.resume import EvaluationLog
from llm_marl_envs.play.registry import env_factory
from llm_marl_envs.play.rollout import REPEATS, Context, Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Team, check_team

DEFAULT_COPIES = 64
ENOUGH_FAILED = 8
"""After so many episodes, all of which failed, an evaluation stops: nothing else will come."""
PLAN_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which episodes an evaluation plays.

    Attributes:
        n_tasks: the first so many of the environment's split; None plays all.
        samples: episodes per task and seed; they differ in the reset seed, and so in what chance
            deals, and in the policies' randomness.
        per_reset: so many samples in a row share a reset seed and differ in the policies' alone.
        seeds: of resets and sampling; every task is played under each.
        copies: how many episodes run at once, which is also the block that is saved.
        context: as in `rollout`.

    Raises:
        ValueError: a number out of range, no seeds, or a seed twice.
        TypeError: a seed that is no whole number; numpy's are taken as `int`.
    """

    n_tasks: int | None = None
    samples: int = 1
    per_reset: int = 1
    seeds: tuple[int, ...] = (0,)
    copies: int = DEFAULT_COPIES
    context: Context = "append"

    def __post_init__(self) -> None:
        if self.samples < 1 or self.copies < 1:
            raise ValueError(
                f"samples={self.samples}, copies={self.copies}: expected at least 1 each"
            )
        object.__setattr__(self, "seeds", tuple(seed_of(seed) for seed in self.seeds))
        if self.per_reset < 1 or self.samples % self.per_reset:
            raise ValueError(
                f"per_reset={self.per_reset}: expected a divisor of samples={self.samples}"
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds={self.seeds}: expected at least one, none twice")


def evaluate_team(
    env: Any,
    team: Team,
    *,
    n_tasks: int | None = None,
    samples: int = 1,
    seed: int | Sequence[int] = 0,
    copies: int = DEFAULT_COPIES,
    context: Context = "append",
    progress: Progress | None = None,
) -> TeamResult:
    """Play the first `n_tasks` tasks of the environment's split, `samples` times each.

    Args:
        env: a registered id, a function that makes the environment, or an environment; its own
            `split` says which tasks are meant.
        team: agent -> policy.
        n_tasks: None plays all tasks; more than there are is an error.
        samples: episodes per task; each has a reset seed of its own.
        seed: of resets and sampling; several play every task under each.
        copies: how many episodes run at once.
        context: as in `rollout`.
        progress: called with the number of episodes just finished.

    An episode whose environment raises does not end the evaluation: `TeamResult.failed` counts it,
    and means hold the smallest return that the environment declares (`reward_range`). One that
    something outside of the environment ended (`rollout.INFRASTRUCTURE`) is played again.

    Raises:
        ValueError: a number out of range, or the team does not fit the environment.
        Exception: what the environment raised first, where every episode failed, or where it
            declares no smallest return; what broke outside of it again and again.
    """
    seeds = tuple(seed) if isinstance(seed, Sequence) else (seed,)
    plan = Plan(n_tasks=n_tasks, samples=samples, seeds=seeds, copies=copies, context=context)
    return run_plan(env, team, plan, progress=progress)


def run_plan(
    env: Any,
    team: Team,
    plan: Plan,
    *,
    folder: str | Path | None = None,
    identity: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> TeamResult:
    """Play a plan; with a folder, go on where an earlier run of the same plan ended.

    Args:
        env: as in `evaluate_team`.
        team: agent -> policy.
        plan: which episodes.
        folder: finished episodes, failed ones too, are appended there block by block, see
            `resume.py`; a plan that is finished there is only summed up.
        identity: what distinguishes this team from others, kept in the folder's `plan.json`; the
            policies' class names where None, which do not tell two models apart.
        progress: called with the number of episodes just finished, or found in the folder.

    Raises:
        ValueError: as `evaluate_team`, or the folder holds another evaluation or is damaged.
        Exception: as `evaluate_team`, or the first `ENOUGH_FAILED` episodes and their block failed;
            these are not written.
    """
    make_env = env_factory(env)
    first = make_env()
    check_team(team, first.possible_agents)
    starts = starts_of(plan, first)
    names = identity or {agent: type(policy).__name__ for agent, policy in team.items()}
    log = None if folder is None else open_log(first, plan, folder, names)
    done: list[Episode] = list(log.episodes) if log else []
    seconds = log.seconds if log else 0.0
    if done and progress is not None:
        progress(len(done))
    left = starts[len(done) :]
    vector = VectorTextEnv([first, *(make_env() for _ in range(min(plan.copies, len(left)) - 1))])
    failures = Failures(make_env, REPEATS)
    failures.refuse_uncounted(done)
    unwritten: list[tuple[list[Episode], float]] = []  # as long as all have failed
    try:
        for place in range(0, len(left), plan.copies):
            begun = time.perf_counter()
            starts_now = left[place : place + plan.copies]
            block = rollout(vector, team, starts_now, context=plan.context, failures=failures)
            took = time.perf_counter() - begun
            seconds += took
            failures.refuse_uncounted(block)
            done += block
            unwritten.append((block, took))
            if len(done) >= min(ENOUGH_FAILED, len(starts)):
                failures.refuse_if_all(done)
            while log is not None and unwritten and living(done):
                log.append(*unwritten.pop(0))
            if progress is not None:
                progress(len(block))
        return sum_up(vector.envs[0], done, plan, seconds)
    finally:
        vector.close()


def sum_up(env: Any, done: Sequence[Episode], plan: Plan, seconds: float) -> TeamResult:
    """The result of a plan's episodes, with what their environment can say of them.

    Args:
        env: that was played.
        done: all episodes of the plan, in its order.
        plan: of them.
        seconds: of wall time that they took.

    Raises:
        ValueError: as `summarise`.
    """
    result = summarise(
        done,
        plan.samples,
        seeds=plan.seeds,
        seconds=seconds,
        cooperation=cooperation_index(env, done),
        match=convention_match(env, done),
    )
    return replace(result, topography=topographies(env, done))


def open_log(
    env: Any, plan: Plan, folder: str | Path, identity: Mapping[str, str]
) -> EvaluationLog:
    """The folder of an evaluation; made, or checked against what is asked.

    Raises:
        ValueError: it holds another evaluation, or is damaged.
    """
    return EvaluationLog(folder, pinned_plan(env, plan, identity), starts_of(plan, env))


def pinned_plan(env: Any, plan: Plan, identity: Mapping[str, str]) -> dict[str, Any]:
    """All that the episodes of a folder depend on, as its `plan.json` holds it."""
    starts = starts_of(plan, env)
    return {
        "version": PLAN_VERSION,
        "package_version": __version__,
        "env_id": env_name(env),
        "env_kwargs": plain(env_arguments(env)),
        "agents": list(env.possible_agents),
        "team": dict(identity),
        "episodes": len(starts),
        "samples": plan.samples,
        "seeds": list(plan.seeds),
        **resets_of(plan),
        "context": plan.context,
        "tasks_sha256": fingerprint_of_tasks(env, starts),
    }


def resets_of(plan: Plan) -> dict[str, int]:
    """What a pinned plan says of its reset seeds: how many a task has for each of the seeds.

    Nothing where it is one, as in every plan of older releases, whose samples shared it.
    """
    resets = plan.samples // plan.per_reset
    return {"resets": resets} if resets > 1 else {}


def starts_of(plan: Plan, env: Any) -> list[Start]:
    """Every episode of a plan, task by task, then seed by seed, then sample by sample.

    Raises:
        ValueError: more tasks than there are, none, or no task source and no number.
    """
    source = task_source(env)
    available = len(source) if source is not None else None
    if source is not None and available == 0:
        raise ValueError(f"the split {source.split!r} is empty; choose another one")
    count = plan.n_tasks if plan.n_tasks is not None else available
    if count is None or count < 1 or (available is not None and count > available):
        raise ValueError(
            f"n_tasks={plan.n_tasks}: expected 1 to {available} (llm-marl: --tasks all for all)"
            if available
            else f"n_tasks={plan.n_tasks}: this environment has no task source, so give a number"
        )
    return evaluation_starts(
        count,
        plan.seeds,
        plan.samples,
        with_tasks=source is not None,
        per_reset=plan.per_reset,
    )


def fingerprint_of_tasks(env: Any, starts: Sequence[Start]) -> str | None:
    """A hash of the tasks themselves: a file of tasks may change under the same name."""
    source = task_source(env)
    if source is None:
        return None
    digest = hashlib.sha256()
    for index in dict.fromkeys(start.task for start in starts):
        task = source[cast("int", index)]  # as `starts_of` makes them where there is a source
        digest.update(json.dumps([task.id, plain(dict(task.data))]).encode())
    return digest.hexdigest()
