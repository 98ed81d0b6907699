"""A real OpenAI-compatible server takes the embedded model: `transformers serve` on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.serving import ask, served

from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import derive_seed
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.team_files import build_team_model
from trainers.weights.tiny import TinySettings, tiny_model


@pytest.mark.long
def test_the_served_model_answers_as_the_policy_does(tmp_path: Path):
    model = tiny_model(tmp_path / "tiny", settings=TinySettings(steps=30, demonstrations=500))
    env = make("coop_coding-v0")
    env.reset(seed=0)
    opening = env.opening(env.task)["helper_0"]
    team = build_team_model(model, env.possible_agents, weights="shared")
    policy = TokenPolicy(team, max_completion_length=16, temperature=0.0)
    local = policy.act(
        [
            Request(
                env_id="coop_coding-v0",
                agent="helper_0",
                turn=0,
                episode=0,
                task_id=env.task.id,
                messages=tuple(opening),
                observation=opening[0].content,
                seed=derive_seed("serve"),
            )
        ]
    )[0]
    with served(model) as url:
        chat = [{"role": message.role, "content": message.content} for message in opening]
        answer = ask(
            f"{url}/v1/chat/completions",
            {"model": model, "messages": chat, "max_tokens": 16, "temperature": 0},
        )
    assert answer["choices"][0]["message"]["content"] == local.text
