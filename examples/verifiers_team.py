"""verifiers: a module that it loads as an environment, one agent and one trace per seat.

`vf-eval verifiers_team` finds it by its name, once it can be imported.
"""

from __future__ import annotations

import asyncio
import os

import verifiers.v1 as vf
from support.expert_server import answering, expert_answers
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from llm_marl_envs import make
from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.bridges.verifiers import InProcess, environment
from llm_marl_envs.policies import ScriptedPolicy

__all__ = ["InProcess", "Tasks", "Team"]
ENV = "debate-v0"  # two turns per seat
Tasks, Team = environment(ENV, split="test")


def play(seed: int) -> list[tuple[float, float]]:
    """Returns of four tasks, played by verifiers and in process, by the same scripted experts."""
    os.environ.setdefault("LOCAL_KEY", "none")
    env = load_environment(resolve_env_config({"taskset": {"id": __name__}}))
    tasks = range(4 * seed, 4 * seed + 4)
    here = make(ENV, split="test")
    answer = expert_answers(here, tasks)

    async def played(url: str) -> list[tuple[float, float]]:
        client = vf.EvalClientConfig(base_url=f"{url}/v1", api_key_var="LOCAL_KEY")
        asked = vf.ModelContext(model="expert", client=client, sampling=SamplingConfig())
        pairs = []
        async with env.serving():
            for task in env.taskset.include(idx=[f"{tasks.start}:{tasks.stop}"]):
                there = await env.run_episode(task, asked)
                expert = ScriptedPolicy(lambda request: answer(request.messages))
                seats = dict.fromkeys(here.possible_agents, expert)
                same = await play_episode(here, task.data.id, seats=seats)
                for trace in there.traces:
                    own = same.undiscounted_return(trace.agent.name)
                    pairs.append((trace.rewards["return"].score, own))
        return pairs

    with answering(answer) as server:
        return asyncio.run(played(server.url))


if __name__ == "__main__":
    print(play(seed=0))
