r"""MARSHAL: returns of turns, centred for each role (arXiv 2510.15414; its code is called MARS).

Formula: A_i,k^g = R_i,k^g - the mean of R over the turns of all agents of i's role in the group.
R_i,k^g is the return from turn k on. All tokens of a turn share it: rewards are summed first and
centred after, one value for each turn.

Comparison group: every turn that agents of one role took in the *other* episodes of one task from
one reset seed (deviation 1).

Degenerate case: one turn and one seat for each role is `magrpo`. All returns of a role equal give
0. Where turns are worth more the earlier they are (rewards that arrive all along), the mean of the
role lies below early and above late returns: the expected gradient stays, its variance grows.

Deviations from the paper:

1. The mean leaves the own episode out. The paper's holds it, all of its turns included: that
   shrinks each turn by another factor, and what a turn pays later counts less than what it pays at
   once. `baseline="mean"` is the paper's.
2. `scale_rewards="group"` divides by the sample standard deviation of the turns of the role, as the
   released code can; its whitening of rewards before and of advantages after is left out.
3. Where no other episode has a turn of that role, a running mean of past returns of the role stands
   in (with a running distance for the scale), counted in `algorithm/running_baseline`.
4. Dual clipping and the KL to the start are settings of the loss; the penalty for a wrong format is
   left to environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainers.algorithms.base import AdvantageInputs, Algorithm
from trainers.algorithms.baselines import Past, pooled
from trainers.algorithms.magrpo import STD_EPSILON
from trainers.algorithms.relations import Kind, Relation
from trainers.algorithms.roles import RoleSettings


class Marshal(Algorithm):
    """Returns of turns minus the mean of their role; see the module's docstring."""

    name = "marshal"
    reads = ("baseline", "scale_rewards")
    Settings = RoleSettings
    settings: RoleSettings
    declares = (
        Relation(kind=Kind.ALIAS, of="magrpo", when="one turn, one seat for each role"),
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="baseline='leave_one_out', any number of turns, agents that do not always act",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="baseline='mean' (the paper's), several turns or seats of one role",
            named="bias: the mean holds the episode's own turns; each turn is shrunk by its place, "
            "and what it pays later counts less than what it pays at once",
        ),
    )

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        self.past = Past()

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse seats without roles, see `RoleSettings.check`."""
        self.settings.check(self.name, env, trained)

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        roles = [self.settings.role(agent) for agent in inputs.agents]
        pools = [sorted(set(roles)).index(role) for role in roles]
        group = pooled(inputs.returns, inputs.alive, pools, inputs.rounding)
        past, distance = np.zeros((len(roles), 1)), np.zeros((len(roles), 1))
        for role in sorted(set(roles)):
            here = np.array([other == role for other in roles])
            seen = inputs.returns[:, :, here][inputs.alive[:, :, here]]
            if seen.size:
                past[here], distance[here] = self.past.compare(role, seen)
        lonely = inputs.alive & group.lonely
        self.counters = {"running_baseline": float(lonely.sum())}
        baseline = group.mean if self.args.baseline == "mean" else group.others
        baseline = np.where(lonely, past, baseline)
        weighed = inputs.alive & (lonely | ~group.equal)
        advantages = np.where(weighed, inputs.returns - baseline, 0.0)
        if self.args.scale_rewards == "group":
            advantages /= np.where(lonely, distance, group.deviation) + STD_EPSILON
        return advantages

    def state_dict(self) -> dict[str, Any]:
        """The running means and distances of the roles."""
        return self.past.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.past.load_state_dict(state)
