r"""Dr. MAS: every agent is compared with itself (arXiv 2602.08847).

Formula: A_i^g = (R_i^g - m_i) / (s_i + 1e-6) at every turn that agent i took in episode g. R_i^g is
what the whole episode returned, from the agent's first turn on. m_i and s_i are the mean and the
sample standard deviation over the turns of agent i in the group, each turn with the return of its
episode: an episode in which the agent acts three times counts three times (the paper's Eq. 5).

Comparison group: every turn of one agent in the episodes of one task from one reset seed.

Degenerate case: all returns of a comparison group equal give 0. One turn that every agent takes:
`magrpo` with baseline="mean" and scale_rewards="group". The same number of turns for all and a
reward of the team: `grpo_global`, up to a factor.

Why: with one mean and deviation for all agents (`grpo_global`) the gradient of an agent grows with
the distance of its own returns from the common mean, in units of the common deviation. Agents that
are paid on other scales get spikes, or nothing.

Deviations from the paper:

1. A group of one turn, or whose returns are all equal, gives 0. The released code gives a group of
   one its bare return, unscaled beside advantages of size one.
2. PPO's ratio and clipping come with `num_iterations`; the penalty for invalid answers is left to
   environments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainers.algorithms.base import AdvantageInputs, Algorithm
from trainers.algorithms.baselines import pooled
from trainers.algorithms.relations import Kind, Relation

# The constant that the released code adds to a standard deviation.
EPSILON = 1e-6


class DrMAS(Algorithm):
    """Mean and deviation of each agent's own returns; see the module's docstring."""

    name = "dr_mas"
    declares = (
        Relation(
            kind=Kind.ALIAS,
            of="magrpo with baseline='mean' and scale_rewards='group'",
            when="one turn that every agent takes; up to the constant beside the deviation",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="always",
            named="bias: weights by the deviation of the agent's returns; at G = 2 what wins more "
            "often, not what earns more",
        ),
    )

    def pools(self, agents: Sequence[str]) -> Sequence[int]:
        """Which agents share a mean and a deviation: a number for each."""
        return range(len(agents))

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        returns = np.broadcast_to(inputs.episode_returns[..., None], inputs.alive.shape)
        group = pooled(returns, inputs.alive, self.pools(inputs.agents), inputs.rounding)
        advantages = (returns - group.mean) / (group.deviation + EPSILON)
        return np.where(inputs.alive & ~group.equal, advantages, 0.0)
