"""trust_split_tiny: what do players get who talk, and what does one get who exploits them?

`return` is the mean over both players of what each gets, `optimum` the share of the social optimum
reached, `legal` the share of answers that are a choice, `true` the share of claims that are true,
and `... beside` what a scripted player gets beside the team, mean over both seats. `silenced` is
the same team whose claims are empty texts. Arm `responder`: player_0 begins with the warm start, is
paid its own part, and learns beside player_1 of the seed's trained team, which does not learn; what
it gets is `player_0`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import mean
from typing import Any

from benchmarks.presets.study import (
    MEASURE_SEED,
    Run,
    Settings,
    Study,
    held_out,
    policy_of,
    team_of,
    trained,
)
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.measure import TeamResult, evaluate_team
from llm_marl_envs.policies import Policy, Team
from llm_marl_envs.policies.named import Context, named_policy
from trainers.weights.team_files import load_team

EPISODES = 200
"""Or a few less: each held-out task is played as often."""
BESIDE = ("taker", "liar", "breaker")


def measure(run: Settings, seats: Team) -> dict[str, Any]:
    """The team with its talk, without, and each seat beside each scripted player."""
    quiet = {agent: Quiet(policy) for agent, policy in seats.items()}
    context = Context(env=held_out(run))
    beside = {plan: named_policy(f"expert:{plan}", context) for plan in BESIDE}
    return {
        "heard": numbers(played(run, seats)),
        "silenced": numbers(played(run, quiet)),
        "beside": {
            plan: mean(pay(played(run, {**seats, seat: player}), seat) for seat in seats)
            for plan, player in beside.items()
        },
    }


def played(run: Settings, seats: Team) -> TeamResult:
    """`EPISODES` episodes of all held-out tasks."""
    env = held_out(run)
    tasks = min(EPISODES, len(env.unwrapped.source))
    return evaluate_team(
        env, seats, n_tasks=tasks, samples=max(1, EPISODES // tasks), seed=MEASURE_SEED
    )


class Quiet:
    """A policy that says nothing while others listen, and chooses as another one does."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """The first text of a seat is talk, the second its choice."""
        talk = [all(one.role != "assistant" for one in request.messages) for request in requests]
        last = [request for request, first in zip(requests, talk, strict=True) if not first]
        chosen = iter(self.policy.act(last) if last else ())
        return [Response(text="") if first else next(chosen) for first in talk]


def numbers(result: TeamResult) -> dict[str, Any]:
    """What a team did."""
    last = [turn.info for one in result.episodes for turn in one.turns if "readable" in turn.info]
    claims = [info["truthful"] for info in last if info["truthful"] is not None]
    return {
        "return": result.mean_return,
        "optimum": result.success,
        "legal": mean(info["readable"] for info in last),
        "claims": len(claims) / len(last),
        "true": mean(claims) if claims else None,
        "episodes": len(result.episodes),
    }


def pay(result: TeamResult, seat: str) -> float:
    """What one seat gets."""
    return mean(one.undiscounted_return(seat) for one in result.episodes)


def responder(study: Study, args: argparse.Namespace, arm: str, seed: int) -> Run:
    """player_0, paid its own part, beside a trained player_1 that does not learn."""
    team = team_of(study, args, seed)

    def beside_it(run: Settings, seats: Team) -> dict[str, Any]:
        result = played(run, {**seats, "player_1": policy_of(run, load_team(team))})
        return {"heard": numbers(result) | {"own": pay(result, "player_0")}}

    changes = ["credit=own", f"partners={{player_1: {team}}}"]
    return trained(study, args, arm, seed, changes=changes, measure=beside_it)


STUDY = Study(
    preset="trust_split_tiny",
    first_seed=105,  # settings were changed after 100 to 102 had been seen
    measure=measure,
    columns={
        "return": "heard/return",
        "silenced": "silenced/return",
        "optimum": "heard/optimum",
        "legal": "heard/legal",
        "true": "heard/true",
        "player_0": "heard/own",
        **{f"{plan} beside": f"beside/{plan}" for plan in BESIDE},
    },
    rises=("return", "player_0"),
    more={"responder": responder},
)
