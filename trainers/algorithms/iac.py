r"""IAC: an actor and a critic for each agent on its own (CoLLM-DC in arXiv 2601.21972).

Formula: A_i,k^g = R_i,k^g - V(agent i, its own chat before turn k); else as `central_critic`.

Comparison group: none, see `central_critic`.

Degenerate case: where all agents are shown the same, it is `central_critic` up to what V learns.

Deviations from the paper: those of `central_critic`; one value model serves all agents, and is told
which one acts.
"""

from __future__ import annotations

from typing import ClassVar

from trainers.algorithms.central_critic import UNBIASED, CentralCritic
from trainers.critics.sight import Sight


class IAC(CentralCritic):
    """Return minus V of the own chat; see the module's docstring."""

    name = "iac"
    declares = (UNBIASED,)
    sight: ClassVar[Sight] = Sight(joint=False)
