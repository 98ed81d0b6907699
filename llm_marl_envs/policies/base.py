"""The policy protocol, teams, and how a team is asked.

Owns the contract between `rollout` and whatever acts. Knows no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from llm_marl_envs.core.records import Request, Response


@runtime_checkable
class Policy(Protocol):
    """Maps what agents see to text, many requests at once."""

    def act(self, requests: Sequence[Request]) -> Sequence[Response]:
        """One response per request, in order.

        A row's answer depends on its own request (its `seed` included) and on the policy's
        weights, never on its batch neighbours: resumable evaluation and reproducible groups rest
        on it.
        """
        ...


Team = Mapping[str, Policy]
"""agent -> policy; two seats may share one policy."""


def check_team(team: Team, agents: Sequence[str]) -> None:
    """Check that a team seats exactly `agents`.

    Raises:
        ValueError: a seat is empty or unknown.
        TypeError: a seat holds something without `act`.
    """
    missing = [agent for agent in agents if agent not in team]
    unknown = [agent for agent in team if agent not in agents]
    if missing or unknown:
        raise ValueError(
            f"team seats {sorted(team)!s:.200}, the environment has {list(agents)}: "
            f"missing {missing}, unknown {unknown!s:.200}"
        )
    for agent, policy in team.items():
        if not isinstance(policy, Policy):
            raise TypeError(
                f"policy of {agent}: expected an object with act(requests), "
                f"got {type(policy).__name__}"
            )


def by_policy(team: Team, requests: Sequence[Request]) -> list[tuple[Policy, list[int]]]:
    """Each policy once, with the positions of its requests."""
    groups: dict[int, tuple[Policy, list[int]]] = {}
    for position, request in enumerate(requests):
        policy = team[request.agent]
        groups.setdefault(id(policy), (policy, []))[1].append(position)
    return list(groups.values())


def answers(policy: Policy, requests: Sequence[Request]) -> Sequence[Response]:
    """What a policy answers, one response per request.

    Raises:
        ValueError: it gives another number of responses.
        TypeError: it gives something else.
    """
    responses = policy.act(requests)
    if len(responses) != len(requests):
        raise ValueError(
            f"{type(policy).__name__} answered {len(requests)} requests with "
            f"{len(responses)} responses; expected one each"
        )
    for response in responses:
        if not isinstance(response, Response):
            raise TypeError(
                f"{type(policy).__name__} answered with {type(response).__name__}; "
                "expected records.Response(text=...)"
            )
    return responses


def ask(team: Team, requests: Sequence[Request]) -> list[Response]:
    """One response per request, in order; each policy is asked once. Errors as `answers`."""
    policies = by_policy(team, requests)
    if len(policies) == 1:  # its requests are all, in order
        return list(answers(policies[0][0], requests))
    responses: dict[int, Response] = {}
    for policy, places in policies:
        replies = answers(policy, [requests[place] for place in places])
        responses |= zip(places, replies, strict=True)
    return [responses[place] for place in range(len(requests))]
