"""Zero-shot coordination: one member of a team beside scripted experts of a named convention.

Nobody trained with these partners, unless a team was warm-started on them. Owns which tasks a
convention is tried on, and the comparison with experts in all seats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.core.experts import find_experts
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.measure.numbers.estimates import Estimate, exact_mean
from llm_marl_envs.measure.paired import Schedule, Stage, returns_of
from llm_marl_envs.measure.studies.cross_play import check_teams
from llm_marl_envs.policies import Policy, Team
from llm_marl_envs.policies.expert import ExpertPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroShot:
    """One seat of a team beside scripted experts of one convention.

    Attributes:
        team: name of the team.
        agent: the seat that it plays; experts play the others.
        convention: what the experts follow.
        mean_return: undiscounted team return over the tasks that the convention can solve.
        expert_return: the same with experts of the convention in all seats.
        failed: episodes of the seat whose environment raised; they earned their floor.
    """

    team: str
    agent: str
    convention: str
    mean_return: Estimate
    expert_return: float
    failed: int = 0


def zero_shot(stage: Stage, teams: Mapping[str, Team]) -> tuple[ZeroShot, ...]:
    """Seat each member of each team beside scripted experts of each convention.

    A convention is tried on the tasks that it can solve. Empty where the environment names no
    conventions.

    Args:
        stage: the environment and the episodes.
        teams: name -> team; each fills every seat.

    Raises:
        ValueError: no team, or a team with other seats.
    """
    agents = tuple(stage.env.possible_agents)
    check_teams(teams, agents, at_least=1)
    results: list[ZeroShot] = []
    parts = _by_convention(stage.env, stage.schedule)
    rounds = 1 + len(teams) * len(agents)
    stage.expect(rounds * sum(len(part.starts) for part in parts.values()))
    for convention, part in parts.items():
        expert = ExpertPolicy(stage.env, convention)

        def played(
            agent: str | None, policy: Policy, part: Schedule = part, expert: Policy = expert
        ) -> list[Episode]:
            seats = {seat: policy if seat == agent else expert for seat in agents}
            return stage.play(seats, part.starts)

        ceiling = exact_mean(returns_of(played(None, expert)))
        for name, team in teams.items():
            for agent in agents:
                episodes = played(agent, team[agent])
                results.append(
                    ZeroShot(
                        team=name,
                        agent=agent,
                        convention=convention,
                        mean_return=part.estimate(returns_of(episodes), episodes),
                        expert_return=ceiling,
                        failed=sum(episode.failed for episode in episodes),
                    )
                )
    return tuple(results)


def _by_convention(env: Any, schedule: Schedule) -> dict[str, Schedule]:
    """Convention -> the part of the schedule whose tasks it can solve."""
    inner = getattr(env, "unwrapped", env)
    experts = find_experts(inner)
    if experts is None:
        return {}
    starts: dict[str, list[Start]] = {}
    for start in schedule.starts:
        for convention in experts.conventions(inner.source[start.task]):
            starts.setdefault(convention, []).append(start)
    return {
        convention: Schedule(
            starts=tuple(some), n_tasks=len(some) // schedule.samples, samples=schedule.samples
        )
        for convention, some in sorted(starts.items())
        if convention
    }
