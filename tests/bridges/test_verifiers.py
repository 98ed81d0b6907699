"""Episodes that verifiers plays, over a real OpenAI-compatible server."""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Sequence
from typing import Any

import pytest
from support.expert_server import answering, chat_completion
from support.toys import Relay, WordPair

from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.policies import ScriptedPolicy

pytest.importorskip("verifiers.v1", reason="make test-bridges installs it")

import verifiers.v1 as vf
from pydantic import ValidationError
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from llm_marl_envs.bridges.verifiers import InProcess, environment

PAIR, RELAY = "support.toys:WordPair", "support.toys:Relay"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """(id, settings of verifiers, arguments) -> the environment that verifiers loads."""
    monkeypatch.setenv("LOCAL_KEY", "none")

    def load(env_id: str, config: Any = None, **kwargs: Any) -> Any:
        module: Any = types.ModuleType("own_team")
        module.InProcess = InProcess
        module.Tasks, module.Team = environment(env_id, **kwargs)
        module.__all__ = ["InProcess", "Tasks", "Team"]
        monkeypatch.setitem(sys.modules, "own_team", module)
        settings = {"taskset": {"id": "own_team"}, **(config or {})}
        return load_environment(resolve_env_config(settings))

    return load


def episodes(env: Any, url: str, names: Sequence[str]) -> list[Any]:
    """The episodes of some tasks, which verifiers plays at the same time."""
    client = vf.EvalClientConfig(base_url=f"{url}/v1", api_key_var="LOCAL_KEY")
    context = vf.ModelContext(model="expert", client=client, sampling=SamplingConfig(max_tokens=9))

    async def played() -> list[Any]:
        async with env.serving():
            tasks = list(env.taskset.include(names=list(names)))
            return await asyncio.gather(*(env.run_episode(task, context) for task in tasks))

    return asyncio.run(played())


def own_word(messages: Sequence[Message]) -> str:
    """The right word at the second turn, and text of all kinds at the first."""
    opening = next(m.content for m in messages if "Your word" in m.content)
    right = opening.removeprefix("Your word: ")
    return right if right == "fig" or messages[-1].content != opening else " naïve 漢字 🦜\n"


def by_seat(episode: Any) -> dict[str, Any]:
    assert not episode.errors, episode.errors
    return {trace.agent.name: trace for trace in episode.traces}


def test_a_trace_per_seat_with_what_it_earned(loaded: Any):
    env = loaded(PAIR)
    with answering(own_word) as server:
        [episode] = episodes(env, server.url, ["fig-apple"])
        asked = server.asked
    traces = by_seat(episode)
    assert episode.ok
    same = asyncio.run(
        play_episode(
            WordPair(),
            "fig-apple",
            seats=dict.fromkeys(traces, ScriptedPolicy(lambda r: own_word(r.messages))),
        )
    )
    assert [turn.reward for turn in same.trajectory("left_0")] == [0.5, 0.5]
    for seat in ("left_0", "right_0"):
        assert traces[seat].reward == same.undiscounted_return(seat) == 1.0
        assert traces[seat].metrics == {"turns": 2.0, "success": 1.0, "words": 1.0}
        assert [turn["reward"] for turn in traces[seat].info["turns"]] == [0.5, 0.5]
        assert traces[seat].info["turns"][0]["reward_terms"] == {"words": 0.5}
        assert len(traces[seat].branches) == 1
    # What the model was shown is what the policies of this library are.
    shown = {tuple((m["role"], m["content"]) for m in body["messages"]) for body in asked}
    assert shown == {tuple((m.role, m.content) for m in turn.messages) for turn in same.turns}
    assert all(body["max_tokens"] == 9 for body in asked)


def test_a_turn_based_environment_with_a_partner(loaded: Any):
    env = loaded(RELAY, partners={"runner_1": "expert"})
    with answering(lambda messages: "cedar") as server:
        [episode] = episodes(env, server.url, ["cedar-fig"])
        asked = server.asked
    traces = by_seat(episode)
    assert set(traces) == {"runner_0", "runner_2"}
    assert {trace.reward for trace in traces.values()} == {1.0}
    assert "You hear: cedar" in asked[-1]["messages"][-1]["content"]
    assert len(asked) == 2


def test_an_answer_comes_as_it_was_written(loaded: Any):
    env = loaded(RELAY, partners={"runner_2": "expert"})
    with answering(lambda messages: " naïve\n 漢字 🦜 \n") as server:
        [episode] = episodes(env, server.url, ["cedar-fig"])
        asked = server.asked
    assert episode.ok, episode.errors
    assert asked[1]["messages"][-1]["content"].endswith("You hear:  naïve\n 漢字 🦜 \n")


def test_many_episodes_at_once(loaded: Any):
    env = loaded(PAIR)
    names = ["fig-apple", "birch-elder", "daisy-fig", "elder-cedar"]
    with answering(lambda messages: own_word(messages).strip()) as server:
        played = episodes(env, server.url, names)
    assert {episode.task.data.name for episode in played} == set(names)
    assert {trace.reward for episode in played for trace in episode.traces} == {1.0}


def test_a_seat_may_have_a_model_of_its_own(loaded: Any):
    env = loaded(PAIR, {"left_0": {"model": "other"}}, turns=1)
    with answering(own_word) as server:
        [episode] = episodes(env, server.url, ["fig-apple"])
        models = {body["messages"][-1]["content"]: body["model"] for body in server.asked}
    assert models == {"Your word: fig": "other", "Your word: apple": "expert"}
    assert set(by_seat(episode)) == {"left_0", "right_0"}


def test_a_seat_at_its_limit_is_silent(loaded: Any):
    env = loaded(PAIR, {"right_0": {"max_turns": 1}})
    with answering(own_word) as server:
        [episode] = episodes(env, server.url, ["fig-apple"])
        spoken = sorted(body["messages"][1]["content"] for body in server.asked)
    assert spoken == ["Your word: apple", "Your word: fig", "Your word: fig"]
    assert {seat: trace.reward for seat, trace in by_seat(episode).items()} == {
        "left_0": 0.5,
        "right_0": 0.5,
    }


def test_a_model_that_fails_fails_the_episode_and_names_the_seat(loaded: Any):
    env = loaded(PAIR)
    with answering(own_word) as server:
        right = server.script

        def script(body: Any, number: int) -> Any:
            broken = body["messages"][1]["content"] == "Your word: apple"
            return (500, {}, b"out of memory") if broken else right(body, number)

        server.script = script
        [episode] = episodes(env, server.url, ["fig-apple"])
    assert not episode.ok
    assert "task 'fig-apple', right_0, turn 0" in episode.errors[0].message
    assert all("return" not in trace.rewards for trace in episode.traces)


def test_an_empty_answer_is_silence(loaded: Any):
    env = loaded(PAIR, turns=1)
    with answering(own_word) as server:
        server.script = lambda body, number: chat_completion("")
        [episode] = episodes(env, server.url, ["fig-apple"])
    assert episode.ok, episode.errors
    assert {trace.reward for trace in episode.traces} == {0.0}


def test_wrong_names(loaded: Any):
    with pytest.raises(ValueError, match="no environment 'debat-v0'"):
        environment("debat-v0")
    with pytest.raises(ValueError, match=r"partners: got \['debater_9'\]; expected some of"):
        environment("debate-v0", partners={"debater_9": "expert"})
    everybody = dict.fromkeys(Relay().possible_agents, "expert")
    with pytest.raises(ValueError, match="at least one seat left"):
        environment(RELAY, partners=everybody)
    with pytest.raises(ValidationError, match="left_9"):
        loaded(PAIR, {"left_9": {"model": "other"}})
    with pytest.raises(ValueError, match="no policy 'expret'"):
        environment(PAIR, partners={"left_0": "expret"})
