"""What holds of every update: its loss moves each own token as the formula says.

In the first pass over an update the weights are those that sampled, so every ratio is 1 and the
loss, whatever its form, moves the log-prob of an own token by

    d loss / d log-prob  =  -advantage x scale   + what the KL term adds

(`cispo` weighs ratios by at most `epsilon_high`, so there an advantage counts as much.) Where
log-probs are scored anew before the update, rounding and dropout move a ratio, and the loss may
clip it: what is far from 1 is not judged. The scale is what TRL and `packing.LossScale` divide by.
The left side is there in the backward pass, so to compare the two costs nothing. A token that the
loss forgets has no gradient; one that it counts twice has too much. A token that was lost before,
between the model and the loss, has another log-prob than was recorded, which `drift.py` sees.

Owns the right side and the comparison; when it is made, `trainer.py` says.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from llm_marl_envs.core.errors import WorkFailedError
from trainers.batch.drift import OLD
from trainers.batch.packing import RowLoss

THROUGH_RATIO = ("grpo", "dr_grpo", "dapo", "luspo", "sapo")
"""Losses that follow the ratio; in the others it is a weight, and the log-prob is followed."""
REFERENCE = "ref_per_token_logps"
CLOSE, RESCORED = 1e-3, 0.2
"""Largest error, a share of the terms; the second where log-probs of the ratio are scored anew."""
NEAR_ONE = 0.1
"""Largest log of a ratio that counts as 1. Scored anew, it is off by rounding and by dropout."""


class LostGradientError(WorkFailedError):
    """The loss does not move a token as its advantage says: a fault of this library or of TRL."""


@dataclass(frozen=True, slots=True)
class LossForm:
    """What decides how a loss of TRL moves log-probs.

    Attributes:
        loss_type: TRL's.
        level: of the ratio, 'token' or 'sequence'.
        beta: weight of the KL term.
        weighs_kl: whether the ratio multiplies the KL term.
        longest: most tokens of an action (`max_completion_length`).
        accumulated: micro-batches of one step of the optimiser.
        processes: over which gradients are averaged.
        corrects: whether `importance_sampling_ratio` multiplies the loss.
        near: largest log of a ratio at which a loss is sure not to clip it.
        weight: what ratios of 1 weigh (`cispo` bounds them by `epsilon_high` alone).
    """

    loss_type: str
    level: str
    beta: float
    weighs_kl: bool
    longest: int
    accumulated: int
    processes: int
    corrects: bool
    near: float = NEAR_ONE
    weight: float = 1.0

    def scale(self, batch: Mapping[str, Any]) -> Tensor:
        """(B, 1): what one token of a row weighs in the loss of a micro-batch."""
        own = batch["tool_mask"].sum(1, keepdim=True).clamp(min=1.0)
        one = torch.full_like(own, float(batch["loss_scale"]), dtype=torch.float32)
        if self.loss_type not in get_args(RowLoss):
            return one * self.processes / batch["num_items_in_batch"].clamp(min=1.0)
        if self.loss_type == "dr_grpo":
            own = torch.full_like(own, self.longest)
        elif self.loss_type == "luspo":
            own = torch.ones_like(own)
        return one / (own * len(own) * self.accumulated)

    def gradient(self, batch: Mapping[str, Any], logprobs: Tensor) -> tuple[Tensor, Tensor]:
        """What the loss moves each log-prob by where every ratio is 1, and of which size, (B, T).

        The size is the sum of |terms|, which may cancel.
        """
        own = batch["tool_mask"].float()
        judged = -self.weight * batch["advantages"]
        if self.corrects and self.loss_type != "vespo":
            judged = judged * batch["importance_sampling_ratio"]
        by_ratio, direct = ([judged], []) if self.loss_type in THROUGH_RATIO else ([], [judged])
        if self.beta:
            d = batch[REFERENCE] - logprobs
            direct.append(self.beta * (1 - d.exp()))
            if self.weighs_kl:
                by_ratio.append(self.beta * (d.exp() - d - 1))
        if self.level == "sequence":
            tokens = own.sum(1, keepdim=True).clamp(min=1.0)
            by_ratio = [(one * own).sum(1, keepdim=True) / tokens for one in by_ratio]
        scale = self.scale(batch)
        terms = [torch.where(own > 0, one * scale, 0.0) for one in (*by_ratio, *direct)]
        return torch.stack(terms).sum(0), torch.stack(terms).abs().sum(0)

    def known(self, batch: Mapping[str, Any], logprobs: Tensor) -> Tensor:
        """bool, (B, T): where the ratio is so near 1 that `gradient` holds."""
        own = batch["tool_mask"].float()
        change = (logprobs - batch.get(OLD, logprobs)) * own
        if self.loss_type == "vespo" or self.level == "sequence":
            change = change.sum(1, keepdim=True).expand_as(own)
        if self.loss_type != "vespo" and self.level == "sequence":
            change = change / own.sum(1, keepdim=True).clamp(min=1.0)
        return ~(change.abs() > self.near)  # nan is judged


@dataclass(slots=True)
class Passed:
    """One micro-batch: its log-probs, (B, T), and their gradient when it has come."""

    batch: Mapping[str, Any]
    logprobs: Tensor
    form: LossForm | None
    gradient: Tensor | None = None

    def note(self, gradient: Tensor) -> None:
        """Called in the backward pass."""
        self.gradient = gradient.detach()

    @torch.no_grad()
    def wrong(self) -> str | None:
        """A token whose gradient is not the formula's; None where there is none, or no formula."""
        if self.form is None:
            return None
        expected, size = self.form.gradient(self.batch, self.logprobs)
        found = torch.zeros_like(expected) if self.gradient is None else self.gradient
        close = RESCORED if OLD in self.batch else CLOSE
        noise = 1e-4 * expected.abs().max() + 1e-5 * self.form.scale(self.batch)
        bad = ~((found - expected).abs() <= close * size + noise)  # nan is bad
        bad &= self.form.known(self.batch, self.logprobs)
        if not bad.any():
            return None
        row, token = (int(place) for place in bad.nonzero()[0])
        return (
            f"{self.batch['labels'][row]}, completion token {token}: the loss moves its log-prob "
            f"by {float(found[row, token]):.3g}, where its advantage asks for "
            f"{float(expected[row, token]):.3g} ({int(bad.sum())} such tokens, "
            f"{int(self.batch['tool_mask'].sum())} are trained on)"
        )


class Watch:
    """What passes in one step of the optimiser."""

    def __init__(self) -> None:
        self._passed: list[Passed] = []

    def follow(self, batch: Mapping[str, Any], logprobs: Tensor, form: LossForm | None) -> None:
        """Keep the log-probs (B, T) of a micro-batch, and what the backward pass asks of them."""
        passed = Passed(batch, logprobs.detach(), form)
        self._passed.append(passed)
        if form is not None and logprobs.requires_grad:
            logprobs.register_hook(passed.note)

    def taken(self) -> list[Passed]:
        """What has passed since this was last asked."""
        passed, self._passed = self._passed, []
        return passed
