"""How far the sampler's log-probs are from the trainer's: measured, limited and corrected.

Where copies of the weights sample, each token has two log-probs: `sampled`, as the engine gave it,
and `scored`, of the trainer's own weights. Equal weights give almost equal numbers, so the mean
difference shows a stale adapter, a swapped one, or an old head, before any step.

The correction multiplies a token's loss by min(exp(scored - sampled), 3): TRL's `token_truncate`.
It corrects a token given its prefix. It does not correct the distribution of histories, of the
partners' messages, or of returns. Where ratios are cut, a baseline no longer cancels. What is left
is shown by the sums over a policy's row and over all rows of an episode ("joint"): many small
differences of one sign add up. The effective sample size of n weights w is (sum w)^2 / sum w^2,
here as a share of n (Kish 1965).

Shapes: B rows, T tokens.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch

from llm_marl_envs.core.errors import WorkFailedError

OLD = "old_per_token_logps"
"""TRL's key of the trainer's own log-probs."""
MASK = "token_mask"
TokenMode = Literal["token_truncate", "token_mask"]
"""TRL's names of corrections that look at one token at a time."""


class EngineDriftError(WorkFailedError):
    """An engine samples from other weights, or another distribution, than the trainer scores."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a rollout may differ by, else the run stops before a step.

    Attributes:
        difference: largest mean of |scored - sampled| over a policy's tokens, in nats.
        signed: largest |mean of scored - sampled|, in nats; a bias adds up over an episode.
        joint_size: smallest effective sample size of the joint weights, a share of the episodes.
    """

    difference: float
    signed: float
    joint_size: float


EXACT = Limits(difference=1e-3, signed=1e-3, joint_size=0.9)
"""float32 on both sides; measured 3e-7."""
OWN = Limits(difference=1e-5, signed=1e-5, joint_size=0.99)
"""float32, the trainer's own weights: only the order of sums differs; measured 3e-7."""
LOW_PRECISION = Limits(difference=2e-2, signed=5e-3, joint_size=0.5)
"""bfloat16; measured 3e-3 on a CPU, not yet on a GPU."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences of one policy, or of all together, over a rollout.

    Attributes:
        tokens: how many were compared.
        mean: of |scored - sampled|, in nats.
        largest: of the same.
        signed: mean of scored - sampled.
        summed: mean over rows (joint: over episodes) of |sum of scored - sampled|, in nats.
        size: effective sample size of exp of that sum, a share in (0, 1].
    """

    tokens: int
    mean: float
    largest: float
    signed: float
    summed: float
    size: float


def effective_share(log_weights: np.ndarray) -> float:
    """(sum w)^2 / (n sum w^2), w = exp(log_weights); 1 where all are equal."""
    if not len(log_weights):
        return 1.0
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def measured(rows: Sequence[tuple[str, Hashable, np.ndarray]]) -> dict[str, Drift]:
    """Policy -> its drift, and "joint" -> that of whole episodes.

    Args:
        rows: (policy, episode, scored - sampled of the row's own tokens), all processes' rows.
    """
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    episodes: dict[Hashable, float] = defaultdict(float)
    for policy, episode, differences in rows:
        parts[policy].append(differences)
        episodes[episode] += float(differences.sum())
    drifts = {
        policy: _drift(gaps, np.array([row.sum() for row in gaps]))
        for policy, gaps in parts.items()
    }
    every = [row for gaps in parts.values() for row in gaps]
    return {**drifts, "joint": _drift(every, np.array(list(episodes.values())))}


def _drift(rows: Sequence[np.ndarray], sums: np.ndarray) -> Drift:
    tokens = np.concatenate(rows) if rows else np.zeros(0)
    if not len(tokens):
        return Drift(0, 0.0, 0.0, 0.0, 0.0, 1.0)
    return Drift(
        tokens=len(tokens),
        mean=float(np.abs(tokens).mean()),
        largest=float(np.abs(tokens).max()),
        signed=float(tokens.mean()),
        summed=float(np.abs(sums).mean()),
        size=effective_share(sums),
    )


def refusal(drifts: Mapping[str, Drift], limits: Limits) -> str | None:
    """Why a rollout must not be learned from, None where it may."""
    for name, drift in drifts.items():
        if not drift.mean <= limits.difference:  # nan is above every limit
            return (
                f"{name}: log-probs of the engine and of the trainer differ by {drift.mean:.2g} "
                f"nats a token in the mean, at most {limits.difference:g} is allowed"
            )
        if abs(drift.signed) > limits.signed:
            return (
                f"{name}: the trainer's log-probs are {drift.signed:+.2g} nats a token from the "
                f"engine's in the mean, at most {limits.signed:g} is allowed"
            )
    joint = drifts["joint"]
    if joint.size < limits.joint_size:
        return (
            f"episodes weigh so unevenly that {joint.size:.0%} of them count, at least "
            f"{limits.joint_size:.0%} must: the engine samples from another distribution"
        )
    return None


def limits_of(team: Any, *, copies: bool, mixed: bool) -> Limits:
    """What a sampler may differ by.

    Args:
        team: whose weights are float32, or less precise.
        copies: whether other weights than the trainer's own sample, or another program.
        mixed: whether the trainer computes in less than float32, whatever the weights are.
    """
    precise = {parameter.dtype for parameter in team.module.parameters()} == {torch.float32}
    return LOW_PRECISION if mixed or not precise else EXACT if copies else OWN


def of_first_pass(limits: Limits, temperature: float) -> Limits:
    """What the scores of an update itself may differ by: they show what is lost before the loss.

    Few tokens are off by one sign by chance, and a temperature below 1 divides rounding, too.
    """
    difference = limits.difference / min(temperature, 1.0)
    return Limits(difference=difference, signed=math.inf, joint_size=0.0)


def differences(
    batch: Mapping[str, Any], scored: torch.Tensor, process: int
) -> list[tuple[str, tuple[int, ...], np.ndarray]]:
    """(policy, episode, scored - sampled of its own tokens) of every row: what `measured` takes.

    `scored` are the trainer's log-probs, (B, T).
    """
    rows = []
    gaps = (scored - batch["sampling_per_token_logps"]).double().cpu().numpy()
    own = batch["tool_mask"].bool().cpu().numpy()
    for gap, mine, episode in zip(gaps, own, batch["episodes"], strict=True):
        if mine.any():
            rows.append((batch["policy"], (process, *episode), gap[mine]))
    return rows


def logged(drifts: Mapping[str, Drift]) -> dict[str, float]:
    """Names of the log -> numbers."""
    return {
        f"sampling/{name}/{key}": value
        for name, drift in drifts.items()
        for key, value in asdict(drift).items()
        if key != "tokens"
    }


def correction(batch: Mapping[str, Any], args: Any) -> torch.Tensor:
    """What a token's loss is multiplied by, (B, T): a function of exp(scored - sampled).

    1 where not own. `args` has TRL's settings: `vllm_importance_sampling_mode`, `_clip_min` and
    `_clip_max`. A ratio that is no number stays so, and the trainer stops; TRL takes it for 1.
    """
    own = batch["tool_mask"].bool()
    ratio = torch.exp(torch.where(own, batch[OLD] - batch["sampling_per_token_logps"], 0.0))
    low = args.vllm_importance_sampling_clip_min or 0.0
    high = args.vllm_importance_sampling_clip_max or math.inf
    if args.vllm_importance_sampling_mode == MASK:
        return torch.where(own & ((ratio < low) | (ratio > high)), 0.0, ratio)
    return torch.where(own, ratio.clamp(low, high), 1.0)
