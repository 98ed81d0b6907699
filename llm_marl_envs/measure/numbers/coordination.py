"""Is a team coordinated, or are its members merely competent?

A team can fail although each member could do its part: they follow different conventions.
`measure_coordination` takes first-turn actions of simultaneous environments apart: how often an
action works beside a scripted partner that follows *its* convention (competence), how often the
agents' conventions agree (match), and how often matching agents succeed. `cooperation_index` says
how far a team got from what one seat alone can get to what a team can get.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.core.environment import TextEnv, TextParallelEnv
from llm_marl_envs.core.experts import Experts, experts_of, find_experts
from llm_marl_envs.core.outcome import BESIDE
from llm_marl_envs.core.records import Episode, Request, measured
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.measure.numbers.estimates import over_tasks
from llm_marl_envs.play.rollout import REPEATS, Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """Shares in [0, 1], over first-turn actions.

    Attributes:
        competence: agent -> share of its actions that solve the task beside partners scripted to
            the convention it chose; an action that follows none counts as failed.
        convention_match: share of episodes whose agents follow one convention.
        choice_match: the same over tasks that several conventions can solve; None if there are
            none.
        success_given_match: share of solved episodes among the matching ones; None if none match.
    """

    competence: dict[str, float]
    convention_match: float
    choice_match: float | None
    success_given_match: float | None


def measure_coordination(env: Any, episodes: Sequence[Episode], copies: int = 64) -> Coordination:
    """Take apart what a team did.

    Args:
        env: one copy of the environment that the episodes were played in.
        episodes: of a team, e.g. `TeamResult.episodes`; one that failed solved nothing. Those that
            failed before they named a task are left out: nobody acted in them.
        copies: how many episodes are replayed at once.

    Raises:
        ValueError: no episodes, or an environment without scripted experts.
    """
    inner = getattr(env, "unwrapped", env)
    episodes = [episode for episode in episodes if episode.task_id]
    if not isinstance(inner, TextParallelEnv) or not episodes:
        raise ValueError(
            "coordination needs episodes of a simultaneous environment with scripted experts"
        )
    experts = experts_of(inner)
    chosen = [_conventions(inner, experts, episode) for episode in episodes]
    matching = [_agree(conventions) for conventions in chosen]
    choice = [
        match
        for match, episode in zip(matching, episodes, strict=True)
        if len(experts.conventions(inner.source.find(episode.task_id))) > 1
    ]
    solved = [bool(e.success) for e, match in zip(episodes, matching, strict=True) if match]
    return Coordination(
        competence={
            agent: _competence(inner, agent, episodes, chosen, copies)
            for agent in inner.possible_agents
        },
        convention_match=sum(matching) / len(matching),
        choice_match=sum(choice) / len(choice) if choice else None,
        success_given_match=sum(solved) / len(solved) if solved else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceMatch:
    """How often a team agreed where there was a choice.

    Attributes:
        conventions: those that the tasks allow; two that draw evenly agree in 1 of so many.
        matching: episodes on such tasks whose agents' first actions follow one of them.
        episodes: all episodes on such tasks.
    """

    conventions: tuple[str, ...]
    matching: int
    episodes: int


def convention_match(env: Any, episodes: Sequence[Episode]) -> float | None:
    """Share of episodes whose agents' first actions follow one convention, in either form of play.

    Of the agents whose experts show their convention in the first action: a judge has none. None
    where fewer than two do, or no episode was played.
    """
    matches = [match for _, match in _matches(env, episodes)]
    return sum(matches) / len(matches) if matches else None


def match_by_choice(env: Any, episodes: Sequence[Episode]) -> list[ChoiceMatch]:
    """The same for each set of several conventions among the tasks, in the order of the names."""
    matches: dict[tuple[str, ...], list[bool]] = {}
    for conventions, match in _matches(env, episodes):
        if len(conventions) > 1:
            matches.setdefault(conventions, []).append(match)
    return [
        ChoiceMatch(conventions=conventions, matching=sum(matching), episodes=len(matching))
        for conventions, matching in sorted(matches.items())
    ]


def _matches(env: Any, episodes: Sequence[Episode]) -> list[tuple[tuple[str, ...], bool]]:
    """(conventions that the task allows, whether all follow one) of each episode that shows it."""
    inner = getattr(env, "unwrapped", env)
    experts = find_experts(inner)
    if experts is None:
        return []
    matches = []
    for episode in episodes:
        if not episode.task_id:
            continue
        task = inner.source.find(episode.task_id)
        showing = _showing(inner, experts, task)
        if len(showing) > 1:
            chosen = _conventions(inner, experts, episode)
            match = _agree({agent: chosen[agent] for agent in showing})
            matches.append((experts.conventions(task), match))
    return matches


def _showing(env: TextEnv, experts: Experts, task: Task) -> list[str]:
    """The agents whose experts show in their first action which convention they follow."""
    return [
        agent
        for agent in env.possible_agents
        for convention in experts.conventions(task)[:1]
        if experts.read(task, agent, experts.first(task, agent, convention)) is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperationIndex:
    """(score - best solo) / (best team - best solo): 0 is what one seat alone can get, 1 the most.

    Attributes:
        mean: over the tasks that need a team; negative where a team earns less than one seat could.
            None where one seat alone can get everything (`info="full"`): nothing is credited.
        ci95: its 95 % interval over tasks, None with `mean` and of fewer than six clusters.
        above_solo: score - best solo, mean over all tasks, in units of reward.
        n_tasks: the tasks that need a team.
        why: why a mean has no interval; empty where it has one.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    above_solo: float
    n_tasks: int
    why: str = ""


def cooperation_index(env: Any, episodes: Sequence[Episode]) -> CooperationIndex | None:
    """How far a team got beyond what one seat alone can get, by `env.bounds(task)`.

    None where the bounds are not known. They are of the task, and so is what is counted: neither
    prices nor what a scheme pays.

    Args:
        env: one copy of the environment that the episodes were played in.
        episodes: of a team, any number per task.
    """
    inner = getattr(env, "unwrapped", env)
    returns: dict[str, list[float]] = {}
    shared: dict[str, tuple[str, ...]] = {}
    for episode in measured(episodes):
        returns.setdefault(episode.task_id, []).append(episode.team_task_return)
        shared[episode.task_id] = shared.get(episode.task_id) or episode.clusters
    index, above, clusters = [], [], []
    for task_id, earned in returns.items():
        try:
            bounds = inner.bounds(inner.source.find(task_id))
        except (AttributeError, ValueError):
            return None
        above.append(sum(earned) / len(earned) - bounds.solo)
        if bounds.team > bounds.solo:
            index.append(above[-1] / (bounds.team - bounds.solo))
            clusters.append(shared[task_id])
    if not above:
        return None
    found = over_tasks(index, clusters) if index else None
    return CooperationIndex(
        mean=found and found.mean,
        ci95=found and found.ci95,
        above_solo=sum(above) / len(above),
        n_tasks=len(index),
        why=found.why if found else "",
    )


def _agree(conventions: Mapping[str, str | None]) -> bool:
    """Whether all agents follow one convention; who follows none agrees with nobody."""
    return len(set(conventions.values())) == 1 and None not in conventions.values()


def _conventions(env: TextEnv, experts: Experts, episode: Episode) -> dict[str, str | None]:
    task = env.source.find(episode.task_id)
    first: dict[str, str] = {}
    for turn in episode.turns:
        if not turn.info.get(BESIDE):  # a call of a tool follows no convention
            first.setdefault(turn.agent, turn.action)
    return {
        agent: experts.read(task, agent, first[agent]) if agent in first else None
        for agent in env.possible_agents
    }


def _competence(
    env: TextEnv,
    agent: str,
    episodes: Sequence[Episode],
    chosen: Sequence[dict[str, str | None]],
    copies: int,
) -> float:
    """Replay each first action beside partners scripted to its convention."""
    experts = experts_of(env)
    readable = [
        (episode, agent, convention)
        for episode, conventions in zip(episodes, chosen, strict=True)
        if (convention := conventions[agent]) is not None
        and convention in experts.conventions(env.source.find(episode.task_id))
    ]
    if not readable:
        return 0.0
    envs = VectorTextEnv([one_turn_copy(env) for _ in range(min(copies, len(readable)))])
    failures = Failures(lambda: one_turn_copy(env), REPEATS)
    again = beside_experts(envs, readable, failures)
    failures.refuse_if_all(again)
    failures.refuse_uncounted(again)
    return sum(bool(episode.success) for episode in again) / len(episodes)


def beside_experts(
    copies: VectorTextEnv, trials: Sequence[tuple[Episode, str, str]], failures: Failures
) -> list[Episode]:
    """What one seat's first action comes to where experts of one convention play the others.

    Args:
        copies: of a simultaneous environment whose episodes end after one turn.
        trials: (episode, agent, convention): the agent says again what it said in the episode, on
            the same task with the same reset seed. The task must allow the convention.
        failures: as in `rollout`.

    Returns:
        One episode per trial.
    """
    env: TextEnv = copies.envs[0].unwrapped
    experts = experts_of(env)

    def script(request: Request) -> str:
        episode, agent, convention = trials[request.episode]
        if request.agent == agent:
            return episode.trajectory(agent)[request.turn].action
        return experts.first(env.source.find(request.task_id), request.agent, convention)

    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(script))
    starts = [Start(task=episode.task_id, seed=episode.seed) for episode, _, _ in trials]
    return rollout(copies, team, starts, failures=failures)


def one_turn_copy(env: TextEnv) -> TextEnv:
    """A copy of the environment whose episodes end after each agent's first action."""
    duplicate = copy.copy(env)
    duplicate.max_turns = 1
    return duplicate
