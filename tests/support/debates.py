"""Teams and episodes of environments in which seats answer questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Episode, Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.questions import question_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, ScriptedPolicy

GSM = {"question": "What is 40 plus 2?", "answer": "They add up. #### 42"}
"""A row from outside, without evidence."""


def agreed(env: Any, number: int = 0) -> dict[str, Policy]:
    """Honest experts who all follow the task's convention of one number."""
    inner = env.unwrapped

    def script(request: Request) -> str:
        task = inner.source.find(request.task_id)
        known = experts_of(inner).conventions(task)
        return experts_of(inner).reply(
            task, request.agent, known[number % len(known)], request.messages
        )

    return dict.fromkeys(env.possible_agents, ScriptedPolicy(script))


def says(text: str) -> Policy:
    return ScriptedPolicy(lambda request: text)


def right(env: Any, request: Request) -> str:
    return f"Answer: [{question_of(env.source.find(request.task_id)).answer}]"


def knowing(env: Any) -> Policy:
    """Somebody who knows every answer."""
    return ScriptedPolicy(lambda request: right(env, request))


def play(env: Any, team: Mapping[str, Policy], n: int = 1) -> list[Episode]:
    starts = [Start(task=i, seed=i, sample_seed=i) for i in range(n)]
    return rollout(VectorTextEnv([env]), team, starts)
