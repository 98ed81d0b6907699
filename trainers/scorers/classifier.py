"""A Transformers sequence classifier that rates pairs of texts, batched.

Owns loading and the forward pass. What the labels mean is the scorers' business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from trainers.weights.control_tokens import cleaned
from trainers.weights.loading import load_model

BATCH_SIZE = 32
DIGITS = 5
"""Decimals that are kept: what a row's neighbours in a batch change is far below."""


class PairClassifier:
    """A classifier of (first, second).

    Args:
        model: a name or folder that `from_pretrained` takes.

    Attributes:
        labels: names of the classes, in the order of the model's outputs.

    Raises:
        ValueError: there is no such model, or it is no sequence classifier.
    """

    def __init__(self, model: str) -> None:
        config = _loaded(AutoConfig.from_pretrained, model)
        self.tokenizer = _loaded(AutoTokenizer.from_pretrained, model)
        if not any("SequenceClassification" in name for name in config.architectures or ()):
            raise ValueError(
                f"scorer model {model!r}: expected a sequence classifier, got "
                f"{config.architectures}"
            )
        # By number: the threads that step environments have a current device of their own.
        on_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu"
        self.model = _loaded(partial(load_model, AutoModelForSequenceClassification), model)
        self.model.to(self.device).eval()
        self.labels = [str(label) for _, label in sorted((config.id2label or {}).items())]
        self.tokenizer.padding_side = "right"  # else neighbours move the places of a pair's tokens
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.tokenizer.pad_token is None:
            raise ValueError(f"scorer model {model!r}: its tokenizer has no pad and no end token")
        self.model.config.pad_token_id = self.tokenizer.pad_token_id
        # Two less: some models (RoBERTa) keep two positions for padding.
        positions = getattr(config, "max_position_embeddings", 10**6) - 2
        self.max_length = min(self.tokenizer.model_max_length, positions)

    @torch.no_grad()
    def logits(self, pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
        """Outputs (pairs, labels), float32 on the CPU.

        Of a pair that is too long the longer text loses its end. Control tokens that a text spells
        are tokenised as text, lone surrogates as "?".
        """
        pairs = [(cleaned(first), cleaned(second)) for first, second in pairs]
        order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
        logits = torch.empty(len(pairs), len(self.labels))
        for first in range(0, len(order), BATCH_SIZE):
            places = order[first : first + BATCH_SIZE]
            encoded = self.tokenizer(
                [pairs[i][0] for i in places],
                [pairs[i][1] for i in places],
                truncation="longest_first",
                max_length=self.max_length,
                padding=True,
                split_special_tokens=True,
                return_tensors="pt",
            ).to(self.device)
            logits[places] = self.model(**encoded).logits.float().cpu()
        return logits

    def length(self, first: str, second: str) -> int:
        """Tokens of a pair, uncut."""
        encoded = self.tokenizer(
            cleaned(first), cleaned(second), split_special_tokens=True, verbose=False
        )
        return len(encoded["input_ids"])


def _loaded(load: Callable[[str], Any], model: str) -> Any:
    try:
        return load(model)
    except (OSError, ValueError) as error:
        raise ValueError(f"scorer model {model!r}: cannot be loaded: {error}") from error
