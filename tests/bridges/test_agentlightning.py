"""Agent Lightning runs the example: its own runner and store, in front of a real server."""

# ruff: noqa: E402 - what is not installed is found out first
from __future__ import annotations

import os

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network first
agl = pytest.importorskip("agentlightning", reason="make test-bridges installs it")

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

from support.examples import example
from support.serving import served
from support.toys import WordPair
from support.word_model import word_model_folder

from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.json_server import EndpointError

word_model = pytest.fixture(word_model_folder, name="word_model", scope="module")


@pytest.fixture(scope="module")
def server(word_model: str) -> Iterator[str]:
    os.environ["no_proxy"] = "127.0.0.1,localhost"
    with served(word_model) as url:
        yield url


@pytest.fixture(scope="module")
def made() -> Any:
    found = example("agentlightning_agent")
    partner = ScriptedPolicy(lambda request: "wrong")
    vars(found).update(
        ENV=WordPair(),
        LEARNER="left_0",
        PARTNERS={"right_0": partner},
        OPTIONS={"max_completion_length": 8, "temperature": 0.0, "retries": 0},
    )
    return found


async def stepped(made: Any, store: Any, task: str, llm: Any) -> Any:
    """The spans of one rollout of its runner."""
    runner = agl.LitAgentRunner(agl.OtelTracer())
    with runner.run_context(agent=made.debater, store=store):
        rollout = await runner.step({"task": task}, resources={"llm": llm})
    assert rollout.status == "succeeded"
    return await store.query_spans(rollout.rollout_id)


def test_its_runner_awaits_the_function_and_keeps_the_reward(
    server: str, word_model: str, made: Any
):
    llm = agl.LLM(endpoint=f"{server}/v1", model=word_model, sampling_parameters={"top_p": 1.0})
    spans = asyncio.run(stepped(made, agl.InMemoryLightningStore(), "fig-apple", llm))
    # The model says its word at its first turn, which is half of what the team can earn.
    assert agl.find_final_reward(spans) == 0.5
    assert made.check(0) is None


def test_a_server_that_is_down_fails_the_rollout(made: Any):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    llm = agl.LLM(endpoint=f"{url}/v1", model="policy", sampling_parameters={})
    with pytest.raises(EndpointError, match=r"task 'fig-apple', left_0, turn 0: .*no answer"):
        asyncio.run(stepped(made, agl.InMemoryLightningStore(), "fig-apple", llm))
