"""A seat that one policy begins and another goes on with.

    relay:2:runs/strong/team,runs/weak/team     the first two actions of each seat, then the rest

Relay inference of The Collaboration Gap (arXiv 2511.02687): a strong agent leads, then hands over.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.policies.base import Policy, answers
from llm_marl_envs.policies.named import Context, identity_of, named_policy


class Relay:
    """The first actions of each trajectory by one policy, the later ones by another.

    The second is shown all that its seat was told and has said, and goes on from there.

    Attributes:
        identity: of both.
        seats: those that both play; None: any.

    Args:
        first: plays turns 0 to `after` - 1 of its seat.
        then: plays the turns after.
        after: how many actions the first one takes, at least 1.

    Raises:
        ValueError: `after` below 1.
    """

    def __init__(self, first: Policy, then: Policy, after: int) -> None:
        if after < 1:
            raise ValueError(f"after={after}: expected at least 1 action before the relay")
        self.first, self.then, self.after = first, then, after
        played = [
            seats
            for policy in (first, then)
            if (seats := getattr(policy, "seats", None)) is not None
        ]
        self.seats: tuple[str, ...] | None = None
        if played:
            self.seats = tuple(seat for seat in played[0] if seat in played[-1])
        self.identity = f"relay:{after}:{identity_of(first)},{identity_of(then)}"

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request; each policy is asked once at most."""
        responses: dict[int, Response] = {}
        for policy, early in ((self.first, True), (self.then, False)):
            places = [i for i, r in enumerate(requests) if (r.turn < self.after) == early]
            asked = [requests[place] for place in places]
            responses |= zip(places, answers(policy, asked) if asked else (), strict=True)
        return [responses[place] for place in range(len(requests))]


def make_relay(argument: str, context: Context) -> Policy:
    """`relay:K:FIRST,THEN`: two policies by name, neither with a comma in it.

    Raises:
        ValueError: another form, or no such policies.
    """
    count, _, names = argument.partition(":")
    parts = names.split(",")
    if not (count.isascii() and count.isdigit()) or len(parts) != 2 or not all(parts):
        raise ValueError(
            f"relay:{argument:.200}: expected relay:K:FIRST,THEN, a number of actions and two "
            "policies"
        )
    first, then = (named_policy(name, context) for name in parts)
    return Relay(first, then, int(count))
