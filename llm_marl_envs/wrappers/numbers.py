"""A text environment as arrays: what `Choose` and `Tokenize` share.

Owns the two PettingZoo forms around a `Form`, which says what an observation and an action look
like. A form keeps nothing of the environment's rules; the environment inside goes on in text.
Infos hold the same numbers after `reset` and after every `step`: `success` (0 or 1; 0 while nobody
knows) and `turn`, and `action_mask` where the form puts it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from llm_marl_envs.core.forms import as_played
from llm_marl_envs.wrappers.codecs import Reader

MaskPlace = Literal["info", "observation"]
NUMBERS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Action spaces that no text is in."""


class Form(ABC):
    """What observations and actions of a text environment look like as arrays.

    Args:
        reader: text -> array.

    Attributes:
        name: of the wrapper, for its errors.
        mask: where masks of possible actions stand; None: there are none.
    """

    name: ClassVar[str]
    mask: MaskPlace | None = None

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    @property
    def box(self) -> spaces.Box:
        """A fresh space of one encoded text."""
        space = self.reader.space
        return spaces.Box(space.low, space.high, dtype=space.dtype.type)

    def observation_space(self) -> spaces.Space[Any]:
        """What a seat is shown."""
        return self.box

    @abstractmethod
    def action_space(self) -> spaces.Space[Any]:
        """What a seat says."""

    @abstractmethod
    def text(self, env: Any, agent: str, action: Any) -> str:
        """The message of an action."""

    def action_mask(self, env: Any, agent: str) -> np.ndarray:
        """Which actions are possible now, int8."""
        raise AttributeError(f"{self.name} has no action masks; Choose has")

    def renew(self) -> None:  # noqa: B027 - most forms keep nothing
        """Forget what held for the turn before."""

    def observed(self, env: Any, agent: str, text: str) -> Any:
        """What a seat is shown of its text."""
        array = self.reader.encode(text)
        if self.mask != "observation":
            return array
        return {"observation": array, "action_mask": self.action_mask(env, agent)}

    def info(self, env: Any, agent: str, info: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of a seat's info."""
        numbers = {"success": float(bool(info.get("success"))), "turn": float(info.get("turn", 0))}
        if self.mask != "info":
            return numbers
        return {**numbers, "action_mask": self.action_mask(env, agent)}


class _Numbers:
    """What both PettingZoo forms share; `env` is the environment inside."""

    env: Any

    def __init__(self, env: Any, form: Form) -> None:
        super().__init__(env)  # pyright: ignore[reportCallIssue] - PettingZoo's wrapper
        self.form, self.spec = form, getattr(env, "spec", None)
        self.possible_agents = list(env.possible_agents)
        self._observation_spaces = {a: form.observation_space() for a in self.possible_agents}
        self._action_spaces = {a: form.action_space() for a in self.possible_agents}
        box, n = form.box, len(self.possible_agents)
        low, high = np.tile(box.low, n), np.tile(box.high, n)
        self.state_space = spaces.Box(low, high, dtype=box.dtype.type)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The same object at each call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The same object at each call."""
        return self._action_spaces[agent]

    def action_mask(self, agent: str) -> np.ndarray:
        """Which actions of a seat are possible now, int8 (k,).

        Raises:
            ValueError: an unknown seat.
        """
        if agent not in self.possible_agents:
            raise ValueError(f"seat {agent!r:.200}: expected one of {self.possible_agents}")
        return self.form.action_mask(self.env, agent)


class NumbersParallel(_Numbers, BaseParallelWrapper[str, Any, Any]):
    """A simultaneous text environment in a `Form`."""

    def __init__(self, env: Any, form: Form) -> None:
        super().__init__(env, form)
        self._seen: dict[str, str] = {}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """As the environment inside, in numbers."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.form.renew()
        return self._shown(observations), self._infos(infos)

    def step(self, actions: Mapping[str, Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As the environment inside, in numbers.

        Raises:
            RuntimeError: before `reset` or after the end of the episode.
            TypeError: no dict of actions.
            ValueError: an agent is missing or unknown.
        """
        if not getattr(self.env, "agents", ()):
            raise RuntimeError(f"{self.form.name}: no episode is running; call reset()")
        check_joint(actions, self.env.agents)
        texts = {a: self.form.text(self.env, a, actions[a]) for a in self.env.agents}
        observations, rewards, ended, cut, infos = self.env.step(texts)
        self.form.renew()
        return self._shown(observations), rewards, ended, cut, self._infos(infos)

    def state(self) -> np.ndarray:
        """What every seat was shown last, one after the other."""
        return np.concatenate(
            [self.form.reader.encode(self._seen.get(a, "")) for a in self.possible_agents]
        )

    def _shown(self, observations: Mapping[str, str]) -> dict[str, Any]:
        self._seen.update(observations)
        return {a: self.form.observed(self.env, a, text) for a, text in observations.items()}

    def _infos(self, infos: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return {agent: self.form.info(self.env, agent, info) for agent, info in infos.items()}


class NumbersAEC(_Numbers, BaseWrapper[str, Any, Any]):
    """A turn-based text environment in a `Form`."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """As the environment inside."""
        self.env.reset(seed=seed, options=options)
        self._renew()

    def step(self, action: Any) -> None:
        """As the environment inside; None is the action of a seat whose episode is over."""
        agent = self.env.agent_selection
        text = None if action is None else self.form.text(self.env, agent, action)
        self.env.step(text)
        self._renew()

    def observe(self, agent: str) -> Any:
        """What a seat is shown, in numbers."""
        return self.form.observed(self.env, agent, self.env.observe(agent) or "")

    def state(self) -> np.ndarray:
        """What every seat is shown, one after the other."""
        texts = [self.env.observe(agent) or "" for agent in self.possible_agents]
        return np.concatenate([self.form.reader.encode(text) for text in texts])

    def _renew(self) -> None:
        self.form.renew()
        infos = self.env.infos
        self.infos = {agent: self.form.info(self.env, agent, infos[agent]) for agent in infos}


def is_whole(action: Any, dimensions: int) -> bool:
    """Whether an action is whole numbers: one (0 dimensions), or a list of them (1)."""
    try:
        array = np.asarray(action)
    except ValueError:  # lists of different lengths
        return False
    return array.ndim == dimensions and np.issubdtype(array.dtype, np.integer)


def check_joint(actions: Any, agents: Sequence[str] = ()) -> None:
    """Refuse what is no joint action, of all of `agents` where there are some.

    Raises:
        TypeError: no dict.
        ValueError: an action is missing, or there are others.
    """
    if not isinstance(actions, Mapping):
        raise TypeError(f"actions: expected a dict agent -> action, got {type(actions).__name__}")
    if agents and set(actions) != set(agents):
        raise ValueError(f"actions for {[*actions]}: expected one for each of {agents}")


def check_text(env: Any, wrapper: str) -> None:
    """Refuse what is no PettingZoo environment of texts.

    Raises:
        TypeError: as it says; the message names the wrapper.
    """
    if not hasattr(env, "possible_agents"):
        raise TypeError(f"{wrapper}: expected a PettingZoo environment, got {type(env).__name__}")
    for agent in env.possible_agents:
        space = env.action_space(agent)
        if isinstance(space, NUMBERS):
            raise TypeError(
                f"{wrapper}: expected a text environment, but actions of {agent} are {space}; "
                "`Choose` or `Tokenize` comes last, around `Partners` and inside `GymSeat`"
            )


def in_numbers(env: Any, form: Form) -> Any:
    """A text environment of either form in numbers.

    A turn-based environment that was made parallel is taken as it was: the parallel form asks
    seats whose answers it throws away, and a trainer would learn from those.
    """
    if len(env.possible_agents) > 1:
        env = as_played(env)
    return NumbersAEC(env, form) if isinstance(env, AECEnv) else NumbersParallel(env, form)


def can_act(env: Any, agent: str) -> bool:
    """Whether it is `agent` that acts next, or acts with others."""
    if not isinstance(env, AECEnv):
        return agent in env.agents
    if agent not in env.agents or env.agent_selection != agent:
        return False
    return not (env.terminations[agent] or env.truncations[agent])
