r"""Policies that learn one after the other from one rollout (HAPPO, arXiv 2109.11251, equation 11).

After a rollout the policies take their steps in an order drawn anew for each update. A later one is
told how the earlier ones have changed: the advantage of what it said at a step of the environment
is multiplied by

    product over the earlier policies j of pi_j,new(a_j) / pi_j,old(a_j),

a_j being all that policy j said at the same step of the same episode. The own ratio and its
clipping are the loss's, as without it. With `num_iterations` a policy takes all its steps before
the next.

Owns the order, the ratios and what cannot be right. When it is done is the trainer's.

Deviations from the paper:

1. Advantages are those of the run's algorithm; the paper's are of a central critic (`mappo`).
2. `clip` holds the product in [1 - clip, 1 + clip], as A2PO (arXiv 2302.06205) does. The paper's is
   not clipped. A ratio of a whole text is a product over its tokens, and strays further than that
   of one action.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from llm_marl_envs.core.seeds import derive_seed
from trainers.algorithms import Algorithm
from trainers.algorithms.base import in_turn
from trainers.config import MAGRPOConfig

Place = tuple[int, int, int]
"""A step of an episode: its task's place in the process's share, its own in the group, the step."""


def check_sequential(
    env: Any,
    algorithm: Algorithm,
    args: MAGRPOConfig,
    trained: Sequence[str],
    policies: Mapping[str, str],
) -> None:
    """Refuse, before any work, a run in which the ratios would be wrong or all 1.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    where, own = "schedules, sequential:", [policies[agent] for agent in trained]
    if len(own) < 2 or len(set(own)) < len(own):
        raise ValueError(
            f"{where} the trained seats {[*trained]} play with {own}; expected two seats or more, "
            "each with a policy of its own (weights: adapters or separate)"
        )
    if in_turn(env):
        raise ValueError(
            f"{where} agents act one after the other in {type(env.unwrapped).__name__}, so nobody "
            "acts beside anybody and every ratio is 1; leave it out"
        )
    if algorithm.branching:
        raise ValueError(
            f"{where} algorithm={algorithm.name!r} trains on parts of episodes, so it is not known "
            "how all of a step has changed; choose one that plays no branches, such as 'magrpo'"
        )
    if args.mask_truncated_completions:
        raise ValueError(
            f"{where} mask_truncated_completions leaves turns out, so it is not known how all of a "
            "step has changed; choose one of the two"
        )
    if "in_turn" in (args.schedules or {}):
        raise ValueError(f"{where} in_turn says who learns, too; choose one of the two")


def drawn_order(seed: int, update: int, policies: Sequence[str]) -> list[str]:
    """The order in which the policies take their steps; the same on every process."""
    order = sorted(policies)
    random.Random(derive_seed("sequential", seed, update)).shuffle(order)
    return order


def log_ratios(
    batches: Sequence[Mapping[str, Any]],
    old: str,
    log_probs: Callable[[Mapping[str, Any]], torch.Tensor],
) -> dict[Place, float]:
    """Where something was said -> log of its new probability over its old one, over all tokens.

    Args:
        batches: micro-batches of the policies in question.
        old: the key of the old log-probs (B, T) in them.
        log_probs: of a micro-batch under the present weights, (B, T).
    """
    ratios: dict[Place, float] = defaultdict(float)
    for batch in batches:
        own = batch["tool_mask"].bool()
        change = torch.where(own, log_probs(batch) - batch[old], 0.0).double()
        for row, (task, episode) in enumerate(batch["episodes"]):
            steps = batch["steps"][row]
            for step in steps[own[row]].unique().tolist():
                ratios[task, episode, step] += float(change[row][steps == step].sum())
    return ratios


def weigh(
    batches: Sequence[dict[str, Any]], ratios: Mapping[Place, float], clip: float | None
) -> float:
    """Multiply the advantages by the ratios of the same step, in place; returns the largest.

    Args:
        batches: micro-batches of the policy that learns next.
        ratios: as `log_ratios`; where there is none, it is 1.
        clip: see `Sequential`.
    """
    largest = 0.0
    for batch in batches:
        factors = torch.ones_like(batch["advantages"])
        for row, (task, episode) in enumerate(batch["episodes"]):
            steps, own = batch["steps"][row], batch["tool_mask"][row].bool()
            for step in steps[own].unique().tolist():
                # A float holds no more than e^709, and an infinite advantage stops the run.
                ratio = math.exp(min(ratios.get((task, episode, step), 0.0), 709.0))
                if clip is not None:
                    ratio = min(max(ratio, 1 - clip), 1 + clip)
                factors[row][steps == step] = ratio
                largest = max(largest, ratio)
        judged = batch.setdefault("judged", batch["advantages"])  # a step may be taken again
        batch["advantages"] = judged * factors
    return largest
