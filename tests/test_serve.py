"""A real OpenAI-compatible server takes the embedded model: `transformers serve` on a CPU."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.policies import derive_seed
from llm_marl_envs.records import Request
from trainers.team_files import build_team_model
from trainers.tiny import TinySettings, tiny_model
from trainers.token_policy import TokenPolicy


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "transformers"), "serve", model]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(120):
            try:
                ask(f"http://127.0.0.1:{port}/health")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        chat = [{"role": message.role, "content": message.content} for message in opening]
        answer = ask(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            {"model": model, "messages": chat, "max_tokens": 16, "temperature": 0},
        )
    finally:
        server.kill()
        server.wait()
    assert answer["choices"][0]["message"]["content"] == local.text
