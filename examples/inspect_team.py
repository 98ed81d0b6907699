"""Inspect: an evaluation whose seats are model roles."""

from __future__ import annotations

import asyncio
from tempfile import mkdtemp
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.model import get_model
from support.expert_server import answering, expert_answers

from llm_marl_envs import make
from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.bridges.inspect import task
from llm_marl_envs.policies import ScriptedPolicy

PLAYED: dict[str, dict[str, Any]] = {
    "coop_writing_arxiv-v0": {"turns": 2},
    "debate-v0": {},
    "solve_and_evaluate-v0": {},
}


def evaluated(env_id: str, arguments: dict[str, Any], tasks: range, url: str) -> list[Any]:
    """The samples of an evaluation with one model in all seats."""
    model = get_model("openai-api/local/expert", base_url=f"{url}/v1", api_key="none")
    [log] = evaluate(
        task(env_id, split="test", **arguments),
        model=None,
        model_roles=dict.fromkeys(make(env_id).possible_agents, model),
        limit=(tasks.start, tasks.stop),
        log_dir=mkdtemp(prefix="inspect_"),
        display="none",
    )
    return log.samples or []


def play(seed: int) -> list[tuple[float, float]]:
    """Returns of four tasks each, in Inspect and in process, by the same scripted experts."""
    pairs = []
    for env_id, arguments in PLAYED.items():
        tasks = range(4 * seed, 4 * seed + 4)
        here = make(env_id, split="test", **arguments)
        answer = expert_answers(here, tasks)
        with answering(answer) as server:
            samples = evaluated(env_id, arguments, tasks, server.url)
        expert = ScriptedPolicy(lambda request, answer=answer: answer(request.messages))
        seats = dict.fromkeys(here.possible_agents, expert)
        for sample in samples:
            same = asyncio.run(play_episode(here, sample.id, seats=seats))
            pairs.append((sample.scores["returns"].value["return"], same.team_return))
    return pairs


if __name__ == "__main__":
    print(play(seed=0))
