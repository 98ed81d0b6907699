"""What a critic is: what it is shown of a turn, how it is set, what it must do and keep.

A critic is one class in one file and one name (`registry.py`). What of an episode it is shown is
chosen in `sight.py`; what becomes of its values is the algorithm's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from pydantic import Field

from llm_marl_envs.core.options import Options
from trainers.weights.team_model import TeamModel

T = TypeVar("T", bound=Hashable)

Parts = tuple[tuple[str, str], ...]
"""(whose, text), for each chat and action, in the order in which they are read; the last one says
who acts."""

# A value model's own defaults; a kind that is not named here has those of "model".
DEFAULTS = {
    "words": {"rate": 1e-2, "steps": 8},
    "model": {"rate": 1e-3, "steps": 4},
    "head": {"rate": 3e-2, "steps": 8},
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a critic is shown of one turn: nothing of the action, nothing that came of it.

    Attributes:
        parts: the texts.
        policy: name of the weights that are about to act.
        prompt_ids: the token ids that these were conditioned on, for critics that see the own chat
            alone; else None.
    """

    parts: Parts
    policy: str = ""
    prompt_ids: tuple[int, ...] | None = None


class CriticSettings(Options):
    """Settings of algorithms with a critic."""

    within = "critic"
    critic: str = Field(
        default="words",
        description="'words', 'model', 'head', another name in trainers.critics, or 'module:Class'",
    )
    sees: Literal["joint", "state", "solution", "own"] = Field(
        default="joint",
        description="'joint' (the chats of all agents), 'state' (the environment's `state()`), "
        "'solution' (the chats, and what solves the task) or 'own' (the own chat); which of these "
        "an algorithm takes, its page says",
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="the critic's learning rate; None: 0.01, of 'model' 0.001, of 'head' 0.03",
    )
    steps: int | None = Field(
        default=None,
        ge=1,
        description="its gradient steps in an update, each over all turns; None: 8, of 'model' 4",
    )
    body: str | None = Field(
        default=None,
        description="of 'model', a name or folder of a causal model or an encoder; None: the model "
        "that the run begins with",
    )
    max_tokens: int = Field(
        default=512,
        ge=1,
        description="of 'model', most tokens of a text; a longer one loses its beginning",
    )
    rows: int = Field(
        default=32, ge=1, description="of 'model' and 'head', most texts of one forward pass"
    )
    sights: ClassVar[tuple[str, ...]] = ("joint", "state", "solution")

    def __init__(self, /, **settings: Any) -> None:
        own = DEFAULTS.get(str(settings.get("critic", "words")), DEFAULTS["model"])
        chosen = {k: v for k, v in settings.items() if v is not None or k not in own}
        super().__init__(**own | chosen)
        if self.sees not in self.sights:
            remedy = "; for the own chat choose algorithm: iac" if self.sees == "own" else ""
            raise ValueError(f"critic, sees={self.sees!r}: expected one of {self.sights}{remedy}")


class Critic:
    """V of what is seen. A subclass implements `values`, `fit` and the two of its state.

    It touches no global generator and no gradient of a policy. Every process has the same one: each
    fits it to the episodes of all.

    Args:
        settings: all of them; the ones that it does not know it refuses.
        seed: of its first weights.

    Attributes:
        counters: what `values` and `fit` counted, logged under `algorithm/critic_` and cleared at
            each update. "tokens": those that models read for it in all passes.

    Raises:
        ValueError: a setting that it would ignore, or cannot work with.
    """

    def __init__(self, settings: CriticSettings, seed: int) -> None:
        self.settings = settings
        self.rate, self.steps = float(settings.rate or 0), int(settings.steps or 0)
        self.seed = seed
        self.counters: Counter[str] = Counter()

    def attach(self, team: TeamModel) -> None:
        """The weights of the team are there, on their device: called once, before `values`.

        Raises:
            ValueError: it cannot work with them.
        """

    def values(self, seen: Sequence[Seen]) -> np.ndarray:
        """float64, one for each; 0 before the first fit."""
        raise NotImplementedError(f"{type(self).__name__} must implement values(seen)")

    def fit(self, seen: Sequence[Seen], targets: np.ndarray) -> None:
        """A few steps towards the targets, float64, one for each; `values` saw the same before."""
        raise NotImplementedError(f"{type(self).__name__} must implement fit(seen, targets)")

    def state_dict(self) -> dict[str, Any]:
        """Weights and moments: plain values and tensors."""
        raise NotImplementedError(f"{type(self).__name__} must implement state_dict()")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        raise NotImplementedError(f"{type(self).__name__} must implement load_state_dict(state)")

    def save(self, folder: Path) -> dict[str, Any]:
        """What a saved team keeps of it, JSON values; files may be written into `folder`."""
        return self.state_dict()

    def load(self, folder: Path, kept: Mapping[str, Any]) -> None:
        """The inverse of `save`."""
        self.load_state_dict(kept)


def refuse_body(settings: CriticSettings) -> None:
    """Refuse a body where there is none to be chosen.

    Raises:
        ValueError: one is named.
    """
    if settings.body is not None:
        raise ValueError(
            f"critic={settings.critic!r} with body={settings.body!r}: it has no model of its own; "
            "leave body out, or choose critic: model"
        )


def distinct(items: Sequence[T]) -> tuple[list[T], np.ndarray]:
    """Each item once, in the order of their first places, and which of these stands at each place.

    What is equal is judged once and has one value, to the last bit; and it costs as much.
    """
    number = {item: i for i, item in enumerate(dict.fromkeys(items))}
    return list(number), np.array([number[item] for item in items], dtype=int)


def as_on_first_process(weights: Iterable[torch.Tensor]) -> None:
    """Have the first process's weights on every one: a GPU may differ in the last bit."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        for weight in weights:
            torch.distributed.broadcast(weight.data, src=0)


class Scale:
    """The running mean and deviation of returns, in which a value model counts."""

    WEIGHT = 0.05
    """Of the newest update."""

    def __init__(self) -> None:
        self.middle, self.spread, self.fitted = 0.0, 1.0, False

    def scaled(self, targets: np.ndarray) -> np.ndarray:
        """The targets in these units, after they have moved the units."""
        weight = self.WEIGHT if self.fitted else 1.0
        self.middle += weight * (float(targets.mean()) - self.middle)
        distance = float(np.sqrt(((targets - self.middle) ** 2).mean()))
        self.spread += weight * (max(distance, 1e-6) - self.spread)
        self.fitted = True
        return (targets - self.middle) / self.spread

    def returns(self, values: np.ndarray) -> np.ndarray:
        """What a model found, as returns; 0 before the first fit."""
        return values * self.spread + self.middle if self.fitted else np.zeros(len(values))

    @property
    def state(self) -> list[Any]:
        """Middle, spread, and whether there was a fit."""
        return [self.middle, self.spread, self.fitted]

    @state.setter
    def state(self, state: Sequence[Any]) -> None:
        self.middle, self.spread, self.fitted = state
