"""What `llm-marl eval` and `llm-marl baselines` do, from names to a table and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import plain
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.measure.numbers.results import RESULT_FILE, TeamResult, result_to_dict
from llm_marl_envs.measure.numbers.tables import result_table
from llm_marl_envs.measure.progress import counter
from llm_marl_envs.measure.run_manifest import recording
from llm_marl_envs.measure.runner import (
    Plan,
    fingerprint_of_tasks,
    open_log,
    run_plan,
    starts_of,
)
from llm_marl_envs.measure.studies.baselines import (
    DEFAULT_SAMPLES,
    Baselines,
    baseline_table,
    check_names,
    run_baselines,
    tokens_written,
)
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.named import (
    Context,
    NamedTeam,
    Sampling,
    identity_of,
    named_policy,
    named_team,
    words_of,
)


def measure_team(
    env_id: str,
    *,
    team: str,
    plan: Plan | None = None,
    sampling: Sampling | None = None,
    output: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    partners: Mapping[str, str] | None = None,
    transfer: bool = False,
) -> dict[str, Any]:
    """Evaluate a team; returns the summary and, with `output`, writes it and the transcripts.

    Args:
        env_id: id of an environment.
        team: as `named_team` takes it.
        plan: which episodes; 100 tasks where None.
        sampling: how models sample.
        output: folder of the summary, the transcripts, the plan and the run's manifest; one that
            was interrupted there goes on.
        env_kwargs: arguments of the environment; `split` is "test" unless they say another, and
            `prompts` those that a saved team was trained with.
        partners: agent -> policy by name, for seats that the team does not play.
        transfer: allow a team that was trained in another environment.

    Raises:
        ValueError: unknown environment or team, more tasks than the split has, samples that would
            all be alike, or a folder that holds another evaluation.
    """
    plan, sampling = plan or Plan(n_tasks=100), sampling or Sampling()
    kwargs = {"split": "test", **words_of(team, env_id), **(env_kwargs or {})}
    env = make(env_id, **kwargs)
    starts_of(plan, env)  # refuses what cannot be played, before a model is loaded
    sampling.check_samples(plan.samples)
    named = named_team(team, Context(env=env, sampling=sampling, transfer=transfer), partners)
    if output:  # what holds another evaluation is refused before anything is written there
        open_log(env, plan, output, named.identity)
    result = _play(env, named, plan, sampling, output)
    about = {"team": team, "identity": named.identity, "temperature": named.temperature}
    summary = summary_of(env, result, kwargs, plan) | about
    if output:
        write_json(Path(output) / RESULT_FILE, summary)
    return summary


def summary_of(
    env: Any, result: TeamResult, kwargs: Mapping[str, Any], plan: Plan
) -> dict[str, Any]:
    """What `summary.json` holds, less who played: `team`, `identity` and `temperature`.

    Args:
        env: that was played.
        result: of all episodes of the plan.
        kwargs: arguments of the environment.
        plan: that was played.
    """
    return {
        **result_to_dict(result),
        "env_id": env.spec.id,
        "env_kwargs": plain(kwargs),
        "tasks_sha256": fingerprint_of_tasks(env, starts_of(plan, env)),
        "seed": plan.seeds[0],
    }


def run_eval(env_id: str, *, output: str | None = None, **asked: Any) -> dict[str, Any]:
    """`measure_team`, with a table printed; the same arguments."""
    summary = measure_team(env_id, output=output, **asked)
    print(result_table({summary["team"]: summary}))
    if output:
        print(f"written to {output}")
    return summary


def _play(
    env: Any, named: NamedTeam, plan: Plan, sampling: Sampling, output: str | None
) -> TeamResult:
    """Play a plan with a progress bar and, where there is an output, a manifest of the run."""
    env_id, kwargs = env.spec.id, dict(env.env_kwargs)
    config = {"team": named.identity, "plan": asdict(plan), "sampling": asdict(sampling)}
    with (
        recording(output, "eval", config, env_id=env_id, env_kwargs=kwargs) as costs,
        counter(len(starts_of(plan, env)), f"eval {env_id}") as progress,
    ):
        result = run_plan(
            lambda: make(env_id, **kwargs),
            named.seats,
            plan,
            folder=output,
            identity=named.identity,
            progress=progress,
        )
        if result.cost.completion_tokens is not None:
            # Failed episodes cost tokens, too.
            counts = [turn.response.tokens for e in result.episodes for turn in e.turns]
            costs.tokens = sum(count[1] for count in counts if count is not None)
    return result


def run_all_baselines(
    env_id: str,
    *,
    policy: str,
    plan: Plan,
    sampling: Sampling | None = None,
    names: Sequence[str] | None = None,
    n: int = DEFAULT_SAMPLES,
    output: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Baselines:
    """Play the baselines of a policy, print their table and, with `output`, write them.

    Args:
        env_id: id of an environment.
        policy: as `named_policy` takes it.
        plan: which episodes.
        sampling: how models sample.
        names: some of `BASELINES`; all where None.
        n: samples of the oracle and votes of self-consistency.
        output: folder of `baselines.json`, the run's manifest and one subfolder per baseline.
        env_kwargs: arguments of the environment.

    Raises:
        ValueError: as `run_eval` and `run_baselines`.
    """
    kwargs = {"split": "test", **(env_kwargs or {})}
    env = make(env_id, **kwargs)
    check_names(names, n)  # before a model is loaded
    starts_of(plan, env)
    sampling = sampling or Sampling()
    sampling.check_samples(n)
    made = named_policy(policy, Context(env=env, sampling=sampling))
    identity = identity_of(made)
    config = {"policy": identity, "n": n, "plan": asdict(plan)}
    session = recording(output, "baselines", config, env_id=env.spec.id, env_kwargs=env.env_kwargs)
    with session as costs, counter(None, f"baselines {env_id}") as progress:
        baselines = run_baselines(
            lambda: make(env_id, **kwargs),
            made,
            plan,
            names=names,
            n=n,
            folder=output,
            identity=identity,
            progress=progress,
        )
        costs.tokens = tokens_written(baselines)
    print(baseline_table(baselines))
    if output:
        folder = Path(output)
        about = {"env_id": env.spec.id, "env_kwargs": plain(kwargs), "policy": policy}
        for name, result in baselines.results.items():
            who = {"team": name, "identity": {"policy": f"{name}: {identity}"}}
            write_json(folder / name.replace(" ", "_") / RESULT_FILE, {**result, **about, **who})
        write_json(folder / "baselines.json", {**about, **asdict(baselines)})
        print(f"written to {folder}")
    return baselines
