"""`debate-v0`: the contract, what debaters see, how votes are counted and paid."""

from __future__ import annotations

import pytest
from pettingzoo.test import api_test, seed_test

from llm_marl_envs import make
from llm_marl_envs.envs.debate import DebateEnv
from llm_marl_envs.policies import ExpertPolicy, ScriptedPolicy
from llm_marl_envs.questions import question_of
from llm_marl_envs.records import Episode, Request
from llm_marl_envs.rollout import Start, rollout
from llm_marl_envs.testing import check_text_env
from llm_marl_envs.vector import VectorTextEnv


class Agreed:
    """An expert that follows the convention of one number in every kind."""

    def __init__(self, env: DebateEnv, number: int) -> None:
        self.env, self.number = env, number

    def act(self, requests):
        answers = []
        for request in requests:
            known = self.env.conventions(self.env.source.find(request.task_id))
            expert = ExpertPolicy(self.env, known[self.number % len(known)])
            answers += expert.act([request])
        return answers


def agreed(env: DebateEnv, number: int = 0) -> dict[str, Agreed]:
    return dict.fromkeys(env.possible_agents, Agreed(env, number))


def test_contract() -> None:
    """`debate-v0` in its default and in its other forms."""
    for kwargs in (
        {},
        {"n_agents": 5, "rounds": 3, "pay": "own"},
        {"n_agents": 2, "info": "full"},
        {"rounds": 1},
    ):
        check_text_env(
            lambda kwargs=kwargs: make("debate-v0", **kwargs),
            solution=agreed if kwargs.get("rounds") != 1 else None,
            solution_return=1.0,
        )
