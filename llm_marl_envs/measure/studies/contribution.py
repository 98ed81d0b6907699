"""What an agent's action is worth: play it differently, play on, and compare the team's return.

An action is swapped for what another policy says there (a warm start, a default text), what went
before stays as recorded, and what follows is played again with the same seeds. The return that the
team loses is the action's contribution against that replacement. It may be negative.

Owns the replacement; `branches.py` replays. What is only *heard* by others is `messages.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llm_marl_envs.core.records import Branch, Episode, Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.measure.numbers.estimates import Estimate, exact_mean, over_tasks
from llm_marl_envs.measure.paired import Stage, returns_lost
from llm_marl_envs.policies import Policy, ScriptedPolicy, Team, check_team

Replacement = Policy | str
Swap = tuple[str, int | None]
"""whose action and which of its turns, None for all"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What the team loses where one action is replaced.

    Attributes:
        agent: whose action.
        turn: k of the replaced action, None where all actions of the agent are.
        lost: actual minus counterfactual team return, over the tasks whose episodes have the turn.
        mattered: share of these episodes whose return changed.
        changed: share of these episodes in which the replacement said something else.
        failed: pairs of episodes in one of which the environment raised; that one earned its floor.
    """

    agent: str
    turn: int | None
    lost: Estimate
    mattered: float
    changed: float
    failed: int = 0


def contributions(
    stage: Stage, team: Team, replacement: Replacement | Mapping[str, Replacement]
) -> list[Contribution]:
    """For each agent: each of its turns replaced alone, then all of them.

    Args:
        stage: the environment and the episodes.
        team: agent -> policy. Policies must answer equal requests equally (`Policy.act` promises
            it), or the difference holds their noise too.
        replacement: a policy or a fixed text for every agent, or agent -> one of these; agents that
            are left out are not replaced.

    Returns:
        For each agent its turns in order, then the entry with `turn` None.

    Raises:
        ValueError: the team does not fit, or a replacement for an unknown agent.
        TypeError: a replacement that is neither a policy nor a text.
        NotReplayableError: the environment does not do again what it did, so that nothing can be
            compared.
        Exception: what the environment raised first, where it raised in all episodes, or in one
            that cannot be counted.
    """
    seats = stage.env.possible_agents
    check_team(team, seats)
    by_seat = replacement if isinstance(replacement, Mapping) else dict.fromkeys(seats, replacement)
    unknown = sorted(set(by_seat) - set(seats))
    if unknown:
        raise ValueError(f"replacements for {unknown}: the environment has the agents {seats}")
    substitutes = {a: as_policy(r, f"replacement of {a}") for a, r in by_seat.items()}
    stage.expect(len(stage.schedule.starts))
    actual = stage.play(team, stage.schedule.starts)
    swaps: list[Swap] = []
    for agent in substitutes:
        most = max(len(episode.trajectory(agent)) for episode in actual)
        swaps += [(agent, turn) for turn in [*range(most), None] if most]
    stage.expect(sum(len(_having(actual, *swap)) for swap in swaps))
    return [_contribution(stage, team, actual, (*s, substitutes[s[0]])) for s in swaps]


def as_policy(replacement: Replacement, what: str) -> Policy:
    """A policy as it is; a text as a policy that says it.

    Raises:
        TypeError: neither.
    """
    if isinstance(replacement, str):
        return ScriptedPolicy(lambda request: replacement)
    if not isinstance(replacement, Policy):
        raise TypeError(f"{what}: expected a policy or a text, got {type(replacement).__name__}")
    return replacement


def _contribution(
    stage: Stage, team: Team, actual: Sequence[Episode], swap: tuple[str, int | None, Policy]
) -> Contribution:
    (agent, turn, substitute), schedule = swap, stage.schedule
    having = _having(actual, agent, turn)
    records = [actual[i] for i in having]
    starts = [schedule.starts[i] for i in having]
    again = replay_with(stage, team, records, starts, agent, turn, substitute)
    pairs = list(zip(records, again, strict=True))
    lost = returns_lost(records, again)
    by_task: dict[int, list[float]] = {}
    for i, loss in zip(having, lost, strict=True):
        by_task.setdefault(i // schedule.samples, []).append(loss)
    clusters = schedule.clusters(actual)
    changed = [_said(episode, agent, turn) != _said(other, agent, turn) for episode, other in pairs]
    return Contribution(
        agent=agent,
        turn=turn,
        lost=over_tasks(
            [exact_mean(some) for some in by_task.values()],
            [clusters[task] for task in by_task],
            reach=0.0,
        ),
        mattered=sum(loss != 0 for loss in lost) / len(lost),
        changed=sum(changed) / len(changed),
        failed=sum(episode.failed or other.failed for episode, other in pairs),
    )


def _having(actual: Sequence[Episode], agent: str, turn: int | None) -> list[int]:
    """Which episodes hold the turn."""
    return [i for i, e in enumerate(actual) if len(e.trajectory(agent)) > (turn or 0)]


def _said(episode: Episode, agent: str, turn: int | None) -> list[str]:
    texts = [turn.action for turn in episode.trajectory(agent)]
    return texts if turn is None else texts[turn : turn + 1]


def replay_with(
    stage: Stage,
    team: Team,
    records: Sequence[Episode],
    starts: Sequence[Start],
    agent: str,
    turn: int | None,
    substitute: Policy,
) -> list[Episode]:
    """Play recorded episodes again, with one action of `agent` (all where `turn` is None) replaced.

    Actions before the replaced one, and beside it, come from the record; `team` plays on from
    there, with the seeds that it had.
    """
    if turn is None:
        return stage.play({**team, agent: substitute}, starts)
    swapped = _Swapped(team[agent], turn, substitute)
    branch = Branch(parent=0, agent=agent, turn=turn, held=True)
    again = [
        replace(start, record=record, branch=branch)
        for start, record in zip(starts, records, strict=True)
    ]
    return stage.play({**team, agent: swapped}, again)


@dataclass(frozen=True, slots=True)
class _Swapped:
    """A policy, but for one turn, which another one takes."""

    own: Policy
    turn: int
    substitute: Policy

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """The other policy's answers at its turn, the own one's at all others."""
        # Both are asked: a policy that keeps token ids from turn to turn goes on with those it
        # sampled, where the text is the same, and is not made to read it anew.
        answers = list(self.own.act(requests))
        places = [i for i, request in enumerate(requests) if request.turn == self.turn]
        if places:
            # Token ids of the past are the own policy's; the other one reads the text.
            asked = [replace(requests[place], before=None) for place in places]
            for place, response in zip(places, self.substitute.act(asked), strict=True):
                answers[place] = response
        return answers
