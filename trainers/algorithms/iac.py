r"""IAC: an actor and a critic for each agent on its own (CoLLM-DC in arXiv 2601.21972).

Formula: A_i,k^g = R_i,k^g - V(agent i, its own chat before turn k); else as `central_critic`.

Comparison group: none, see `central_critic`.

What V sees: the own chat as it is before the turn, in simultaneous and in turn-based play alike.
What V is: `critic: words` or `model`, as in `central_critic`, or `head`: a linear layer on what the
policy itself makes of that chat, with no second model and no gradient into the policy.

Degenerate case: where all agents are shown the same, it is `central_critic` up to what V learns.

Deviations from the paper: those of `central_critic`; one value model serves all agents, and is told
which one acts. With `head` each policy has its own.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from trainers.algorithms.central_critic import UNBIASED, CentralCritic
from trainers.critics.base import CriticSettings


class IACSettings(CriticSettings):
    """Settings of `iac`: those of a critic, which sees the own chat."""

    within = "iac"
    sees: Literal["joint", "state", "solution", "own"] = "own"
    sights: ClassVar[tuple[str, ...]] = ("own",)


class IAC(CentralCritic):
    """Return minus V of the own chat; see the module's docstring."""

    name = "iac"
    Settings = IACSettings
    declares = (UNBIASED,)
