"""`GymSeat`: an environment with one seat as a `gymnasium.Env`.

env = GymSeat(Choose(Partners(make("coop_writing_tldr-v0"), {"brief_0": "expert"})))
env = gymnasium.make("llm_marl/debate-v0", partners={"debater_1": "expert"})
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel

from llm_marl_envs.core.checks import seed_of
from llm_marl_envs.core.forms import as_played
from llm_marl_envs.core.outcome import paid


class GymSeat(gymnasium.Env[Any, Any]):
    """The only seat of a PettingZoo environment, of either form.

    Args:
        env: texts, or numbers by `Choose` or `Tokenize`.

    Attributes:
        seat: its name.

    Raises:
        TypeError: no PettingZoo environment.
        ValueError: it has several seats; the message says what to do with the others.
    """

    def __init__(self, env: Any) -> None:
        seats = getattr(env, "possible_agents", None)
        if seats is None:
            raise TypeError(f"GymSeat: expected a PettingZoo environment, got {type(env).__name__}")
        if len(seats) != 1:
            raise ValueError(
                f"GymSeat: expected one seat, got {seats}; give the others to `Partners`, or make "
                "the environment with single_seat=True, where one agent plays all"
            )
        self.env: Any = turn_based_aec_to_parallel(env) if isinstance(env, AECEnv) else env
        self.seat = seats[0]
        self.observation_space = env.observation_space(self.seat)
        self.action_space = env.action_space(self.seat)
        self.metadata = dict(env.metadata)
        self.render_mode = self.env.render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; `options={"task": ...}` chooses its task."""
        super().reset(seed=None if seed is None else seed_of(seed))
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations[self.seat], infos[self.seat]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action of the seat.

        Raises:
            RuntimeError: before `reset` or after the end of the episode.
        """
        if not getattr(self.env, "agents", ()):
            raise RuntimeError("GymSeat: no episode is running; call reset()")
        observations, rewards, ended, cut, infos = self.env.step({self.seat: action})
        seat = self.seat
        return observations[seat], paid(rewards[seat], seat), ended[seat], cut[seat], infos[seat]

    def action_masks(self) -> np.ndarray:
        """Which actions are possible now, bool (k,), as sb3-contrib asks for them.

        Raises:
            AttributeError: actions are no choices; `Choose` makes them so.
        """
        inner = as_played(self.env)
        if not hasattr(inner, "action_mask"):
            raise AttributeError("GymSeat: there are no action masks; put `Choose` inside")
        return inner.action_mask(self.seat).astype(bool)

    def render(self) -> Any:
        """As the environment inside."""
        return self.env.render()

    def close(self) -> None:
        """As the environment inside."""
        self.env.close()
