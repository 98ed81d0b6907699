"""What docs/bridges/agilerl.md says, with AgileRL, which holds PettingZoo below 1.27."""
# pyright: reportMissingImports=false

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

pytest.importorskip("agilerl", reason="make test-bridges installs it")

from agilerl.algorithms import IPPO
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv
from pettingzoo.test import parallel_api_test

from llm_marl_envs import list_envs, make
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.wrappers import Choose, Partners

ID = "coop_writing_tldr-v0"


def team(**choices: Any) -> Any:
    return Choose(make(ID), **choices)


def ippo(env: Any) -> IPPO:
    seats = env.possible_agents
    return IPPO(
        [env.observation_space(a) for a in seats], [env.action_space(a) for a in seats], seats
    )


def test_pettingzoo_of_agilerl():
    assert tuple(int(part) for part in version("pettingzoo").split(".")[:2]) < (1, 27)
    assert ID in list_envs()
    check_text_env(partial(make, ID))
    parallel_api_test(team(), num_cycles=5)


def test_processes_pay_as_one_environment_does():
    copies = AsyncPettingZooVecEnv([team] * 2)
    seen, _ = copies.reset(seed=7)
    paid = copies.step({"brief_0": np.array([1, 1]), "detailed_0": np.array([1, 1])})[1]
    copies.close()
    for number in range(2):
        env = team()
        alone, _ = env.reset(seed=7 + number)
        assert all((seen[a][number] == alone[a]).all() for a in alone)
        rewards = env.step({"brief_0": 1, "detailed_0": 1})[1]
        assert all(paid[a][number] == pytest.approx(rewards[a]) for a in rewards)


def test_ippo_takes_no_masks():
    copies = AsyncPettingZooVecEnv([partial(team, mask="info")] * 2)
    seen, infos = copies.reset(seed=0)
    copies.close()
    assert len(infos["brief_0"]["action_mask"]) == 2
    with pytest.raises(ValueError, match="truth value of an array"):
        ippo(team()).get_action(obs=seen, infos=infos)


def test_seats_of_one_role_share_a_network():
    alone = Choose(Partners(make("debate-v0"), {"debater_1": "expert", "debater_2": "expert"}))
    assert list(ippo(alone).actors) == ["debater_0"]
    assert list(ippo(team()).actors) == ["brief_0", "detailed_0"]


def test_text_is_refused():
    with pytest.raises(AttributeError, match=r"Can't access action dimensions for .*TextSpace"):
        ippo(make(ID))
