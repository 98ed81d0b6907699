r"""MARFT: advantages chained over the agents of a turn (arXiv 2504.16129, action level).

Formula: all messages of an episode are one chain m = 1 ... M, turn by turn, and within a turn in
the order of the seats. With V_m what the critic expects before message m, R_m the return from it
on, and both 0 after the last,

    d_m = (R_m - R_(m+1)) + V_(m+1) - V_m,    A_m = sum over l >= 0 of lambda^l * d_(m+l).

R_m - R_(m+1) is what is paid between the two messages: nothing within a turn of agents that act at
the same time, where d_m = V_(m+1) - V_m is what agent i adds to what the agents before it did. So
the d of a turn sum to the advantage of the joint action: the decomposition that the paper takes
from HAPPO's lemma.

What V sees: the joint observation or the state, as `central_critic` does, and what the seats before
have said in the same turn, never the own message or what came of it.

Comparison group: none, see `central_critic`.

Degenerate case: lambda = 1 is R_m - V_m. Its expected gradient is exact, whatever V is, and where
agents act in turn it is `central_critic`: there the seats before have been heard anyway.

Deviations from the paper:

1. The agents of the paper read what those before them did. Here that is the environment's choice,
   and where all act at once only the critic reads it.
2. The discount is 1 within a turn and between turns; the paper discounts at every message.
3. Untrained seats, and those that players of a pool take, are not in the chain. They are seen, and
   what follows them counts for the message before.
4. Agent-by-agent training is the schedule `in_turn`; entropy, the loss of the value and the stop at
   a KL of 1e-3 are left out, and advantages are not normalised.
5. Those of `central_critic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from llm_marl_envs.core.records import Episode
from trainers.algorithms.base import AdvantageInputs
from trainers.algorithms.mappo import MAPPO, MAPPOSettings
from trainers.algorithms.relations import Kind, Relation
from trainers.critics.base import Seen
from trainers.critics.sight import Sight


class MARFTSettings(MAPPOSettings):
    """Those of `mappo`; the own chat alone would hold nothing of the seats before."""

    within = "marft"
    sights: ClassVar[tuple[str, ...]] = ("joint", "state", "solution")


@dataclass(frozen=True, slots=True)
class ChainSight(Sight):
    """The joint observation, or the state, and what the seats before say in the same turn."""

    def of(self, episode: Episode, place: int, at_once: bool) -> Seen:
        """As `Sight.of`."""
        turn = episode.turns[place]
        before = episode.agents[: episode.agents.index(turn.agent)] if at_once else ()
        messages = tuple(
            (f"{other.agent} says", other.action)
            for other in episode.turns
            if other.agent in before and other.index == turn.index
        )
        seen = Sight.of(self, episode, place, at_once)
        return replace(seen, parts=(*seen.parts[:-1], *messages, seen.parts[-1]))


class MARFT(MAPPO):
    """Advantages chained over agents and turns; see the module's docstring."""

    name = "marft"
    Settings = MARFTSettings
    declares = (
        Relation(kind=Kind.VARIANCE, of="the policy gradient", when="trace=1"),
        Relation(
            kind=Kind.ALIAS,
            of="central_critic",
            when="trace=1, agents that act one after the other",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="trace < 1",
            named="bias: of the critic, which stands in for later messages, of the same turn, too",
        ),
    )

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        self.sight = ChainSight(self.settings.sees)

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse agents that are paid each for itself, and a discount; and as `CentralCritic`.

        Raises:
            ValueError: says what came and what to do.
        """
        super().check(env, trained)
        if self.args.credit != "team":
            raise ValueError(
                f"marft with credit={self.args.credit!r}: the chain hands the team's return from "
                "agent to agent; set credit='team', or choose algorithm: mappo"
            )
        if self.args.discount != 1:
            raise ValueError(
                f"marft with discount={self.args.discount}: agents count their own turns, so their "
                "discounted returns are no chain; leave it at 1, or choose algorithm: mappo"
            )

    def estimate(
        self, inputs: AdvantageInputs, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advantages along the chain, and those plus values."""
        advantages = np.zeros_like(values)
        for p, group in enumerate(inputs.groups):
            for g, episode in group.living:
                following, after, carried = 0.0, 0.0, 0.0
                for turn in reversed(episode.turns):
                    if turn.agent not in inputs.agents:
                        continue
                    where = p, g, inputs.agents.index(turn.agent), turn.index
                    if not inputs.alive[where]:  # a past self or an opponent of a pool
                        continue
                    error = inputs.returns[where] - following + after - values[where]
                    carried = error + self.settings.trace * carried
                    following, after = inputs.returns[where], values[where]
                    advantages[where] = carried
        return advantages, advantages + values
