r"""A central critic: returns minus what the joint observation is worth (MAAC, arXiv 2601.21972).

Formula: A_i,k^g = R_i,k^g - V(agent i, joint observation before turn k). V is then fitted to the
returns R by a few steps of its own.

Comparison group: none. V has learned from earlier updates and is read before it sees this one, so
it depends on nothing that the judged action led to, and the expected gradient is exact whatever V
is; what a wrong V costs is variance.

What V sees in simultaneous play: the chats of all agents as they are before the turn, and no action
of that turn. In turn-based play: the own chat and, of each other agent, what it was last shown and
said before (`trainers/critics/sight.py`). The environment's `state()` is in no record of an episode
and is not seen. Actors see their own chats alone, so the critic is for training only.

Degenerate case: before the first fit V is 0 and A = R.

Deviations from the paper:

1. V is a small model of words (`trainers/critics/text_value.py`), not a language model: hashed
   words, one hidden layer, its own Adam with `rate`, `steps` steps on each update's episodes.
2. Returns, not TD errors: the advantage has no bias from V. `mappo` has GAE.
3. Advantages are not normalised over the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pettingzoo import AECEnv

from llm_marl_envs.core import TextParallelEnv
from llm_marl_envs.files.json_files import write_json
from trainers.algorithms.base import AdvantageInputs, Algorithm
from trainers.algorithms.relations import Kind, Relation
from trainers.critics.sight import Parts, Sight
from trainers.critics.text_value import TextValue
from trainers.update.packing import turns_taken

CRITIC_FILE = "critic.json"
UNBIASED = Relation(
    kind=Kind.VARIANCE, of="the policy gradient", when="always: whatever the critic has learned"
)


@dataclass(frozen=True, slots=True)
class CriticSettings:
    """Settings of algorithms with a critic.

    Attributes:
        rate: the critic's learning rate, more than 0.
        steps: its gradient steps in an update, at least 1.

    Raises:
        ValueError: out of range.
    """

    rate: float = 1e-2
    steps: int = 8

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise ValueError(f"critic, rate={self.rate!r}: expected a number of more than 0")
        if self.steps < 1:
            raise ValueError(f"critic, steps={self.steps}: expected at least 1")


class CentralCritic(Algorithm):
    """Return minus V of the joint observation; see the module's docstring."""

    name = "central_critic"
    Settings = CriticSettings
    settings: Any
    declares = (UNBIASED,)
    sight: ClassVar[Sight] = Sight(joint=True)
    """What V sees."""

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        own = self.settings
        self.critic = TextValue(rate=own.rate, steps=own.steps, seed=args.seed)
        self.at_once = True

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse environments in which nobody knows which actions are simultaneous.

        Raises:
            ValueError: says what came and what to do.
        """
        inner = getattr(env, "unwrapped", env)
        if not isinstance(inner, (TextParallelEnv, AECEnv)):
            raise ValueError(
                f"{self.name} in {type(inner).__name__}: agents of a foreign parallel environment "
                "may come and go, so it cannot be told which actions are simultaneous; expected an "
                "environment of this library or a turn-based one, or choose algorithm: magrpo"
            )
        self.at_once = not isinstance(inner, AECEnv)

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; then V learns."""
        places, seen = self._seen(inputs)
        values = np.zeros_like(inputs.returns)
        values[places] = self.critic.values(seen)
        advantages, targets = self.estimate(inputs, values)
        if seen:
            self.counters = {"critic_error": self.critic.fit(seen, targets[places])}
        return np.where(inputs.alive, advantages, 0.0)

    def estimate(
        self, inputs: AdvantageInputs, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advantages and what V is fitted to, both (P, G, A, K); `values` 0 where not alive."""
        return inputs.returns - values, inputs.returns

    def _seen(self, inputs: AdvantageInputs) -> tuple[tuple[np.ndarray, ...], list[Parts]]:
        """Where the turns of trained agents stand in (P, G, A, K), and what V sees of each."""
        places, seen = [], []
        for place, turn in turns_taken(inputs.groups, inputs.agents):
            episode = inputs.groups[place[0]].episodes[place[1]]
            position = next(i for i, one in enumerate(episode.turns) if one is turn)
            places.append(place)
            seen.append(self.sight.of(episode, position, self.at_once))
        return tuple(np.array(places, dtype=int).reshape(-1, 4).T), seen

    def state_dict(self) -> dict[str, Any]:
        """The critic: weights, moments, scale."""
        return {"critic": self.critic.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the critic."""
        self.critic.load_state_dict(state["critic"])

    def save(self, folder: Path) -> None:
        """Write the critic beside the team's policies, `critic.json`."""
        write_json(folder / CRITIC_FILE, {"algorithm": self.name, **self.state_dict()})
