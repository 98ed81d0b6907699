"""Measure a saved team: what `llm-marl eval` does.

Owns the loading of teams by name and the summary that is printed and written. The measuring itself
is `llm_marl_envs.evaluation`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from llm_marl_envs import make
from llm_marl_envs.evaluation import TeamResult, evaluate_team
from llm_marl_envs.policies import ExpertPolicy, Policy, RandomPolicy, check_team
from llm_marl_envs.records import write_jsonl
from trainers.team_files import load_team, read_team_file
from trainers.token_policy import TokenPolicy
from trainers.train import scripted_partners

DEFAULT_COMPLETION_LENGTH = 256


def run_eval(
    env_id: str,
    *,
    team: str,
    tasks: int = 100,
    temperature: float = 1.0,
    seed: int = 0,
    output: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    partners: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Evaluate a team, print the summary and, with `output`, write it with the transcripts.

    Raises:
        ValueError: unknown environment or team, or more tasks than the split has.
    """
    kwargs = {"split": "test", **(env_kwargs or {})}
    env = make(env_id, **kwargs)
    seats = {
        **named_team(team, env, temperature),
        **scripted_partners(partners or {}, env),
    }
    check_team(seats, env.possible_agents)
    with tqdm(total=tasks, unit="episode", desc=f"eval {env_id}") as bar:
        result = evaluate_team(
            lambda: make(env_id, **kwargs),
            seats,
            n_tasks=tasks,
            seed=seed,
            progress=bar.update,
        )
    summary = {
        "env_id": env_id,
        "env_kwargs": kwargs,
        "team": team,
        "temperature": temperature,
        "seed": seed,
        **summary_of(result),
    }
    print(json.dumps(summary, indent=2))
    if output:
        write_json(Path(output) / "summary.json", summary)
        write_jsonl(Path(output) / "episodes.jsonl", result.episodes)
    return summary


def named_team(team: str, env: Any, temperature: float) -> dict[str, Policy]:
    """The team called "expert" or "random", or the one saved in a folder of that name."""
    policy: Policy
    agents = env.possible_agents
    if team == "expert":
        policy = ExpertPolicy(env)
    elif team == "random":
        policy = RandomPolicy()
    else:
        agents = list(read_team_file(team)["agents"])  # others need partners
        length = read_team_file(team).get("max_completion_length", DEFAULT_COMPLETION_LENGTH)
        policy = TokenPolicy(load_team(team), max_completion_length=length, temperature=temperature)
    return dict.fromkeys(agents, policy)


def summary_of(result: TeamResult) -> dict[str, Any]:
    """A result without its episodes, JSON-ready."""
    return {f.name: getattr(result, f.name) for f in fields(result) if f.name != "episodes"}


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file at once, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)
