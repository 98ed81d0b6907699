r"""MAGRPO: multi-agent group-relative policy optimisation (arXiv 2508.04652).

Formula: A_k^g = R_k^g - mean over the comparison group of R_k, the same for every agent when the
reward is a team reward; the loss of agent i is -A_k^g * sum of log pi_i over the tokens of turn k.

Comparison group: the episodes of one task from one reset seed, per agent and turn. At k = 0 the G
of them saw the same observation (in turn-based environments, only the first seat did), and the mean
contains the sample (the paper's form), which scales the expected gradient by (G - 1) / G.

Degenerate case: all G returns equal give advantage 0. With `scale_rewards="group"` it is GRPO with
joint rewards; with one agent and one turn it is GRPO without the standard deviation (Dr. GRPO).

Deviations from the paper:

1. Trajectories instead of a tree: the paper branches K-fold at every turn, so siblings share their
   history. Here G episodes run from start to end; after turn 0 their histories differ.
2. Hence for k >= 1 the baseline is leave-one-out over the episodes still alive at k, with no
   standard deviation: a mean that contains the sample would scale the gradient by (n_k - 1) / n_k
   with n_k changing between turns.
3. Where fewer than two episodes are alive at k, the baseline is a running mean of past returns of
   that agent and turn, counted in `algorithm/running_baseline`.
4. `scale_rewards="group"` (off by default) divides the turn-0 advantages by the group's standard
   deviation, as common GRPO code does and the paper does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainers.algorithms.base import AdvantageInputs, Algorithm

# Weight of the newest group in the running baseline; its memory is about 20 groups.
RUNNING_WEIGHT = 0.05
# The constant that TRL adds to a standard deviation.
STD_EPSILON = 1e-4


class MAGRPO(Algorithm):
    """Group-mean baseline over joint returns; see the module's docstring."""

    name = "magrpo"

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        self.running: dict[str, float] = {}

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above."""
        returns, alive = inputs.returns, inputs.alive
        count = alive.sum(axis=1, keepdims=True)  # (P, 1, A, K)
        total = np.where(alive, returns, 0.0).sum(axis=1, keepdims=True)
        mean = total / np.maximum(count, 1)
        left_out = (total - returns) / np.maximum(count - 1, 1)
        baseline = np.broadcast_to(left_out, returns.shape).copy()
        baseline[..., 0] = np.broadcast_to(mean, returns.shape)[..., 0]
        self._lonely(baseline, inputs, count)
        advantages = np.where(alive & ~inputs.equal(), returns - baseline, 0.0)
        if self.args.scale_rewards == "group":
            first = np.where(alive, returns, np.nan)[..., 0]  # (P, G, A)
            several = (count[..., 0] > 1).astype(float)  # (P, 1, A); one alone has no deviation
            first = np.where(several > 0, first, 0.0)
            std = np.nanstd(first, axis=1, ddof=1, keepdims=True)
            advantages[..., 0] /= np.where(several > 0, std + STD_EPSILON, 1.0)
        return advantages

    def _lonely(self, baseline: np.ndarray, inputs: AdvantageInputs, count: np.ndarray) -> None:
        """Replace the baseline where an episode has nobody to be compared with (deviation 3)."""
        self.counters = {"running_baseline": 0.0}
        for agent, name in enumerate(inputs.agents):
            for turn in range(baseline.shape[-1]):
                key = f"{name}/{turn}"
                lonely = inputs.alive[:, :, agent, turn] & (count[:, :, agent, turn] < 2)
                baseline[:, :, agent, turn][lonely] = self.running.get(key, 0.0)
                self.counters["running_baseline"] += float(lonely.sum())
                seen = inputs.returns[:, :, agent, turn][inputs.alive[:, :, agent, turn]]
                if seen.size:
                    before = self.running.get(key, float(seen.mean()))
                    now = (1 - RUNNING_WEIGHT) * before + RUNNING_WEIGHT * float(seen.mean())
                    self.running[key] = now

    def state_dict(self) -> dict[str, Any]:
        """The running baselines."""
        return {"running": dict(self.running)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the running baselines."""
        self.running = dict(state["running"])
