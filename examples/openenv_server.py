"""OpenEnv: an environment as a server, asked by OpenEnv's own client and as an environment."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import uvicorn
from openenv.core.generic_client import GenericEnvClient

from llm_marl_envs import make
from llm_marl_envs.bridges.openenv import RemoteTeam, app
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.named import Context, seated

PLAYED: dict[str, dict[str, Any]] = {
    "coop_coding-v0": {"turns": 2},
    "debate-v0": {},
    "solve_and_evaluate-v0": {},
}


def serve(env_id: str, **kwargs: Any) -> tuple[uvicorn.Server, str]:
    """A server in a thread, and its address; in a process: `uvicorn module:served`."""
    server = uvicorn.Server(uvicorn.Config(app(env_id, **kwargs), port=0, log_level="critical"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return server, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def by_client(url: str, task: str, texts: Mapping[str, list[str]]) -> float:
    """The team's return where each seat that is to act says the next of its texts."""
    left, paid = {agent: list(own) for agent, own in texts.items()}, 0.0
    with GenericEnvClient(url).sync() as client:
        result = client.reset(seed=0, task=task)
        while not result.done:
            acting = result.observation["acting"]
            result = client.step({"actions": {agent: left[agent].pop(0) for agent in acting}})
            paid += result.reward
    return paid


def play(seed: int) -> list[tuple[float, float]]:
    """Returns over there and in process: experts in `RemoteTeam`, their texts by the client."""
    pairs = []
    for env_id, kwargs in PLAYED.items():
        server, url = serve(env_id, **kwargs)
        here, there = make(env_id, **kwargs), RemoteTeam(url)
        team = seated(dict.fromkeys(here.possible_agents, "expert"), Context(env=here))
        for task in range(4 * seed, 4 * seed + 4):
            starts = [Start(task=task, seed=seed, sample_seed=seed)]
            [one] = rollout(VectorTextEnv([here]), team, starts)
            [same] = rollout(VectorTextEnv([there]), team, starts)
            texts = {a: [turn.action for turn in one.trajectory(a)] for a in one.agents}
            pairs.append((same.team_return, one.team_return))
            pairs.append((by_client(url, one.task_id, texts), one.team_return))
        there.close()
        server.should_exit = True
    return pairs


if __name__ == "__main__":
    print(play(seed=0))
