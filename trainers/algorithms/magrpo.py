r"""MAGRPO: multi-agent group-relative policy optimisation (arXiv 2508.04652).

Formula: A_k^g = R_k^g - mean of R_k over the *other* episodes of the comparison group, the same for
every agent when the reward is a team reward; the loss of agent i is -A_k^g * sum of log pi_i over
the tokens of turn k.

Comparison group: the episodes of one task from one reset seed that are alive at turn k (the agent
took that turn), per agent and turn. At k = 0 they saw the same observation (in turn-based
environments, only the first seat did).

Degenerate case: all returns of a comparison group equal give advantage 0. With one agent and one
turn it is leave-one-out REINFORCE (Kool et al. 2019, RLOO); with `baseline="mean"` there it is GRPO
without the standard deviation (Dr. GRPO), which is the same times (G - 1) / G, and with
`scale_rewards="group"` too it is GRPO.

Discount: R_k is what agent i's turns from k on are paid, turn k + j times gamma^j. Turn k itself is
not weighed by gamma^k, as is usual: with gamma < 1 the sum over turns is not the gradient of the
discounted return of the whole episode. And k counts the agent's own actions: in a turn-based
environment an agent that acts more often discounts the same payment of the team more. With
gamma = 1, the default, neither matters.

Options that are other papers' names:

- `baseline="mean"` is the paper's form of first turns (deviation 2).
- `baseline="none"`, A = R, is MAREINFORCE.
- `baseline="max"`, A = R - the largest R of the comparison group, is MAREMAX.
- `credit="own"` is independent learning: each agent's return is made of its own rewards.

In CoMLRL 1.4.3, the paper's library, the default `advantage_normalization=True` centres and scales
each of these and MARLOO once more, which makes one number of them; see docs/algorithms/magrpo.md.

Deviations from the paper:

1. Trajectories instead of a tree: the paper branches K-fold at every turn, so siblings share their
   history. Here G episodes run from start to end; after turn 0 their histories differ.
2. The baseline leaves the sample out, with no standard deviation. A mean over the n_k episodes
   alive that contains the sample (the paper's) scales the expected gradient by (n_k - 1) / n_k:
   differently at each turn, so that the sum over turns points elsewhere, and for an agent that does
   not always act by a factor that depends on what others do. `baseline="mean"` takes the paper's
   mean for first turns (k = 0) and leaves the sample out at later ones.
3. Where fewer than two episodes are alive at k, the baseline is a running mean of past returns of
   that agent and turn, counted in `algorithm/running_baseline`; "none" and "max" need none.
4. `scale_rewards="group"` (off by default) divides the advantages of each turn by the standard
   deviation of its comparison group's returns, as common GRPO code does and the paper does not;
   under deviation 3 by the running root mean square distance of returns to the running mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from trainers.algorithms.base import OPTIONS, AdvantageInputs, Algorithm
from trainers.algorithms.baselines import Past
from trainers.algorithms.relations import Kind, Relation

ALONE = ("leave_one_out", "mean")
"""Baselines for which an episode that is alone has nothing to be compared with."""
# The constant that TRL adds to a standard deviation.
STD_EPSILON = 1e-4


class MAGRPO(Algorithm):
    """Baseline from the group over joint returns; see the module's docstring."""

    name = "magrpo"
    reads: ClassVar[Any] = OPTIONS
    declares = (
        Relation(
            kind=Kind.ALIAS,
            of="the paper's MAGRPO and magrpo with baseline='mean', times G / (G - 1)",
            when="one turn that every agent takes",
        ),
        Relation(
            kind=Kind.ALIAS,
            of="GRPO, with baseline='mean' and scale_rewards='group'",
            when="one agent, one turn",
        ),
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="baseline='leave_one_out', any number of turns, agents that do not always act",
        ),
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="baseline='none' (MAREINFORCE)",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="baseline='mean', several turns with shared weights, or agents that may not act",
            named="bias: first turns weigh (n - 1) / n of later ones, n the episodes compared",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="baseline='max' (MAREMAX)",
            named="objective: E[R] - E[largest R of the G episodes] / G; half of the worse one's "
            "expected return at G = 2",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="scale_rewards='group'",
            named="bias: weights by the group's deviation; at G = 2 what wins more often, not what "
            "earns more",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="magrpo with credit='team'",
            when="credit='own' (independent learning), agents paid differently",
            named="objective: each agent's own return; equilibria, not the team's best",
        ),
    )

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        if (args.baseline, args.scale_rewards) == ("none", "group"):
            raise ValueError(
                "baseline='none' with scale_rewards='group': where all returns of a group are "
                "equal nothing is subtracted and the deviation is 0; set one of them otherwise"
            )
        self.past = Past()

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        returns, alive = inputs.returns, inputs.alive
        count = alive.sum(axis=1, keepdims=True)  # (P, 1, A, K)
        total = np.where(alive, returns, 0.0).sum(axis=1, keepdims=True)
        mean = total / np.maximum(count, 1)
        lonely = alive & (count < 2)
        past, distance = self._past(inputs)
        baseline = self._baseline(inputs, total, mean)
        if self.args.baseline in ALONE:
            baseline = np.where(lonely, past, baseline)
            self.counters = {"running_baseline": float(lonely.sum())}
        weighed = alive if self.args.baseline == "none" else alive & ~inputs.equal()
        advantages = np.where(weighed, returns - baseline, 0.0)
        if self.args.scale_rewards == "group":
            squares = np.where(alive, (returns - mean) ** 2, 0.0).sum(axis=1, keepdims=True)
            deviation = np.sqrt(squares / np.maximum(count - 1, 1))
            advantages /= np.where(lonely, distance, deviation) + STD_EPSILON
        return advantages

    def _baseline(self, inputs: AdvantageInputs, total: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """What returns are compared with, (P, G, A, K); `total` and `mean` are the group's."""
        returns, alive = inputs.returns, inputs.alive
        if self.args.baseline == "none":
            return np.zeros_like(returns)
        if self.args.baseline == "max":
            highest = np.where(alive, returns, -np.inf).max(axis=1, keepdims=True)
            return np.broadcast_to(np.where(np.isfinite(highest), highest, 0.0), returns.shape)
        others = alive.sum(axis=1, keepdims=True) - 1
        baseline = (total - returns) / np.maximum(others, 1)
        if self.args.baseline == "mean":
            baseline[..., 0] = mean[..., 0]
        return baseline

    def _past(self, inputs: AdvantageInputs) -> tuple[np.ndarray, np.ndarray]:
        """What stands in for others (deviation 3), two of (A, K); then counts this update.

        The running mean of returns without this update, and the root mean square distance of
        returns to it, this update's included.
        """
        past = np.zeros(inputs.returns.shape[2:])
        distance = np.zeros_like(past)
        for agent, name in enumerate(inputs.agents):
            for turn in range(inputs.returns.shape[-1]):
                seen = inputs.returns[:, :, agent, turn][inputs.alive[:, :, agent, turn]]
                if seen.size:
                    where, key = (agent, turn), f"{name}/{turn}"
                    past[where], distance[where] = self.past.compare(key, seen)
        return past, distance

    def state_dict(self) -> dict[str, Any]:
        """The running baselines and their mean squares."""
        return self.past.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the running baselines."""
        self.past.load_state_dict(state)
