"""A small value model of texts: words and pairs of words, hashed, summed, one hidden layer.

It has its own weights and its own Adam with its own rate, and touches no generator but its own.
Every process fits it on the same episodes, so that all have the same one. It is a baseline that
costs milliseconds, not a reader: what it cannot tell apart, it gives one value.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from trainers.critics.sight import Parts

BUCKETS = 2048
WIDTH = 16
WORDS = re.compile(r"\w+|[^\w\s]")
# Weight of the newest update in the mean and deviation of returns that the model counts in.
RUNNING_WEIGHT = 0.05


def features(parts: Parts) -> list[int]:
    """Numbers below `BUCKETS`, one for each word and pair of neighbours, by whose text it is."""
    found = []
    for whose, text in parts:
        words = ["", *WORDS.findall(text.lower())]
        found.append(f"{whose}|")
        found += [f"{whose}|{word}" for word in words[1:]]
        found += [f"{whose}|{one} {other}" for one, other in zip(words, words[1:], strict=False)]
    return [zlib.crc32(each.encode()) % BUCKETS for each in found]


class TextValue:
    """V of what is seen.

    Args:
        rate: learning rate.
        steps: gradient steps of one fit.
        seed: of the first weights.
    """

    def __init__(self, *, rate: float, steps: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        shapes = ((BUCKETS, WIDTH), (WIDTH,), (1,))
        scales = (1.0, WIDTH**-0.5, 0.0)
        self.weights = [
            (torch.randn(shape, generator=generator) * scale).requires_grad_()
            for shape, scale in zip(shapes, scales, strict=True)
        ]
        self.steps = steps
        self.optimizer = torch.optim.Adam(self.weights, lr=rate)
        self.middle, self.spread = 0.0, 1.0
        self.fitted = False

    def _predict(self, seen: Sequence[Sequence[int]]) -> torch.Tensor:
        table, last, bias = self.weights
        counts = torch.tensor([len(one) for one in seen])
        ids = torch.tensor([number for one in seen for number in one])
        begins = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)[:-1]])
        scale = (counts.float() ** -0.5).repeat_interleave(counts)
        hidden = torch.nn.functional.embedding_bag(
            ids, table, begins, mode="sum", per_sample_weights=scale
        )
        return torch.tanh(hidden) @ last + bias

    @torch.no_grad()
    def values(self, seen: Sequence[Parts]) -> np.ndarray:
        """float64, one for each; 0 before the first fit."""
        if not seen or not self.fitted:
            return np.zeros(len(seen))
        found = self._predict([features(one) for one in seen]).double().numpy()
        return found * self.spread + self.middle

    def fit(self, seen: Sequence[Parts], targets: np.ndarray) -> float:
        """A few steps towards the targets; returns the mean square error before them."""
        error = float(((self.values(seen) - targets) ** 2).mean())
        weight = RUNNING_WEIGHT if self.fitted else 1.0
        self.middle += weight * (float(targets.mean()) - self.middle)
        distance = float(np.sqrt(((targets - self.middle) ** 2).mean()))
        self.spread += weight * (max(distance, 1e-6) - self.spread)
        self.fitted = True
        scaled = torch.tensor((targets - self.middle) / self.spread, dtype=torch.float32)
        ids = [features(one) for one in seen]
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            ((self._predict(ids) - scaled) ** 2).mean().backward()
            self.optimizer.step()
        return error

    def state_dict(self) -> dict[str, Any]:
        """Weights, moments and scale, as plain JSON values."""
        moments = self.optimizer.state_dict()["state"]
        return {
            "weights": [weight.tolist() for weight in self.weights],
            "moments": [{k: v.tolist() for k, v in moments[i].items()} for i in sorted(moments)],
            "scale": [self.middle, self.spread, self.fitted],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        with torch.no_grad():
            for weight, kept in zip(self.weights, state["weights"], strict=True):
                weight.copy_(torch.tensor(kept))
        whole = self.optimizer.state_dict()
        whole["state"] = {
            i: {k: torch.tensor(v) for k, v in one.items()}
            for i, one in enumerate(state["moments"])
        }
        self.optimizer.load_state_dict(whole)
        self.middle, self.spread, self.fitted = state["scale"]
