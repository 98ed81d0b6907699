"""The policy protocol, teams, and the seeds that sampling uses.

Owns the contract between `rollout` and whatever acts. Knows no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from llm_marl_envs.records import Request, Response


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
            f"team seats {sorted(team)}, the environment has {list(agents)}: "
            f"missing {missing}, unknown {unknown}"
        )
    for agent, policy in team.items():
        if not isinstance(policy, Policy):
            raise TypeError(
                f"policy of {agent}: expected an object with act(requests), "
                f"got {type(policy).__name__}"
            )
