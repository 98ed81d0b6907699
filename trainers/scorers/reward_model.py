"""The scorer `reward:MODEL`: a sequence classifier that was trained to rate texts.

A model with one output is a reward model; its number r counts as 1 / (1 + e^-r). A model with
several labels needs one of `GOOD`; its probability counts. The score is the mean over the authors.
The model reads a pair of texts, as `tokenizer(source, text)` makes it, and no chat template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from llm_marl_envs.scorers import Submission
from trainers.scorers.classifier import DIGITS, PairClassifier

GOOD = ("good", "positive", "accept", "accepted", "chosen", "helpful", "consistent")


class RewardModelScorer:
    """Rates (source, text) of each author.

    Args:
        model: a name or folder that `from_pretrained` takes.

    Raises:
        ValueError: no model, no classifier, or several labels of which not one is in `GOOD`.
    """

    def __init__(self, model: str = "") -> None:
        if not model:
            raise ValueError("reward: expected reward:MODEL, a name or folder of a reward model")
        self.classifier = PairClassifier(model)
        labels = self.classifier.labels
        named = [i for i, label in enumerate(labels) if label.lower() in GOOD]
        if len(labels) > 1 and len(named) != 1:
            raise ValueError(
                f"reward:{model}: expected one output or one label of {GOOD}: {labels}"
            )
        self.label = named[0] if len(labels) > 1 else None

    def score(self, batch: Sequence[Submission]) -> list[Mapping[str, float]]:
        """`model`: the mean rating of the texts, in [0, 1]; an empty text is worth 0."""
        pairs = {(entry.source, t): 0.0 for entry in batch for t in entry.texts if t.strip()}
        if pairs:
            logits = self.classifier.logits(list(pairs))
            rated = (
                torch.sigmoid(logits[:, 0])
                if self.label is None
                else torch.softmax(logits, dim=-1)[:, self.label]
            )
            pairs = dict(zip(pairs, [round(r, DIGITS) for r in rated.tolist()], strict=True))
        return [
            {
                "model": sum(pairs.get((entry.source, t), 0.0) for t in entry.texts)
                / len(entry.texts)
            }
            for entry in batch
        ]
