"""The critic `words`: words and pairs of words, hashed, summed, one hidden layer.

It has its own weights and its own Adam with its own rate. It is a baseline that costs
milliseconds, not a reader: what it cannot tell apart, it gives one value.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from trainers.critics.base import Critic, CriticSettings, Parts, Scale, Seen, distinct, refuse_body
from trainers.weights.loading import check_state

BUCKETS = 2048
WIDTH = 16
WORDS = re.compile(r"\w+|[^\w\s]")


def features(parts: Parts) -> list[int]:
    """Numbers below `BUCKETS`, one for each word and pair of neighbours, by whose text it is."""
    keys = []
    for whose, text in parts:
        words = ["", *WORDS.findall(text.lower())]
        keys.append(f"{whose}|")
        keys += [f"{whose}|{word}" for word in words[1:]]
        keys += [f"{whose}|{word} {other}" for word, other in zip(words, words[1:], strict=False)]
    return [zlib.crc32(each.encode()) % BUCKETS for each in keys]


class TextValue(Critic):
    """V by the words of what is seen; see `Critic`."""

    def __init__(self, settings: CriticSettings, seed: int) -> None:
        super().__init__(settings, seed)
        refuse_body(settings)
        generator = torch.Generator().manual_seed(seed)
        shapes = ((BUCKETS, WIDTH), (WIDTH,), (1,))
        scales = (1.0, WIDTH**-0.5, 0.0)
        self.weights = [
            (torch.randn(shape, generator=generator) * scale).requires_grad_()
            for shape, scale in zip(shapes, scales, strict=True)
        ]
        self.optimizer = torch.optim.Adam(self.weights, lr=self.rate)
        self.scale = Scale()

    def _predict(self, seen: Sequence[Sequence[int]]) -> torch.Tensor:
        table, last, bias = self.weights
        counts = torch.tensor([len(numbers) for numbers in seen])
        ids = torch.tensor([number for numbers in seen for number in numbers])
        begins = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)[:-1]])
        scale = (counts.float() ** -0.5).repeat_interleave(counts)
        hidden = torch.nn.functional.embedding_bag(
            ids, table, begins, mode="sum", per_sample_weights=scale
        )
        return torch.tanh(hidden) @ last + bias

    @torch.no_grad()
    def values(self, seen: Sequence[Seen]) -> np.ndarray:
        """float64, one for each; 0 before the first fit."""
        if not seen or not self.scale.fitted:
            return np.zeros(len(seen))
        each, places = distinct([turn.parts for turn in seen])
        values = self._predict([features(parts) for parts in each])
        return self.scale.returns(values.double().numpy()[places])

    def fit(self, seen: Sequence[Seen], targets: np.ndarray) -> None:
        """A few steps towards the targets."""
        scaled = torch.tensor(self.scale.scaled(targets), dtype=torch.float32)
        ids = [features(turn.parts) for turn in seen]
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            ((self._predict(ids) - scaled) ** 2).mean().backward()
            self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Weights, moments and scale, as plain JSON values."""
        moments = self.optimizer.state_dict()["state"]
        return {
            "weights": [weight.tolist() for weight in self.weights],
            "moments": [{k: v.tolist() for k, v in moments[i].items()} for i in sorted(moments)],
            "scale": self.scale.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        kept = {str(i): torch.tensor(values) for i, values in enumerate(state["weights"])}
        own = {str(i): weight for i, weight in enumerate(self.weights)}
        check_state("critic", kept, own)
        with torch.no_grad():
            for number, weight in own.items():
                weight.copy_(kept[number])
        whole = self.optimizer.state_dict()
        whole["state"] = {
            i: {k: torch.tensor(v) for k, v in moments.items()}
            for i, moments in enumerate(state["moments"])
        }
        self.optimizer.load_state_dict(whole)
        self.scale.state = state["scale"]
