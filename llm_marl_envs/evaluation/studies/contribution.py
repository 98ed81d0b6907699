"""What an agent's action is worth: play it differently, play on, and compare the team's return.

An action is swapped for what another policy says there (a warm start, a default text), what went
before stays as recorded, and what follows is played again with the same seeds. The return that the
team loses is the action's contribution against that replacement. It may be negative.

Owns the replacement and its replay. What is only *heard* by others is `messages.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.evaluation.numbers.estimate import Estimate
from llm_marl_envs.evaluation.play.paired import Stage, estimate_tasks
from llm_marl_envs.policies import Policy, ScriptedPolicy, Team, check_team
from llm_marl_envs.records import Episode, Request, Response, living
from llm_marl_envs.seeds import Start

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
        failed: episodes that are left out, because the environment raised in them or in their
            counterpart.
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
        Exception: what the environment raised first, where it raised in all episodes.
    """
    seats = stage.env.possible_agents
    check_team(team, seats)
    given = replacement if isinstance(replacement, Mapping) else dict.fromkeys(seats, replacement)
    unknown = sorted(set(given) - set(seats))
    if unknown:
        raise ValueError(f"replacements for {unknown}: the environment has the agents {seats}")
    substitutes = {agent: as_policy(one, f"replacement of {agent}") for agent, one in given.items()}
    stage.expect(len(stage.schedule.starts))
    actual = stage.play(team, stage.schedule.starts)
    swaps: list[Swap] = []
    for agent in substitutes:
        most = max(len(episode.trajectory(agent)) for episode in living(actual))
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
    by_task: dict[int, list[float]] = {}
    changed = []
    for i, before, after in zip(having, records, again, strict=True):
        if not after.failed:
            lost = before.team_return - after.team_return
            by_task.setdefault(i // schedule.samples, []).append(lost)
            changed.append(_said(before, agent, turn) != _said(after, agent, turn))
    lost_by_all = [lost for some in by_task.values() for lost in some]
    return Contribution(
        agent=agent,
        turn=turn,
        lost=estimate_tasks([sum(some) / len(some) for some in by_task.values()]),
        mattered=sum(value != 0 for value in lost_by_all) / len(lost_by_all),
        changed=sum(changed) / len(changed),
        failed=sum(one.failed for one in (*actual, *again)),
    )


def _having(actual: Sequence[Episode], agent: str, turn: int | None) -> list[int]:
    """Which episodes that were played to their end hold the turn."""
    return [
        i for i, e in enumerate(actual) if not e.failed and len(e.trajectory(agent)) > (turn or 0)
    ]


def _said(episode: Episode, agent: str, turn: int | None) -> list[str]:
    texts = [one.action for one in episode.trajectory(agent)]
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

    Actions before the replaced one come from the record; `team` plays on from there.
    """
    if turn is None:
        return stage.play({**team, agent: substitute}, starts)
    swapped = _Swapped(team, records, agent, turn, substitute)
    return stage.play({seat: swapped.of(seat) for seat in team}, starts)


class _Swapped:
    """Seats that follow the record up to one action, replace it, and play on."""

    def __init__(
        self,
        team: Team,
        records: Sequence[Episode],
        agent: str,
        turn: int,
        substitute: Policy,
    ) -> None:
        self.team, self.agent, self.turn, self.substitute = team, agent, turn, substitute
        self.before: list[dict[tuple[str, int], Response]] = []
        for record in records:
            keys = [(one.agent, one.index) for one in record.turns]
            place = keys.index((agent, turn))
            responses = [one.response for one in record.turns[:place]]
            self.before.append(dict(zip(keys[:place], responses, strict=True)))

    def of(self, seat: str) -> Policy:
        """The policy of one seat; seats that share a policy are still asked one by one."""
        return _Seat(self, seat)

    def act(self, seat: str, requests: Sequence[Request]) -> list[Response]:
        # The team's policy is asked even where its answer is known: one that keeps token ids from
        # turn to turn goes on with those it sampled, and is not made to read its text anew.
        answers = list(self.team[seat].act(requests))
        replaced = []
        for place, request in enumerate(requests):
            known = self.before[request.episode].get((seat, request.turn))
            if known is not None:
                answers[place] = known
            elif seat == self.agent and request.turn == self.turn:
                replaced.append(place)
        if replaced:
            given = self.substitute.act([requests[place] for place in replaced])
            for place, response in zip(replaced, given, strict=True):
                answers[place] = response
        return answers


class _Seat:
    def __init__(self, swapped: _Swapped, seat: str) -> None:
        self.swapped, self.seat = swapped, seat

    def act(self, requests: Sequence[Request]) -> list[Response]:
        return self.swapped.act(self.seat, requests)
