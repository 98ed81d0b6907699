"""Every wrapper around every environment passes PettingZoo's and Gymnasium's own tests."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo import AECEnv
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.utils.conversions import parallel_to_aec

from llm_marl_envs import list_envs, make
from llm_marl_envs.wrappers import Choose, GymSeat, Partners, Tokenize


def one_seat(env_id: str) -> Any:
    env = make(env_id)
    return Partners(env, dict.fromkeys(env.possible_agents[1:], "expert"))


FORMS: dict[str, Callable[[str], Any]] = {
    "choices": lambda env_id: Choose(make(env_id)),
    "choices, masks in infos": lambda env_id: Choose(make(env_id), mask="info"),
    "choices, masks observed": lambda env_id: Choose(make(env_id), mask="observation"),
    "tokens": lambda env_id: Tokenize(make(env_id), 128, 8),
    "one seat": one_seat,
    "all but one": lambda env_id: Partners(
        make(env_id), {make(env_id).possible_agents[-1]: "expert"}
    ),
    "one seat, choices": lambda env_id: Choose(one_seat(env_id), mask="observation"),
    "one seat, tokens": lambda env_id: Tokenize(one_seat(env_id)),
    "one writer, tokens": lambda env_id: Tokenize(make(env_id, single_seat=True)),
}

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings(
        "ignore:.*unknown reset options",  # PettingZoo's test sends one
        "ignore:.*render",
        "ignore:.*close",
        "ignore::UserWarning:gymnasium",  # spaces without bounds, observations that are not flat
        "ignore::UserWarning:pettingzoo",
    ),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("env_id", list_envs())
def test_pettingzoo(env_id: str, form: str):
    def made() -> Any:
        return FORMS[form](env_id)

    env = made()
    if isinstance(env, AECEnv):
        api_test(env, num_cycles=15)
        seed_test(made, num_cycles=5)
    else:
        parallel_api_test(env, num_cycles=10)
        parallel_seed_test(made, num_cycles=5)
        api_test(parallel_to_aec(made()), num_cycles=5)
    copy = pickle.loads(pickle.dumps(made()))
    first, second = copy.reset(seed=4), env.reset(seed=4)
    assert str(first) == str(second)


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("one ")])
@pytest.mark.parametrize("env_id", list_envs())
def test_gymnasium(env_id: str, form: str):
    check_env(GymSeat(FORMS[form](env_id)), skip_render_check=True)


@pytest.mark.parametrize("env_id", list_envs())
def test_gymnasium_makes_every_id(env_id: str):
    alone = gymnasium.make(f"llm_marl/{env_id}")
    assert isinstance(alone.reset(seed=0)[0], str)
    seats = make(env_id).possible_agents
    beside: Any = gymnasium.make(f"llm_marl/{env_id}", partners=dict.fromkeys(seats[1:], "expert"))
    assert beside.unwrapped.seat == seats[0]
    beside.reset(seed=0)
    _, reward, ended, cut, info = beside.step("")
    assert isinstance(reward, float)
    assert (ended, cut) in ((True, False), (False, False))
    assert info["turn"] == 1
