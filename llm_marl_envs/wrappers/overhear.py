"""Environments in which the others are shown something else than what one agent wrote.

A twin, a second copy of the environment, is played with the same actions but for the texts of one
agent, the speaker. The speaker is shown what the real environment shows, everybody else what the
twin does; rewards and the end come from the real one. Works with any environment that is a function
of (seed, task, actions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from llm_marl_envs.core.forms import as_played
from llm_marl_envs.core.outcome import BESIDE

Instead = Callable[[int], str]
"""k -> what is heard in the place of the speaker's k-th action."""


class _Twin:
    """The second copy, and whether it still goes along."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.speaker = ""
        self.instead: Instead = str
        self.begin()

    def begin(self) -> None:
        self.turn = 0
        self.heard = False  # whether another agent was shown something that differs
        # Whether the twin ended, or asked another agent, while the real one went on.
        self.parted = False

    def text(self) -> str:
        self.turn += 1
        return self.instead(self.turn - 1)

    def shown(self, agent: str, real: Any, other: Any) -> Any:
        """What `agent` is shown."""
        if agent == self.speaker or self.parted:
            return real
        self.heard |= str(other) != str(real)
        return other


class _Overheard:
    """What both forms share: the twin, which begins and ends with the real environment."""

    env: Any

    def __init__(self, env: Any, twin: Any) -> None:
        super().__init__(env)  # pyright: ignore[reportCallIssue] - of PettingZoo's wrapper
        self.spec = getattr(env, "spec", None)
        self.twin = _Twin(twin)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode of both; openings are nobody's message."""
        self.twin.begin()
        self.twin.env.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=options)

    def close(self) -> None:
        """Close both."""
        self.twin.env.close()
        self.env.close()


class OverhearParallel(_Overheard, BaseParallelWrapper[str, Any, str]):
    """See the module; for simultaneous environments."""

    def step(self, actions: Mapping[str, str]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Step both; observations as the module says, the rest from the real one."""
        before = list(self.env.agents)
        observations, *rest = self.env.step(dict(actions))
        infos = rest[-1]
        twin = self.twin
        twin.parted |= list(twin.env.agents) != before
        if not twin.parted:
            heard = dict(actions)
            if twin.speaker in heard and not infos.get(twin.speaker, {}).get(BESIDE):
                heard[twin.speaker] = twin.text()
            others = twin.env.step(heard)[0]
            twin.parted |= bool(self.env.agents) and list(twin.env.agents) != list(self.env.agents)
            if self.env.agents:  # what is shown at the end is read by nobody
                observations = {
                    agent: twin.shown(agent, real, others.get(agent))
                    for agent, real in observations.items()
                }
        return observations, *rest


class OverhearAEC(_Overheard, BaseWrapper[str, Any, Any]):
    """See the module; for turn-based environments."""

    def step(self, action: Any) -> None:
        """Step both."""
        twin, agent = self.twin, self.env.agent_selection
        self.env.step(action)
        if not twin.parted:
            speaks = agent == twin.speaker and action is not None
            beside = self.env.infos.get(agent, {}).get(BESIDE)  # shown to nobody: no message
            twin.env.step(twin.text() if speaks and not beside else action)
            twin.parted |= _next(self.env) is not None and _next(twin.env) != _next(self.env)

    def observe(self, agent: str) -> Any:
        """The real observation for the speaker, the twin's for the others."""
        real = self.env.observe(agent)
        if self.twin.parted:
            return real
        return self.twin.shown(agent, real, self.twin.env.observe(agent))


def _next(env: Any) -> tuple[str, bool] | None:
    """Who is to act and whether it is dead; None after the end."""
    if not env.agents:
        return None
    agent = env.agent_selection
    return agent, env.terminations[agent] or env.truncations[agent]


def overhear(make_env: Callable[[], Any]) -> OverhearParallel | OverhearAEC:
    """One environment with its twin."""
    real, twin = as_played(make_env()), as_played(make_env())
    wrapper = OverhearAEC if isinstance(real, AECEnv) else OverhearParallel
    return wrapper(real, twin)
