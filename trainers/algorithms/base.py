"""What an algorithm is: which episodes to roll out, and the advantage of every turn.

A new algorithm is one class in one file and one name, see `trainers.algorithms`; every hook has a
default that does nothing. An algorithm of a paper that sets more of a run is a recipe
(`trainers/recipes.py`).

Shapes: P tasks, G episodes per group, A trained agents, K turns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from pettingzoo import AECEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper

from llm_marl_envs.core.environment import TextParallelEnv
from llm_marl_envs.core.options import Options
from llm_marl_envs.core.records import Branch, EpisodeGroup
from llm_marl_envs.core.seeds import Start, group_starts
from llm_marl_envs.core.tasks import Task
from trainers.algorithms.relations import Relation
from trainers.weights.team_model import TeamModel

# Largest difference of returns that counts as none, as a share of everything that an episode paid:
# far above the error of a sum in float64, far below a difference that means something.
ROUNDING = 1e-12
Baseline = Literal["leave_one_out", "mean", "none", "max"]
Scale = Literal["none", "group"]
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "baseline": get_args(Baseline),
    "scale_rewards": get_args(Scale),
}
"""Settings that only some algorithms read -> their values; every algorithm bears the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The largest episodes of a run.

    Attributes:
        size: G, episodes of a task that are played from the reset.
        agents: the trained agents.
        seats: how many agents act, untrained ones included.
        turns: K, most actions of one agent.
        in_turn: whether one agent acts at a time.
    """

    size: int
    agents: tuple[str, ...]
    seats: int
    turns: int
    in_turn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that an algorithm plays of one task in one update.

    Attributes:
        episodes: branches included.
        actions: that are sampled, of all seats.
        trajectories: of one agent, with an action in them that is trained on.
    """

    episodes: int
    actions: int
    trajectories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageInputs:
    """Everything an advantage may depend on.

    Attributes:
        returns: from each turn on, (P, G, A, K), 0 where not alive.
        rewards: what the turn itself paid, (P, G, A, K).
        alive: bool, (P, G, A, K): the agent took this turn. An episode that failed took none, so
            it is in no comparison.
        agents: the A trained agents.
        policies: agent -> name of its weights; in a population with a size those of the beginning,
            and `turn.response.policy` says who acted.
        groups: the episodes themselves, P groups of G, failed ones in their places
            (`EpisodeGroup.living` leaves them out). Where the algorithm branches, a group holds its
            branches, too, and G is the size of the largest one.
    """

    returns: np.ndarray
    rewards: np.ndarray
    alive: np.ndarray
    agents: tuple[str, ...]
    policies: Mapping[str, str]
    groups: tuple[EpisodeGroup, ...]

    @property
    def rounding(self) -> np.ndarray:
        """(P, 1, 1, 1): the largest difference of returns that counts as none.

        The mean of eight times 0.1 is not 0.1, and a policy that has nothing to learn would be
        stepped by what is left over.
        """
        paid = [[sum(abs(t.reward) for t in e.turns) for _, e in g.living] for g in self.groups]
        largest = [max(sums, default=0.0) for sums in paid]
        scale = np.array(largest) if paid else np.abs(self.returns).max(axis=(1, 2, 3))
        return ROUNDING * scale.reshape(-1, 1, 1, 1)

    @property
    def episode_returns(self) -> np.ndarray:
        """(P, G, A): of whole episodes, from the agent's first turn on; 0 where it took none."""
        first = self.alive.argmax(axis=-1)[..., None]  # an agent may join late
        earned = np.take_along_axis(self.returns, first, axis=-1)[..., 0]
        return np.where(self.alive.any(axis=-1), earned, 0.0)

    @property
    def planned(self) -> np.ndarray:
        """bool, (P, G, 1, 1): the episode is no branch."""
        planned = np.ones((*self.alive.shape[:2], 1, 1), dtype=bool)
        for p, group in enumerate(self.groups):
            for g, episode in enumerate(group.episodes):
                planned[p, g] = episode.branch is None
        return planned

    def equal(self) -> np.ndarray:
        """bool, (P, 1, A, K): where several episodes of a group have the same return."""
        low = np.where(self.alive, self.returns, np.inf).min(axis=1, keepdims=True)
        high = np.where(self.alive, self.returns, -np.inf).max(axis=1, keepdims=True)
        several = self.alive.sum(axis=1, keepdims=True) > 1
        return several & (high - low <= self.rounding)


class NoSettings(Options):
    """The settings of an algorithm that has none of its own."""


class Algorithm:
    """Base class; a subclass implements `advantages`.

    Args:
        args: the `MAGRPOConfig` of the run.
        settings: its own settings, a `Settings`; None: their defaults.

    Raises:
        ValueError: a value of `OPTIONS` that would be ignored.
    """

    name: str
    reads: ClassVar[Collection[str] | Mapping[str, Sequence[str]]] = ()
    """Which of `OPTIONS` it reads, or a map of these to the values that it knows. A name alone: the
    first two values."""
    declares: ClassVar[Sequence[Relation]] = ()
    """How it is related to others; each is proven by a test."""
    Settings: ClassVar[type[Options]] = NoSettings
    """Declared as `Options`: the settings of its own, which a run file gives beside the name."""
    settings: Any
    branching: ClassVar[bool] = False
    """Whether `branches` may ask for anything."""
    counters: dict[str, float]
    """What `advantages` counted in the last update; logged under `algorithm/`."""
    reads_state: bool = False
    """Whether records must hold what the environment's `state()` said before each turn."""

    def __init__(self, args: Any, settings: Any = None) -> None:
        for option, (neutral, *others) in OPTIONS.items():
            value, allowed = getattr(args, option), (neutral, *others[:1])
            if option not in self.reads and value != neutral:
                raise ValueError(
                    f"{option}={value!r}: the algorithm {self.name!r} does not read it; leave it "
                    f"at {neutral!r}"
                )
            if isinstance(self.reads, Mapping):
                allowed = self.reads.get(option, allowed)
            if value not in allowed:
                raise ValueError(
                    f"{option}={value!r}: the algorithm {self.name!r} knows {[*allowed]}"
                )
        self.args = args
        self.settings = self.Settings() if settings is None else settings
        self.counters = {}

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse, before any work, a run that lacks what the algorithm needs.

        Args:
            env: one copy of the environment.
            trained: the agents that are trained.

        Raises:
            ValueError: what is missing, and the remedy.
        """

    def attach(self, team: TeamModel) -> None:
        """The weights are there and on their device; called once. Nothing by default.

        Raises:
            ValueError: it cannot work with them.
        """

    def plan(self, task: Task | int | None, group_size: int, seed: int) -> Sequence[Start]:
        """The episodes to roll out for one task; by default G, whose `chance` is the run's."""
        return group_starts(task, seed, group_size, self.args.chance)

    def branches(self, group: EpisodeGroup, agents: Sequence[str]) -> Sequence[Branch]:
        """Further episodes of a task, each of which leaves one that was played.

        Asked again with what came of it, until there is nothing more. What it asks for must follow
        from the group alone: nothing is kept, and each process grows its own tasks.

        Args:
            group: the task's episodes so far, the planned ones first, branches in the order asked.
            agents: the trained agents.
        """
        return ()

    def budget(self, form: Form) -> Budget:
        """The most that it plays of one task.

        Raises:
            ValueError: it cannot be used with such episodes; what to use instead.
        """
        actions = form.size * form.seats * form.turns
        return Budget(episodes=form.size, actions=actions, trajectories=form.size)

    def weights(self, inputs: AdvantageInputs) -> np.ndarray:
        """What a turn weighs in the update, (P, G, A, K); 0 leaves it out.

        The turns of all episodes that were planned weigh 1 each: the loss of a policy is divided by
        their number.
        """
        return np.ones(inputs.alive.shape)

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K); entries where not alive are ignored."""
        raise NotImplementedError(f"{type(self).__name__} must implement advantages(inputs)")

    def extra_loss(self, batch: Mapping[str, Any], model: torch.nn.Module) -> torch.Tensor | None:
        """A further loss of one micro-batch (critics); None by default."""
        return None

    def save(self, folder: Path) -> None:
        """Write what belongs to a saved team beside its policies (a critic); nothing by default."""

    def saves(self) -> dict[str, Any]:
        """What `team.json` says of that, JSON values."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep: plain JSON values and, of models, tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""


def in_turn(env: Any) -> bool:
    """Whether one agent acts at a time."""
    return isinstance(env, (AECEnv, turn_based_aec_to_parallel_wrapper))


def acts_at_once(env: Any, name: str) -> bool:
    """Whether the agents of an environment act at the same time, for an algorithm of that name.

    They do not where seats call tools or write notes: who does so acts again, and the k-th actions
    of two seats are no longer of one time. What came before is still what came before.

    Raises:
        ValueError: nobody knows which actions are simultaneous; what came and what to do.
    """
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, (TextParallelEnv, AECEnv)):
        raise ValueError(
            f"{name} in {type(inner).__name__}: agents of a foreign parallel environment may come "
            "and go, so it cannot be told which actions are simultaneous; expected an environment "
            "of this library or, with a critic, a turn-based one; or choose algorithm: magrpo"
        )
    return isinstance(inner, TextParallelEnv) and not inner.beside
