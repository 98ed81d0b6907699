"""The critic `model`: a language model of its own that reads what is seen, and a linear value head.

Any model of Transformers that gives hidden states will do, a causal one or an encoder. The head
looks at the last token of the text, which has seen all of it in either. Body and head are trained
together, by an AdamW of their own; the policies have no part in it.

A text that many turns share, such as the first one of a group, is read once and weighs as often as
it came. A text that is too long loses its beginning, never its end, where it says who acts.

Shapes: B texts, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, AutoTokenizer

from trainers.critics.base import (
    Critic,
    CriticSettings,
    Parts,
    Scale,
    Seen,
    as_on_first_process,
    distinct,
)
from trainers.weights.control_tokens import cleaned
from trainers.weights.loading import fill, load_model
from trainers.weights.team_model import TeamModel

BODY_FOLDER = "critic.model"
"""In a saved team; no policy has a dot in its name."""
LARGEST_GRADIENT = 1.0


class ModelValue(Critic):
    """V by a model that reads what is seen; see `Critic`."""

    def __init__(self, settings: CriticSettings, seed: int) -> None:
        super().__init__(settings, seed)
        self.scale = Scale()
        self.device = torch.device("cpu")
        self.body: Any = None
        if settings.body is not None:
            self._open(settings.body)

    def attach(self, team: TeamModel) -> None:
        """Take the model that the run begins with, where no other is named, and the team's device.

        Raises:
            ValueError: that model has no name.
        """
        if self.body is None:
            name = team.bases[0].config.name_or_path
            if not name:
                raise ValueError(
                    "critic='model': the run's model has no name to load a second one by; name a "
                    "folder or a model as body"
                )
            self._open(name)
        self.device = team.device
        modules: tuple[Any, ...] = (self.body, self.head)
        for module in modules:
            module.to(self.device)

    def _open(self, name: str) -> None:
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(name)
            with torch.random.fork_rng(devices=[]):  # what an encoder lacks is drawn
                torch.manual_seed(self.seed)
                self.body = load_model(AutoModel, name, body=True, dtype=torch.float32)
                self.head = torch.nn.Linear(self.body.config.hidden_size, 1)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"critic, body={name!r}: expected a name or folder of a Transformers model with "
                f"its tokenizer ({error})"
            ) from error
        self.body.eval()  # no dropout: it would draw from the global generator
        self.body.config.use_cache = False
        for parameter in self.head.parameters():
            torch.nn.init.zeros_(parameter)
        self.parameters = [*self.body.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=self.rate, weight_decay=0.0)
        pad, positions = self.tokenizer.pad_token_id, self.body.config.max_position_embeddings
        self.pad = 0 if pad is None else pad
        # Two less: some encoders (RoBERTa) keep two positions for padding.
        self.length = min(self.settings.max_tokens, positions - 2)
        self.tokenizer.truncation_side = "left"

    def _ids(self, text: str) -> tuple[list[int], bool]:
        """The tokens of a text, and whether it was cut; what spells a control token is text."""
        plain = {"split_special_tokens": True, "verbose": False}
        ids = self.tokenizer(text, **plain)["input_ids"]
        if len(ids) <= self.length:
            return ids, False
        cut = self.tokenizer(text, truncation=True, max_length=self.length, **plain)
        return cut["input_ids"], True

    def _read(self, seen: Sequence[Seen]) -> tuple[list[list[int]], np.ndarray]:
        """The tokens of each text once, and which of these each turn has."""
        texts, places = distinct([_rendered(turn.parts) for turn in seen])
        encoded = [self._ids(text) for text in texts]
        self.counters["cut"] = sum(encoded[place][1] for place in places)
        return [ids for ids, _ in encoded], places

    def _batches(self, texts: Sequence[list[int]]) -> list[np.ndarray]:
        """Which texts are read together: those of like lengths."""
        order, rows = np.argsort([len(ids) for ids in texts], kind="stable"), self.settings.rows
        return [order[first : first + rows] for first in range(0, len(texts), rows)]

    def _predict(self, texts: Sequence[list[int]]) -> torch.Tensor:
        """What the head says of each text, (B,); padded on the right, where nothing looks."""
        self.counters["tokens"] += sum(map(len, texts))
        rows = [torch.tensor(ids, device=self.device) for ids in texts]
        ids = pad_sequence(rows, batch_first=True, padding_value=self.pad)  # (B, T)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        mask = torch.arange(ids.shape[1], device=self.device) < lengths[:, None]
        hidden = self.body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        last = hidden[torch.arange(len(rows), device=self.device), lengths - 1]
        return self.head(last)[:, 0]

    @torch.no_grad()
    def values(self, seen: Sequence[Seen]) -> np.ndarray:
        """float64, one for each; 0 before the first fit."""
        if not seen or not self.scale.fitted:
            return np.zeros(len(seen))
        texts, places = self._read(seen)
        values = np.empty(len(texts))
        for part in self._batches(texts):
            values[part] = self._predict([texts[i] for i in part]).double().cpu().numpy()
        return self.scale.returns(values[places])

    def fit(self, seen: Sequence[Seen], targets: np.ndarray) -> None:
        """A few steps towards the targets.

        Of turns that share a text the mean target is fitted: the gradient is the same.
        """
        texts, places = self._read(seen)
        count = np.bincount(places)
        mean = np.bincount(places, weights=self.scale.scaled(targets)) / count
        goals = torch.tensor(mean, dtype=torch.float32, device=self.device)
        weights = torch.tensor(count / len(seen), dtype=torch.float32, device=self.device)
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            for part in self._batches(texts):
                error = self._predict([texts[i] for i in part]) - goals[part]
                (weights[part] * error**2).sum().backward()
            clip_grad_norm_(self.parameters, LARGEST_GRADIENT)
            self.optimizer.step()
        self.optimizer.zero_grad()
        as_on_first_process(self.parameters)

    def state_dict(self) -> dict[str, Any]:
        """Weights, moments and scale."""
        return {
            "body": self.body.state_dict(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scale": self.scale.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        fill(self.body, state["body"], "critic, body")
        fill(self.head, state["head"], "critic, head")
        self.optimizer.load_state_dict(state["optimizer"])
        self.scale.state = state["scale"]

    def save(self, folder: Path) -> dict[str, Any]:
        """The body as a folder that plain Transformers can load; the head and the scale."""
        self.body.save_pretrained(folder / BODY_FOLDER)
        self.tokenizer.save_pretrained(folder / BODY_FOLDER)
        head = {name: value.tolist() for name, value in self.head.state_dict().items()}
        return {"folder": BODY_FOLDER, "head": head, "scale": self.scale.state}

    def load(self, folder: Path, kept: Mapping[str, Any]) -> None:
        """The inverse of `save`; without moments."""
        self._open(str(folder / BODY_FOLDER))
        head = {name: torch.tensor(value) for name, value in kept["head"].items()}
        fill(self.head, head, f"{folder}, head of the critic")
        self.scale.state = kept["scale"]


def _rendered(parts: Parts) -> str:
    """One text of all, each under its name."""
    named = (f"[{whose}]\n{text}" if text else f"[{whose}]" for whose, text in parts)
    return cleaned("\n".join(named))
