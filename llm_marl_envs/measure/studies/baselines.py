"""Baselines without training: what random text, scripts and prompting reach, and at which cost.

Owns which protocol (`policies/protocols.py`) makes sense in which environment, the oracle, and the
table. `llm-marl baselines` prints it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_marl_envs.core.answers import canonical, read_answer
from llm_marl_envs.core.environment import TextEnv, TextParallelEnv, task_source
from llm_marl_envs.core.experts import find_experts
from llm_marl_envs.core.records import measured
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import format_table
from llm_marl_envs.measure.numbers.metrics import METRICS
from llm_marl_envs.measure.numbers.results import TeamResult, result_to_dict, summarise
from llm_marl_envs.measure.numbers.tables import shown
from llm_marl_envs.measure.numbers.values import in_summary, title
from llm_marl_envs.measure.progress import Progress, expect
from llm_marl_envs.measure.runner import Plan, run_plan, starts_of
from llm_marl_envs.policies import Policy, RandomPolicy, Team
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.policies.protocols import (
    AlonePolicy,
    DiscussionPolicy,
    PipelinePolicy,
    SelfConsistencyPolicy,
    SinglePolicy,
)

PARALLEL = "parallel"
ORACLE = "oracle"
BEST = ORACLE + " best of {n}"
VOTING = "self-consistency"
VOTES = VOTING + " of {n}"
DEFAULT_SAMPLES = 4


class NotApplicableError(ValueError):
    """A baseline that makes no sense in an environment; the message says why."""


def expert_team(env: Any, policy: Policy) -> Team:
    """Scripted experts that draw their conventions alone, so that they agree by chance.

    Raises:
        NotApplicableError: the environment has none.
    """
    inner = getattr(env, "unwrapped", env)
    experts = find_experts(inner)
    if experts is None:
        raise NotApplicableError("no scripted experts")
    task = inner.source[0]
    try:
        experts.first(task, inner.possible_agents[0], (*experts.conventions(task), "")[0])
    except ValueError as error:
        raise NotApplicableError(f"no scripted experts here: {error}") from error
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env))


def single_team(env: Any, policy: Policy) -> Team:
    """One call writes all parts, from all that the seats see; `SinglePolicy` or `AlonePolicy`.

    Raises:
        NotApplicableError: a script, or a turn-based environment whose seats have different parts.
    """
    _refuse_scripts(policy)
    inner = getattr(env, "unwrapped", env)
    if isinstance(inner, TextParallelEnv):
        # As many tokens as the seats have together.
        longer = getattr(policy, "stretched", None)
        writer = policy if longer is None else longer(len(env.possible_agents))
        return dict.fromkeys(env.possible_agents, SinglePolicy(writer))
    roles = {agent.rpartition("_")[0] for agent in env.possible_agents}
    if not isinstance(inner, TextEnv) or len(roles) > 1:
        raise NotApplicableError("turn-based, with parts that one message cannot play")
    rules = copy.copy(inner)  # its openings may set state

    def opening(task_id: str) -> Mapping[str, Any]:
        return rules.opening(rules.source.find(task_id))

    return dict.fromkeys(env.possible_agents, AlonePolicy(policy, opening))


def pipeline_team(env: Any, policy: Policy) -> Team:
    """Seats act one after the other, each sees the parts before its own.

    Raises:
        NotApplicableError: a script, or a turn-based environment, where that is so already.
    """
    _refuse_scripts(policy)
    _refuse_turn_based(env, "what is said before is seen already")
    return dict.fromkeys(env.possible_agents, PipelinePolicy(policy, env.possible_agents))


def discussion_team(env: Any, policy: Policy) -> Team:
    """Every seat drafts, sees the others' drafts and writes its part.

    Raises:
        NotApplicableError: a script, or a turn-based environment.
    """
    _refuse_scripts(policy)
    _refuse_turn_based(env, "drafts would not be private")
    return dict.fromkeys(env.possible_agents, DiscussionPolicy(policy))


def self_consistency_team(env: Any, policy: Policy, n: int = DEFAULT_SAMPLES) -> Team:
    """Each seat gives the most frequent answer of `n` samples.

    Raises:
        NotApplicableError: an environment whose tasks have no answer to vote on.
    """
    source = task_source(env)
    if source is None or "answer" not in source[0].data:
        raise NotApplicableError("no answers to vote on")

    def read(text: str) -> str | None:
        answer = read_answer(text)
        return answer and canonical(answer)

    return dict.fromkeys(env.possible_agents, SelfConsistencyPolicy(policy, n, read))


def _refuse_scripts(policy: Policy) -> None:
    if isinstance(policy, (ExpertPolicy, RandomPolicy)):
        raise NotApplicableError("scripts do not read what others wrote")


def _refuse_turn_based(env: Any, why: str) -> None:
    if not isinstance(getattr(env, "unwrapped", env), TextParallelEnv):
        raise NotApplicableError(f"turn-based: {why}")


BASELINES: Mapping[str, Callable[[Any, Policy], Team]] = {
    "random": lambda env, policy: dict.fromkeys(env.possible_agents, RandomPolicy()),
    "expert": expert_team,
    "single": single_team,
    # Every seat asks the untrained policy with what that seat sees, nothing else.
    PARALLEL: lambda env, policy: dict.fromkeys(env.possible_agents, policy),
    "pipeline": pipeline_team,
    "discussion": discussion_team,
    VOTING: self_consistency_team,
}
"""name -> (environment, policy) -> team; the oracle is made from the episodes of `parallel`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """What the baselines of one policy reached.

    Attributes:
        results: name -> what `result_to_dict` gives.
        skipped: name -> why it makes no sense here.
    """

    results: dict[str, dict[str, Any]]
    skipped: dict[str, str]


def run_baselines(
    env: Callable[[], Any],
    policy: Policy,
    plan: Plan,
    *,
    names: Sequence[str] | None = None,
    n: int = DEFAULT_SAMPLES,
    folder: str | Path | None = None,
    identity: str | None = None,
    progress: Progress | None = None,
) -> Baselines:
    """Play every baseline that makes sense, on the same tasks and reset seeds.

    Args:
        env: makes a copy of the environment.
        policy: what the protocols ask.
        plan: which episodes; `parallel` plays `n` samples of each from its reset seed: the oracle
            chooses among what a policy says, not among what chance deals.
        names: of `BASELINES`; all where None.
        n: samples of the oracle and votes of self-consistency.
        folder: one subfolder per baseline; interrupted ones go on, see `run_plan`.
        identity: what tells `policy` from others; its class name where None.
        progress: called with the number of episodes just finished.

    Raises:
        ValueError: an unknown name, or n < 1.
    """
    check_names(names, n)
    first = env()
    baselines = Baselines(results={}, skipped={})
    plans = {
        name: replace(plan, samples=plan.samples * n, per_reset=n) if name == PARALLEL else plan
        for name in names or BASELINES
    }
    labels = {name: VOTES.format(n=n) if name == VOTING else name for name in plans}
    teams: dict[str, Team] = {}
    for name, label in labels.items():
        try:
            teams[name] = (
                self_consistency_team(first, policy, n)
                if name == VOTING
                else BASELINES[name](first, policy)
            )
        except NotApplicableError as error:
            baselines.skipped[label] = str(error)
    expect(progress, sum(len(starts_of(plans[name], first)) for name in teams))
    for name, team in teams.items():
        label = labels[name]
        result = run_plan(
            env,
            team,
            plans[name],
            folder=None if folder is None else Path(folder) / label.replace(" ", "_"),
            identity=dict.fromkeys(team, f"{label}: {identity or type(policy).__name__}"),
            progress=progress,
        )
        baselines.results[label] = result_to_dict(result)
        if name == PARALLEL:
            baselines.results[BEST.format(n=n)] = oracle_best(result, n)
    return baselines


def check_names(names: Sequence[str] | None, n: int) -> None:
    """Check what `run_baselines` is asked for.

    Raises:
        ValueError: an unknown name, or n < 1.
    """
    unknown = [name for name in names or () if name not in BASELINES]
    if unknown or n < 1:
        raise ValueError(
            f"baselines {unknown}, n={n}: expected some of {[*BASELINES]} (the oracle comes with "
            f"{PARALLEL!r}), n >= 1"
        )


def tokens_written(baselines: Baselines) -> int | None:
    """By all baselines that count them, each episode once: the oracle's are those of `parallel`."""
    counted = [
        result["cost"]["completion_tokens"] * sum(len(task["returns"]) for task in result["tasks"])
        for name, result in baselines.results.items()
        if not name.startswith(ORACLE) and result["cost"]["completion_tokens"] is not None
    ]
    return round(sum(counted)) if counted else None


def oracle_best(result: TeamResult, n: int) -> dict[str, Any]:
    """The best of every `n` episodes of a task, chosen by the environment's own reward.

    An upper bound of the return, not a way to play: nobody has the reward when it counts. It costs
    all n episodes, and so its cost is theirs. One that failed earned its floor.

    Raises:
        ValueError: the episodes per task and seed are no multiple of `n`.
    """
    if result.samples % n:
        raise ValueError(f"{result.samples} samples per task: expected a multiple of {n}")
    counted = measured(result.episodes)
    groups = [counted[i : i + n] for i in range(0, len(counted), n)]
    best = [max(group, key=lambda e: (e.team_task_return, not e.failed)) for group in groups]
    summary = result_to_dict(
        summarise(best, result.samples // n, seeds=result.seeds, seconds=result.cost.seconds)
    )
    whole = result_to_dict(result)["cost"]
    for name in ("turns_per_agent", "chars", "prompt_tokens", "completion_tokens"):
        summary["cost"][name] = None if whole[name] is None else whole[name] * n
    summary["cost"]["tokens_per_second"] = whole["tokens_per_second"]
    return summary


def baseline_table(baselines: Baselines) -> str:
    """One line per baseline: quality, then what an episode cost."""
    costs = ("prompt_tokens", "completion_tokens", "chars", "seconds_per_episode")
    names = ("mean_return", "success", "failed", *costs)
    rows = []
    for name, summary in baselines.results.items():
        estimates = {metric: in_summary(METRICS[metric], summary).get(metric) for metric in names}
        if summary["cost"]["seconds"] is not None:
            episodes = sum(len(task["returns"]) for task in summary["tasks"])
            estimates["seconds_per_episode"] = Estimate(summary["cost"]["seconds"] / episodes)
        rows.append((name, *(shown(METRICS[metric], of) for metric, of in estimates.items())))
    about = "An oracle is an upper bound of the return."
    lines = [format_table(("", *map(title, names)), rows), about]
    lines += [f"{name}: not here ({why})" for name, why in baselines.skipped.items()]
    return "\n".join(lines)
