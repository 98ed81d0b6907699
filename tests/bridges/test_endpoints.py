"""The examples for trainers that offer a server: against a real one, beside the same in process.

Of the trainers only the names stand here that the examples import; what the trainers themselves
make of the functions is tested where they can be installed (tests/bridges/test_agentlightning.py).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from support.examples import example
from support.recorder import Recorder, recording
from support.serving import served
from support.toys import WordPair
from support.word_model import word_model_folder
from transformers import AutoTokenizer

from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.records import Episode
from llm_marl_envs.policies import ScriptedPolicy
from trainers import LocalPolicy

pytestmark = pytest.mark.long  # a server that takes long to start; make test-bridges runs it, too
word_model = pytest.fixture(word_model_folder, name="word_model", scope="module")
SEATS = ("left_0", "right_0")
TASK = "fig-apple"
GREEDY: dict[str, Any] = {"max_completion_length": 8, "temperature": 0.0, "retries": 0}


class Summed(WordPair):
    """Pays every seat for its own text; no two texts of an episode are paid the same."""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Both turns are played."""
        return Outcome(
            reward_terms={
                agent: {"sum": crc32(text.encode()) % 97 / 97}
                for agent, text in joint_action.items()
            },
            feedback=dict.fromkeys(joint_action, "Again."),
            success=False,
        )


@pytest.fixture(scope="module")
def server(word_model: str) -> Iterator[str]:
    with served(word_model) as url:
        yield url


@pytest.fixture
def recorder(server: str, word_model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with recording(server, word_model) as one:
        yield one


@pytest.fixture(scope="module")
def in_process(word_model: str) -> Episode:
    policy = LocalPolicy(word_model, max_completion_length=8, temperature=0)
    return asyncio.run(play_episode(Summed(), TASK, seats=dict.fromkeys(SEATS, policy)))


def made_of(name: str, monkeypatch: pytest.MonkeyPatch, **modules: Any) -> Any:
    """The module of an example on our task, with what it imports of a trainer's modules."""
    for module, names in modules.items():
        dotted = module.replace("__", ".")
        made = ModuleType(dotted)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, dotted, made)
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # gone after the test
    found = example(name)
    vars(found).update(ENV=Summed(), SEATS=SEATS, OPTIONS=GREEDY)
    return found


def test_rllm(recorder: Recorder, in_process: Episode, monkeypatch: pytest.MonkeyPatch):
    types = dict.fromkeys(["Episode", "Step", "Trajectory"], SimpleNamespace)
    types |= dict.fromkeys(["AgentConfig", "Task"], SimpleNamespace)
    made = made_of("rllm_flow", monkeypatch, rllm={"rollout": lambda f: f}, rllm__types=types)
    config = SimpleNamespace(base_url=f"{recorder.url}/sessions/7/v1", model="policy")
    episode = asyncio.run(made.team(SimpleNamespace(metadata={"task": TASK}), config))
    assert {one.path for one in recorder.calls} == {"/sessions/7/v1/chat/completions"}
    assert [one.name for one in episode.trajectories] == [*SEATS, *SEATS]
    assert [one.reward for one in episode.trajectories] == [
        in_process.undiscounted_return(one.name) for one in episode.trajectories
    ]
    # rLLM gives the k-th recorded call to the k-th step, trajectory after trajectory.
    steps = [step for one in episode.trajectories for step in one.steps]
    assert [step.chat_completions for step in steps] == [
        [*call.messages, {"role": "assistant", "content": call.text}] for call in recorder.calls
    ]
    assert [step.action for step in steps] == [turn.action for turn in in_process.turns]


def test_areal(recorder: Recorder, in_process: Episode, monkeypatch: pytest.MonkeyPatch):
    made = made_of("areal_workflow", monkeypatch)
    given = {"base_url": recorder.url, "http_client": object(), "api_key": "session-key"}
    rewards = asyncio.run(made.Team().run({"task": TASK}, **given))
    assert {(one.path, one.key) for one in recorder.calls} == {("/chat/completions", "session-key")}
    assert set(rewards) == {one.id for one in recorder.calls}
    by_text = {one.id: one.text for one in recorder.calls}
    assert sorted((by_text[answer], reward) for answer, reward in rewards.items()) == sorted(
        (turn.action, in_process.undiscounted_return(turn.agent)) for turn in in_process.turns
    )
    assert all(type(reward) is float for reward in rewards.values())  # AReaL refuses an int


def test_agent_lightning(recorder: Recorder, in_process: Episode, monkeypatch: pytest.MonkeyPatch):
    names = {"rollout": lambda f: f, "LLM": SimpleNamespace, "LitAgent": object}
    made = made_of("agentlightning_agent", monkeypatch, agentlightning=names)
    actions = [turn.action for turn in in_process.trajectory("right_0")]
    partner = ScriptedPolicy(lambda request: actions[request.turn])
    vars(made).update(LEARNER="left_0", PARTNERS={"right_0": partner})
    url = f"{recorder.url}/rollout/r/attempt/a/v1"
    llm = SimpleNamespace(
        get_base_url=lambda: url, model="policy", api_key="k", sampling_parameters={"top_p": 0.9}
    )
    reward = asyncio.run(made.debater({"task": TASK}, llm))
    assert reward == in_process.undiscounted_return("left_0")
    calls = recorder.calls
    assert [one.path for one in calls] == ["/rollout/r/attempt/a/v1/chat/completions"] * 2
    assert [one.text for one in calls] == [t.action for t in in_process.trajectory("left_0")]


class Sample(SimpleNamespace):
    """The name of slime's; its fields are those that it is given."""

    Status = SimpleNamespace(COMPLETED="completed", TRUNCATED="truncated")


def test_slime(
    recorder: Recorder, word_model: str, in_process: Episode, monkeypatch: pytest.MonkeyPatch
):
    tokenizer = AutoTokenizer.from_pretrained(word_model)
    made = made_of(
        "slime_generate",
        monkeypatch,
        slime__utils__processing_utils={"load_tokenizer": lambda path, **_: tokenizer},
        slime__utils__types={"Sample": Sample},
    )
    recorder.tokenizer = tokenizer
    host, port = recorder.url.removeprefix("http://").split(":")
    args = SimpleNamespace(hf_checkpoint="m", sglang_router_ip=host, sglang_router_port=port)
    given = Sample(index=7, rollout_id=None, metadata={"task": TASK, "row": 1})
    sampling = {"temperature": 0.0, "max_new_tokens": 8}
    samples = asyncio.run(made.generate(args, given, sampling, evaluation=False))
    assert [(one.metadata["seat"], one.reward, one.response) for one in samples] == [
        (turn.agent, in_process.undiscounted_return(turn.agent), turn.action)
        for turn in in_process.turns
    ]
    for one, turn in zip(samples, in_process.turns, strict=True):
        here = turn.response
        assert (here.prompt_ids, here.completion_ids) != (None, None)
        assert one.tokens == [*(here.prompt_ids or ()), *(here.completion_ids or ())]
        count = len(here.completion_ids or ())
        assert (one.response_length, one.loss_mask) == (count, [1] * count)
        assert one.rollout_log_probs == [-0.5] * count
        assert (one.status, one.rollout_id, one.metadata["row"]) == ("completed", 7, 1)
    assert given.metadata == {"task": TASK, "row": 1}
    cut = asyncio.run(made.generate(args, given, {**sampling, "max_new_tokens": 1}))
    assert {one.status for one in cut} == {"truncated"}


def test_the_episode_tells_seats_and_turns_apart(in_process: Episode):
    """What the tests above compare with."""
    assert [turn.action for turn in in_process.turns] == ["fig", "apple", "figfig", "appleapple"]
    assert len({turn.reward for turn in in_process.turns}) == 4
