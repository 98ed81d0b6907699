r"""A central critic: returns minus what the joint observation is worth (MAAC, arXiv 2601.21972).

Formula: A_i,k^g = R_i,k^g - V(agent i, joint observation before turn k). V is then fitted to the
returns R by a few steps of its own.

Comparison group: none. V has learned from earlier updates and is read before it sees this one, so
it depends on nothing that the judged action led to, and the expected gradient is exact whatever V
is; what a wrong V costs is variance.

What V sees, `sees` (`trainers/critics/sight.py`):

- joint, in simultaneous play: the chats of all agents as they are before the turn, and no action of
  that turn. In turn-based play: the own chat and, of each other agent, what it was last shown and
  said before.
- state: what the environment's `state()` says before the turn's actions. An environment without one
  is refused. A state may hold more than any actor knows, the answer even: the baseline is stronger
  for it, and the estimate stays unbiased.
- solution: the joint observation and `solution(task)`, which no actor sees: an asymmetric critic
  (Pinto et al. 2017, arXiv 1710.06542; Baisero and Amato 2022, arXiv 2105.11674: with bootstrapping
  it must see the history too, else it is biased). An environment without one is refused.

Actors see their own chats alone, so the critic is for training only.

What V is, `critic`: `words` (hashed words, one hidden layer) or `model` (a language model with a
value head). It has its own optimiser with `rate`, and takes `steps` steps on each update's
episodes.

Degenerate case: before the first fit V is 0 and A = R.

Deviations from the paper:

1. V is a small model of words by default. With `critic: model` it is a language model.
2. Returns, not TD errors: the advantage has no bias from V. `mappo` has GAE.
3. Advantages are not normalised over the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainers.algorithms.base import AdvantageInputs, Algorithm, acts_at_once
from trainers.algorithms.relations import Kind, Relation
from trainers.batch.packing import turns_taken
from trainers.critics.base import CriticSettings, Seen
from trainers.critics.registry import CRITIC_FILE, make_critic, save_critic
from trainers.critics.sight import Sight
from trainers.weights.team_model import TeamModel

UNBIASED = Relation(
    kind=Kind.VARIANCE, of="the policy gradient", when="always: whatever the critic has learned"
)


class CentralCritic(Algorithm):
    """Return minus V of the joint observation; see the module's docstring."""

    name = "central_critic"
    Settings = CriticSettings
    settings: Any
    declares = (UNBIASED,)
    actions: ClassVar[bool] = False
    """Whether V also sees what the others do in the same turn."""

    def __init__(self, args: Any, settings: Any = None) -> None:
        super().__init__(args, settings)
        self.critic = make_critic(self.settings, args.seed)
        self.sight = Sight(self.settings.sees, self.actions)
        self.reads_state = self.settings.sees == "state"
        self.at_once = True

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse environments in which nobody knows which actions are simultaneous.

        Raises:
            ValueError: says what came and what to do.
        """
        self.at_once = acts_at_once(env, self.name)
        if self.reads_state:
            check_state(env, self.name)
        if self.settings.sees == "solution":
            self.sight = replace(self.sight, solution=solutions_of(env, self.name))

    def attach(self, team: TeamModel) -> None:
        """Give the critic the weights; it may have to refuse them."""
        self.critic.attach(team)

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; then V learns."""
        places, seen = self._seen(inputs)
        values = np.zeros_like(inputs.returns)
        self.critic.counters.clear()
        self.counters = {}
        values[places] = self.critic.values(seen)
        advantages, targets = self.estimate(inputs, values)
        if seen:
            self.critic.fit(seen, targets[places])
            self.counters = self._counted(values[places], targets[places])
        return np.where(inputs.alive, advantages, 0.0)

    def _counted(self, values: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        """How well V knew the targets before it learned from them, and what it cost."""
        error, variance = float(((values - targets) ** 2).mean()), float(targets.var())
        counters = {"critic_error": error, "critic_rate": self.critic.rate}
        if variance > 0:
            explained = 1 - float((targets - values).var()) / variance
            counters["critic_explained_variance"] = explained
        return counters | {f"critic_{name}": float(n) for name, n in self.critic.counters.items()}

    def estimate(
        self, inputs: AdvantageInputs, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advantages and what V is fitted to, both (P, G, A, K); `values` 0 where not alive."""
        return inputs.returns - values, inputs.returns

    def _seen(self, inputs: AdvantageInputs) -> tuple[tuple[np.ndarray, ...], list[Seen]]:
        """Where the turns of trained agents stand in (P, G, A, K), and what V sees of each."""
        places, seen = [], []
        for place, turn in turns_taken(inputs.groups, inputs.agents):
            if not inputs.alive[place]:  # of a player that is not trained
                continue
            episode = inputs.groups[place[0]].episodes[place[1]]
            position = next(i for i, other in enumerate(episode.turns) if other is turn)
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
        """Write the critic beside the team's policies; `load_critic` reads it."""
        save_critic(self.critic, folder, algorithm=self.name)

    def saves(self) -> dict[str, Any]:
        """The critic's kind, what it sees, and where it lies."""
        own = self.settings
        return {"critic": {"kind": own.critic, "sees": own.sees, "file": CRITIC_FILE}}


def solutions_of(env: Any, name: str) -> Callable[[str], str]:
    """Task id -> what solves the task; each is looked up once.

    Raises:
        ValueError: the environment tells no solution.
    """
    inner = getattr(env, "unwrapped", env)
    try:
        inner.solution(inner.source[0])
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"{name} with sees='solution': {type(inner).__name__} tells no solution; give it a "
            "method `solution(task)`, or choose sees: joint"
        ) from error
    return cache(lambda task_id: inner.solution(inner.source.find(task_id)))


def check_state(env: Any, name: str) -> None:
    """Refuse an environment that does not tell its state as text; it is reset for that.

    Raises:
        ValueError: says what came and what to do.
    """
    env.reset(seed=0)
    try:
        state = env.state()
    except (NotImplementedError, AttributeError):
        state = None
    if not isinstance(state, str):
        kind = type(getattr(env, "unwrapped", env)).__name__
        came = "no state()" if state is None else f"a state() of type {type(state).__name__}"
        raise ValueError(
            f"{name} with sees='state' in {kind}, which has {came}: expected a text; give the "
            "environment one, or choose sees: joint"
        )
