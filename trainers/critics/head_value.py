"""The critic `head`: a linear value head on the policy that is being trained; no second body.

It looks at the policy's last hidden state at the last token of the prompt, the one before the
action begins, so it sees what the policy sees: the own chat. The policy is read and not moved: no
gradient goes from the value into it. Each policy has a head of its own.

It costs one forward pass over the prompts in an update, in which texts that turns share count once.
What it reads moves with the policy, and the head follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from trainers.critics.base import (
    Critic,
    CriticSettings,
    Scale,
    Seen,
    as_on_first_process,
    distinct,
    refuse_body,
)
from trainers.weights.loading import check_state
from trainers.weights.team_model import TeamModel, without_adapters


@dataclass(frozen=True, slots=True)
class Features:
    """What one policy made of its prompts.

    Attributes:
        places: the turns that it acts in.
        which: the prompt of each of these.
        hidden: (prompts, width), each prompt once.
    """

    places: np.ndarray
    which: np.ndarray
    hidden: torch.Tensor


class HeadValue(Critic):
    """V by the hidden states of the policy that acts; see `Critic`."""

    def __init__(self, settings: CriticSettings, seed: int) -> None:
        super().__init__(settings, seed)
        refuse_body(settings)
        if settings.sees != "own":
            raise ValueError(
                f"critic='head' with sees={settings.sees!r}: the policy that it sits on is shown "
                "the own chat alone; choose algorithm: iac, or mappo with sees: own, or critic: "
                "model"
            )
        self.scale = Scale()
        self.team: TeamModel
        self.heads: dict[str, torch.Tensor] = {}
        self._kept: tuple[Sequence[Seen], dict[str, Features]] = ((), {})

    def attach(self, team: TeamModel) -> None:
        """Put a head on each policy.

        Raises:
            ValueError: its weights are divided over processes.
        """
        if team.sharded:
            raise ValueError(
                "critic='head' with shard_weights: a process has no whole policy to read; choose "
                "critic: words or model"
            )
        self.team = team
        widths = {policy: team.model_of(policy).config.hidden_size for policy in team.policies}
        new = {policy: torch.zeros(width + 1) for policy, width in widths.items()}
        if self.heads:  # of a saved team
            check_state("critic, heads", self.heads, new)
        for policy, head in (self.heads or new).items():
            self.heads[policy] = head.to(team.device).requires_grad_()
        weights = list(self.heads.values())
        self.optimizer = torch.optim.AdamW(weights, lr=self.rate, weight_decay=0.0)

    def _predict(self, policy: str, hidden: torch.Tensor) -> torch.Tensor:
        head = self.heads[policy]
        return hidden @ head[:-1] * len(head) ** -0.5 + head[-1]

    @torch.no_grad()
    def values(self, seen: Sequence[Seen]) -> np.ndarray:
        """float64, one for each; 0 before the first fit."""
        features = self._read(seen)
        self._kept = seen, features
        expected = np.zeros(len(seen))
        for policy, states in features.items():
            values = self._predict(policy, states.hidden).double().cpu().numpy()
            expected[states.places] = values[states.which]
        return self.scale.returns(expected)

    def fit(self, seen: Sequence[Seen], targets: np.ndarray) -> None:
        """A few steps towards the targets, on the hidden states that `values` read."""
        features = self._kept[1] if self._kept[0] is seen else self._read(seen)
        scaled = torch.tensor(self.scale.scaled(targets), dtype=torch.float32)
        scaled = scaled.to(self.team.device)
        goals = {policy: scaled[states.places] for policy, states in features.items()}
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            for policy, states in features.items():
                error = self._predict(policy, states.hidden)[states.which] - goals[policy]
                ((error**2).sum() / len(seen)).backward()
            self.optimizer.step()
        as_on_first_process(self.heads.values())
        self._kept = (), {}

    @torch.no_grad()
    def _read(self, seen: Sequence[Seen]) -> dict[str, Features]:
        """Policy -> what it makes of its prompts."""
        features: dict[str, Features] = {}
        with self.team.evaluating():
            for policy in dict.fromkeys(turn.policy for turn in seen):
                places = np.array([i for i, turn in enumerate(seen) if turn.policy == policy])
                prompts, which = distinct([tuple(seen[i].prompt_ids or ()) for i in places])
                features[policy] = Features(places, which, self._hidden(policy, prompts))
        return features

    def _hidden(self, policy: str, prompts: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """Hidden states at the last tokens, (prompts, width); padded on the right."""
        self.team.activate(policy)
        whole = without_adapters(self.team.model_of(policy))
        rows, states = self.settings.rows, []
        for first in range(0, len(prompts), rows):
            part = [torch.tensor(ids) for ids in prompts[first : first + rows]]
            lengths = torch.tensor([len(row) for row in part])
            ids = pad_sequence(part, batch_first=True)
            mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
            self.counters["tokens"] += int(lengths.sum())
            hidden = whole.base_model(
                input_ids=ids.to(self.team.device),
                attention_mask=mask.to(self.team.device),
                use_cache=False,
            ).last_hidden_state
            states.append(hidden[torch.arange(len(part)), lengths - 1].float())
        return torch.cat(states)

    def state_dict(self) -> dict[str, Any]:
        """Weights, moments and scale."""
        return {
            "heads": {policy: head.detach() for policy, head in self.heads.items()},
            "optimizer": self.optimizer.state_dict(),
            "scale": self.scale.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        check_state("critic, heads", state["heads"], self.heads)
        with torch.no_grad():
            for policy, head in state["heads"].items():
                self.heads[policy].copy_(head)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scale.state = state["scale"]

    def save(self, folder: Path) -> dict[str, Any]:
        """The heads and the scale."""
        heads = {policy: head.tolist() for policy, head in self.heads.items()}
        return {"heads": heads, "scale": self.scale.state}

    def load(self, folder: Path, kept: Mapping[str, Any]) -> None:
        """The inverse of `save`; without moments."""
        for policy, head in kept["heads"].items():
            self.heads[policy] = torch.tensor(head)
        self.scale.state = kept["scale"]
