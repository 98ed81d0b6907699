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

Deviations from the paper:

1. Trajectories instead of a tree: the paper branches K-fold at every turn, so siblings share their
   history. Here G episodes run from start to end; after turn 0 their histories differ.
2. The baseline leaves the sample out, with no standard deviation. A mean over the n_k episodes
   alive that contains the sample (the paper's) scales the expected gradient by (n_k - 1) / n_k:
   differently at each turn, so that the sum over turns points elsewhere, and for an agent that does
   not always act by a factor that depends on what others do. `baseline="mean"` takes the paper's
   mean for first turns (k = 0) and leaves the sample out at later ones.
3. Where fewer than two episodes are alive at k, the baseline is a running mean of past returns of
   that agent and turn, counted in `algorithm/running_baseline`.
4. `scale_rewards="group"` (off by default) divides the advantages of each turn by the standard
   deviation of its comparison group's returns, as common GRPO code does and the paper does not;
   under deviation 3 by the running root mean square distance of returns to the running mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainers.algorithms.base import AdvantageInputs, Algorithm

# Weight of the newest update in the running baseline; its memory is about 20 updates.
RUNNING_WEIGHT = 0.05
# The constant that TRL adds to a standard deviation.
STD_EPSILON = 1e-4


class MAGRPO(Algorithm):
    """Baseline from the group over joint returns; see the module's docstring."""

    name = "magrpo"
    reads = ("baseline", "scale_rewards")

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        self.running: dict[str, float] = {}
        self.spread: dict[str, float] = {}

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        returns, alive = inputs.returns, inputs.alive
        count = alive.sum(axis=1, keepdims=True)  # (P, 1, A, K)
        total = np.where(alive, returns, 0.0).sum(axis=1, keepdims=True)
        mean = total / np.maximum(count, 1)
        baseline = (total - returns) / np.maximum(count - 1, 1)
        if self.args.baseline == "mean":
            baseline[..., 0] = mean[..., 0]
        lonely = alive & (count < 2)
        past, distance = self._past(inputs)
        baseline = np.where(lonely, past, baseline)
        self.counters = {"running_baseline": float(lonely.sum())}
        advantages = np.where(alive & ~inputs.equal(), returns - baseline, 0.0)
        if self.args.scale_rewards == "group":
            squares = np.where(alive, (returns - mean) ** 2, 0.0).sum(axis=1, keepdims=True)
            deviation = np.sqrt(squares / np.maximum(count - 1, 1))
            advantages /= np.where(lonely, distance, deviation) + STD_EPSILON
        return advantages

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
                if not seen.size:
                    continue
                key, where = f"{name}/{turn}", (agent, turn)
                past[where] = self.running.get(key, 0.0)
                _follow(self.running, key, float(seen.mean()))
                square = float(((seen - past[where]) ** 2).mean())
                distance[where] = _follow(self.spread, key, square) ** 0.5
        return past, distance

    def state_dict(self) -> dict[str, Any]:
        """The running baselines and their mean squares."""
        return {"running": dict(self.running), "spread": dict(self.spread)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the running baselines."""
        self.running = dict(state["running"])
        # Checkpoints from before every turn was scaled hold none; it begins anew.
        self.spread = dict(state.get("spread", {}))


def _follow(averages: dict[str, float], key: str, new: float) -> float:
    """Move a running average towards `new`, at which it begins; returns it."""
    before = averages.get(key, new)
    averages[key] = (1 - RUNNING_WEIGHT) * before + RUNNING_WEIGHT * new
    return averages[key]
