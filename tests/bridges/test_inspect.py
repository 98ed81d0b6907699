"""Evaluations by Inspect, with its own mock model and over a real OpenAI-compatible server."""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.expert_server import answering
from support.toys import Relay, WordPair

from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.core.records import episode_from_dict
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.policies import ScriptedPolicy

pytest.importorskip("inspect_ai", reason="make test-bridges installs it")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.log import read_eval_log
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model

from llm_marl_envs.bridges.inspect import returns, task

PAIR, RELAY = "support.toys:WordPair", "support.toys:Relay"
SEATS = ("left_0", "right_0")


def mock(answer: Callable[[Sequence[Message]], str], stop: Any = "stop") -> Any:
    """Inspect's mock of a model."""

    def output(messages: Any, *_: Any) -> ModelOutput:
        text = answer([Message(message.role, message.text) for message in messages])
        made = ModelOutput.from_content("mockllm", text, stop_reason=stop)
        made.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)  # else it counts
        return made

    return get_model("mockllm/model", custom_outputs=output, memoize=False)


def own_word(messages: Sequence[Message]) -> str:
    """The right word at the second turn, and text of all kinds at the first."""
    prompt = messages[1].content
    return prompt.removeprefix("Your word: ") if len(messages) > 2 else " naïve 漢字 🦜\n"


def evaluated(folder: Path, tasks: Any, **changes: Any) -> Any:
    settings = {"log_dir": str(folder), "display": "none", "model": None, **changes}
    [log] = evaluate(tasks, **settings)
    return log


def test_seats_are_model_roles(tmp_path: Path):
    roles = {"left_0": mock(own_word), "right_0": mock(lambda messages: "apple")}
    log = evaluated(tmp_path, task(PAIR), model_roles=roles, sample_id=["fig-apple"])
    assert log.status == "success", log.error
    [sample] = log.samples
    score = sample.scores["returns"]
    assert score.value == {"return": 1.0, "success": 1.0}
    assert score.metadata["returns"] == dict.fromkeys(SEATS, 1.0)
    assert score.metadata["reward_terms"] == {seat: {"words": 1.0} for seat in SEATS}
    same = asyncio.run(
        play_episode(
            WordPair(),
            "fig-apple",
            seats={
                "left_0": ScriptedPolicy(lambda r: own_word(r.messages)),
                "right_0": ScriptedPolicy(lambda r: "apple"),
            },
        )
    )
    episode = episode_from_dict(sample.metadata["episode"])
    assert [(t.action, t.messages, t.reward) for t in episode.turns] == [
        (t.action, t.messages, t.reward) for t in same.turns
    ]
    assert episode.turns[0].action == " naïve 漢字 🦜\n"
    calls = [event.role for event in sample.events if event.event == "model"]
    assert sorted(calls) == ["left_0", "left_0", "right_0", "right_0"]  # the sample's own log
    restored = read_eval_log(log.location)
    assert restored.samples[0].scores["returns"].metadata == score.metadata


def test_a_turn_based_environment_with_a_partner(tmp_path: Path):
    heard: list[str] = []

    def runner(messages: Sequence[Message]) -> str:
        heard.append(messages[-1].content)
        return "cedar"

    log = evaluated(
        tmp_path,
        task(RELAY, partners={"runner_1": "expert"}),
        model_roles={"runner_0": mock(runner), "runner_2": mock(runner)},
        sample_id=["cedar-fig", "daisy-fig"],
    )
    values = {sample.id: sample.scores["returns"].value["return"] for sample in log.samples}
    assert values == {"cedar-fig": 1.0, "daisy-fig": 0.0}
    assert len(heard) == 4
    metrics = log.results.scores[0].metrics
    assert metrics["mean"].value == 0.5


def test_a_server_plays_and_settings_of_a_role_reach_it(tmp_path: Path):
    with answering(own_word) as server:
        model = get_model(
            "openai-api/local/expert",
            base_url=f"{server.url}/v1",
            api_key="none",
            config=GenerateConfig(max_tokens=9),
        )
        log = evaluated(
            tmp_path,
            task(PAIR),
            model_roles=dict.fromkeys(SEATS, model),
            sample_id=["fig-apple", "birch-elder"],
        )
        asked = server.asked
    assert [sample.scores["returns"].value["return"] for sample in log.samples] == [1.0, 1.0]
    assert len(asked) == 8
    assert {body["max_tokens"] for body in asked} == {9}
    assert [m["role"] for m in asked[0]["messages"]] == ["system", "user"]


def test_a_seat_that_nobody_plays_is_named(tmp_path: Path):
    log = evaluated(
        tmp_path, task(PAIR), model_roles={"left_0": mock(own_word)}, sample_id=["fig-apple"]
    )
    assert log.status == "error"
    assert "nobody plays ['right_0']" in log.error.message
    assert "partners={'right_0': 'expert'}" in log.error.message


def test_a_model_that_fails_fails_the_sample(tmp_path: Path):
    def broken(messages: Sequence[Message]) -> str:
        raise OSError("out of memory")

    roles = {"left_0": mock(own_word), "right_0": mock(broken)}
    log = evaluated(tmp_path, task(PAIR), model_roles=roles, sample_id=["fig-apple"])
    assert log.status == "error"
    assert "out of memory" in log.error.message


def test_a_sample_that_a_limit_ends_is_not_scored(tmp_path: Path):
    roles = dict.fromkeys(SEATS, mock(own_word))
    log = evaluated(tmp_path, task(PAIR), model_roles=roles, sample_id=["fig-apple"], token_limit=1)
    [sample] = log.samples
    assert sample.limit.type == "token"
    assert math.isnan(sample.scores["returns"].value["return"])


def test_an_answer_that_was_cut_is_marked(tmp_path: Path):
    roles = dict.fromkeys(SEATS, mock(lambda messages: "fi", "max_tokens"))
    log = evaluated(
        tmp_path, task(PAIR, turns=1), model_roles=roles, sample_id=["fig-apple"], epochs=2
    )
    for sample in log.samples:
        episode = episode_from_dict(sample.metadata["episode"])
        assert all(turn.response.cut for turn in episode.turns)
    assert len(log.samples) == 2


def test_wrong_names():
    with pytest.raises(ValueError, match="no environment 'debat-v0'"):
        task("debat-v0")
    with pytest.raises(ValueError, match=r"partners: got \['debater_9'\]; expected some of"):
        task("debate-v0", partners={"debater_9": "expert"})
    with pytest.raises(ValueError, match="at least one seat left"):
        task(RELAY, partners=dict.fromkeys(Relay().possible_agents, "expert"))
    assert isinstance(task(PAIR, partners={"left_0": ScriptedPolicy(lambda r: "")}), Task)
    assert returns() is not None
