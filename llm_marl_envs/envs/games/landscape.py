"""Where the exact policy gradient ends: softmax tables that climb their own expected returns.

Every seat has a table of logits and follows the gradient of its own return, all at once, with no
sampling. What a learner misses that ends elsewhere is no matter of its noise. Games give the
gradient; this module knows none.

Shapes: S starts; the rest of a table's axes are the game's, its last one the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Tables = list[NDArray[np.float64]]
"""One array of logits per seat, (S, ..., K) each."""
Optimizer = Literal["adam", "plain"]
STARTS = 200
NOISE = 0.1
"""Standard deviation of a start's logits: all actions are nearly equally likely."""
BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of Adam, Kingma and Ba 2015."""


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities over the last axis."""
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def near_uniform(shapes: Sequence[tuple[int, ...]], starts: int = STARTS, seed: int = 0) -> Tables:
    """Normal logits with standard deviation `NOISE`, one table per shape and start."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0.0, NOISE, (starts, *shape)) for shape in shapes]


def ascend(
    gradient: Callable[[Tables], Sequence[NDArray[Any]]],
    logits: Tables,
    updates: int = 400,
    rate: float = 0.05,
    optimizer: Optimizer = "adam",
) -> Tables:
    """The tables after so many exact updates of all seats at once.

    Args:
        gradient: logits -> for each seat the gradient of its own return, of the same shape.
        logits: where to begin; is not changed.
        updates: how many.
        rate: of a step.
        optimizer: "adam", as training mostly has it, or "plain" gradient steps.
    """
    tables = [table.copy() for table in logits]
    first = [np.zeros_like(table) for table in tables]
    second = [np.zeros_like(table) for table in tables]
    for update in range(1, updates + 1):
        for seat, slope in enumerate(gradient(tables)):
            if optimizer == "plain":
                step = slope
            else:
                first[seat] += (1 - BETAS[0]) * (slope - first[seat])
                second[seat] += (1 - BETAS[1]) * (slope**2 - second[seat])
                size = np.sqrt(second[seat] / (1 - BETAS[1] ** update)) + EPSILON
                step = first[seat] / (1 - BETAS[0] ** update) / size
            tables[seat] = tables[seat] + rate * step
    return tables
