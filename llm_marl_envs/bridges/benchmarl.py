"""BenchMARL: an environment of choices as a task for its algorithms.

    def env():
        return Choose(make("coop_writing_tldr-v0"), mask="info")

    Experiment(task=TextTask("tldr", env), algorithm_config=MappoConfig.get_from_yaml(), ...)

All seats are one group, so algorithms with a critic or a mixer for the team have the whole team.
Needs the extra `benchmarl`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper

from llm_marl_envs.core.extras import Extra

with Extra("benchmarl", "BenchMARL's bridge"):
    from benchmarl.environments.common import TaskClass
    from torchrl.data import Composite
    from torchrl.envs import MarlGroupMapType, PettingZooWrapper


class TextTask(TaskClass):
    """A simultaneous environment whose actions are choices, as a task of BenchMARL.

    Args:
        name: what BenchMARL's files and tables call it.
        env: makes one environment, e.g. a function that returns `Choose(make(id), mask="info")`.
            BenchMARL pickles the task: a module's function, a class, or a `functools.partial`.
        max_steps: most steps of an episode of its evaluation, >= 1; more than an episode has are
            not played.

    Raises:
        TypeError: `env` cannot be called or pickled, or makes no simultaneous environment of
            choices; the message names the wrapper that does.
        ValueError: `max_steps` below 1.
    """

    def __init__(self, name: str, env: Callable[[], Any], max_steps: int = 100) -> None:
        if not callable(env):
            raise TypeError(
                f"TextTask: env={env!r:.80}: expected a function that makes an environment, for "
                "BenchMARL plays several"
            )
        try:
            pickle.dumps(env)
        except Exception as error:  # pickling raises anything
            raise TypeError(
                f"TextTask: env={env!r:.80} cannot be pickled, and BenchMARL pickles its task; "
                "expected a module's function, a class, or functools.partial of one"
            ) from error
        if max_steps < 1:
            raise ValueError(f"TextTask: max_steps={max_steps}: expected at least 1")
        _choices(env())
        super().__init__(name, {"env": env, "max_steps": max_steps})

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], Any]:
        """Makes one environment, as BenchMARL asks for it."""
        env = self.config["env"]
        return lambda: PettingZooWrapper(
            _choices(env()),
            group_map=MarlGroupMapType.ALL_IN_ONE_GROUP,
            return_state=True,
            categorical_actions=True,
            seed=seed,
            device=device,
        )

    def supports_continuous_actions(self) -> bool:
        """No."""
        return False

    def supports_discrete_actions(self) -> bool:
        """Yes."""
        return True

    def has_render(self, env: Any) -> bool:
        """No: there are no pictures."""
        return False

    def max_steps(self, env: Any) -> int:
        """As given."""
        return self.config["max_steps"]

    def group_map(self, env: Any) -> dict[str, list[str]]:
        """All seats in one group."""
        return env.group_map

    def observation_spec(self, env: Any) -> Any:
        """What the seats are shown."""
        return _only(env, "observation")

    def action_mask_spec(self, env: Any) -> Any:
        """Which choices are possible; None where `Choose` was given no `mask`."""
        return _only(env, "action_mask")

    def info_spec(self, env: Any) -> None:
        """None: nothing of it is for networks."""

    def state_spec(self, env: Any) -> Any:
        """What all seats are shown, one after the other."""
        return Composite({"state": env.observation_spec["state"].clone()})

    def action_spec(self, env: Any) -> Any:
        """One number per seat."""
        return env.full_action_spec

    @staticmethod
    def env_name() -> str:
        """The name of this library in BenchMARL's files."""
        return "llm_marl"


def _only(env: Any, key: str) -> Any:
    """The specs under one name, of each group that has it; None if no group has."""
    specs = {
        group: Composite({key: env.observation_spec[group, key].clone()}, shape=shape)
        for group in env.group_map
        for shape in [env.observation_spec[group].shape]
        if key in env.observation_spec[group].keys()  # noqa: SIM118 - a spec, not a dict
    }
    return Composite(specs) if specs else None


def _choices(env: Any) -> Any:
    """The environment, if it is one that BenchMARL can play.

    Raises:
        TypeError: it is not.
    """
    seats = getattr(env, "possible_agents", None)
    if seats is None:
        raise TypeError(f"TextTask: expected a PettingZoo environment, got {type(env).__name__}")
    for seat in seats:
        space = env.action_space(seat)
        if not isinstance(space, spaces.Discrete):
            raise TypeError(
                f"TextTask: {seat} acts in {space}, and BenchMARL needs choices; put "
                'llm_marl_envs.wrappers.Choose(env, mask="info") around the text environment'
            )
        if isinstance(env.observation_space(seat), spaces.Dict):
            raise TypeError(
                f"TextTask: observations of {seat} are a Dict, which BenchMARL's networks do not "
                'take; give Choose mask="info"'
            )
    turns = isinstance(env, (AECEnv, turn_based_aec_to_parallel_wrapper))
    if turns and len(seats) > 1:
        raise TypeError(
            f"TextTask: of {seats} one acts after the other, and BenchMARL asks all at every step; "
            "leave one seat with Partners(env, team) inside Choose, or take a simultaneous one"
        )
    return env
