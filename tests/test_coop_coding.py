"""coop_coding-v0: the contract, exact returns, PettingZoo's own tests, determinism."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
)
from pettingzoo.test.state_test import state_test

from llm_marl_envs import make
from llm_marl_envs.core import TextEnv
from llm_marl_envs.envs import coop_coding
from llm_marl_envs.envs.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.policies import Policy, RandomPolicy, ScriptedPolicy
from llm_marl_envs.records import Request
from llm_marl_envs.rollout import Start, replay, rollout
from llm_marl_envs.spaces import render_messages
from llm_marl_envs.tasks import SPLITS
from llm_marl_envs.testing import check_text_env, episode_digest
from llm_marl_envs.vector import VectorTextEnv

ID = "coop_coding-v0"


def agreed(env: Any) -> Mapping[str, Policy]:
    """A team whose experts both follow the task's first convention."""
    inner: TextEnv = env.unwrapped

    def script(request: Request) -> str:
        task = inner.source.find(request.task_id)
        return inner.expert(task, request.agent, inner.conventions(task)[0])

    return dict.fromkeys(env.possible_agents, ScriptedPolicy(script))


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize(
    ("info", "reward", "exact"),
    [("split", "tests", 1.0), ("full", "tests", 1.0), ("split", "paper", None)],
)
def test_contract(turns: int, info: str, reward: str, exact: float | None) -> None:
    check_text_env(
        lambda: make(ID, turns=turns, info=info, reward=reward),
        solution=agreed,
        solution_return=exact,
    )


@pytest.mark.parametrize("feedback", ["plain", "diagnostics", "partner"])
def test_contract_under_contribution(feedback: str) -> None:
    check_text_env(
        lambda: make(ID, turns=2, info="full", feedback=feedback), solution=agreed, seeds=(0,)
    )
